#include "pressure/cgroup.h"

#include <string.h>

#include "os/os.h"

enum {
    TEXT_ROOM = 4096,
    PATH_ROOM = 1024,
    CACHE_SHARE = 4,      /* of the limit left: above this the page cache need not be looked at */
    STALLED_PERCENT = 10, /* of the last ten seconds */
};

/* Where the two versions show the same: https://docs.kernel.org/admin-guide/cgroup-v2.html (Memory Interface
 * Files) and .../cgroup-v1/memory.html. v2's `high` throttles and v1's `soft_limit` is what the kernel presses the
 * group down to when the machine is short: who set them wants the group to stay below. */
static const struct version {
    const char *base, *limits[2], *used;
    const char *inactive, *active; /* of the page cache, in memory.stat */
    const char *stall;
} versions[] = {
    {"/sys/fs/cgroup/memory",
     {"memory.limit_in_bytes", "memory.soft_limit_in_bytes"},
     "memory.usage_in_bytes",
     "total_inactive_file ",
     "total_active_file ",
     NULL},
    {"/sys/fs/cgroup",
     {"memory.max", "memory.high"},
     "memory.current",
     "inactive_file ",
     "active_file ",
     "memory.pressure"},
};

/* All this by one thread at a time. Not beside what every process uses: cmake/layout.ld.
 * First the group with least left when that was last looked for. */
__attribute__((section(".bss.cgroup_tightest"))) static struct {
    const struct version *version; /* NULL: none has a limit */
    size_t limit;
    char folder[PATH_ROOM];
} tightest;

__attribute__((section(".bss.cgroup_texts"))) static char list[TEXT_ROOM], text[TEXT_ROOM],
    folder[PATH_ROOM];

/* ---- a file ---- */

static HAK_COLD bool read_text(const char *in, const char *name)
{
    char path[PATH_ROOM + 64];
    os_format(path, sizeof path, "%s/%s", in, name);
    return os_read_file(path, text, sizeof text);
}

static HAK_COLD size_t number_at(const char *digits)
{
    size_t value = 0;
    if (*digits < '0' || *digits > '9')
        return SIZE_MAX; /* "max" */
    for (; *digits >= '0' && *digits <= '9'; digits++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, (size_t)(*digits - '0'), &value))
            return SIZE_MAX;
    }
    return value;
}

/* SIZE_MAX also for what v1 calls no limit: the largest number of whole pages. */
static HAK_COLD size_t read_number(const char *in, const char *name)
{
    size_t value = read_text(in, name) ? number_at(text) : SIZE_MAX;
    return value < SIZE_MAX / 4 ? value : SIZE_MAX;
}

/* Of the line that starts with the name; 0: there is none. */
static HAK_COLD size_t number_in_lines(const char *name)
{
    for (const char *line = text; line != NULL && *line != '\0';) {
        if (strncmp(line, name, strlen(name)) == 0)
            return number_at(line + strlen(name));
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return 0;
}

/* ---- a group ---- */

/* What the kernel's counters call usage holds the page cache, too. The inactive part of that is what it drops
 * before anything else, and what those who set limits leave out: Kubernetes' working set is usage less
 * inactive_file (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/). Of the active part it
 * takes what it needs, too: half of it counts as free, so that who reads files all the time is not near the limit for good. */
static size_t without_cache(const struct version *v, const char *in, size_t limit, size_t used)
{
    if (used < limit - limit / CACHE_SHARE || !read_text(in, "memory.stat"))
        return used;
    size_t cache = number_in_lines(v->inactive) + number_in_lines(v->active) / 2;
    return used > cache ? used - cache : 0;
}

/* "some avg10=1.25 ...": percent of the last ten seconds in which some task waited
 * (https://docs.kernel.org/accounting/psi.html). */
static bool is_stalled(const struct version *v, const char *in)
{
    return v->stall != NULL && read_text(in, v->stall) &&
           number_in_lines("some avg10=") >= STALLED_PERCENT;
}

static HAK_COLD struct cgroup_room room_of(const struct version *v, const char *in, size_t limit)
{
    size_t used = limit != SIZE_MAX ? read_number(in, v->used) : SIZE_MAX;
    if (used == SIZE_MAX)
        return (struct cgroup_room){SIZE_MAX, 0, false};
    return (struct cgroup_room){limit, without_cache(v, in, limit, used), is_stalled(v, in)};
}

/* ---- which group ---- */

/* The path of the group in that version's hierarchy, out of a line "number:controllers:path"; NULL: the line is
 * another hierarchy's. */
static const char *path_in(const char *line, size_t length, const struct version *v)
{
    const char *controllers = memchr(line, ':', length);
    const char *path = controllers != NULL
                           ? memchr(controllers + 1, ':', length - (size_t)(controllers + 1 - line))
                           : NULL;
    if (path == NULL)
        return NULL;
    size_t named = (size_t)(path - controllers - 1);
    if (v == &versions[1])
        return named == 0 ? path + 1 : NULL;
    for (const char *c = controllers + 1; c < path; c += strcspn(c, ",:") + 1) {
        if (strcspn(c, ",:") == strlen("memory") && strncmp(c, "memory", strlen("memory")) == 0)
            return path + 1;
    }
    return NULL;
}

/* From the process' own group, whose folder is `folder`, up to the top. In a container the path may be that outside
 * of it: then the folders on the way are not there, and the top is the container's own. */
static HAK_COLD void climb(const struct version *v, struct cgroup_room *found)
{
    size_t top = strlen(v->base);
    for (;;) {
        size_t limit =
            least_of(read_number(folder, v->limits[0]), read_number(folder, v->limits[1]));
        struct cgroup_room room = room_of(v, folder, limit);
        if (room.limit != SIZE_MAX &&
            (found->limit == SIZE_MAX || room_left(room) < room_left(*found))) {
            *found = room;
            tightest.version = v;
            tightest.limit = limit;
            memcpy(tightest.folder, folder, sizeof folder);
        }
        char *last = strrchr(folder + top, '/');
        if (last == NULL)
            return;
        *last = '\0';
    }
}

static void climb_from(const struct version *v, const char *path, size_t length,
                       struct cgroup_room *found)
{
    size_t base = os_format(folder, sizeof folder, "%s", v->base);
    if (length > 0 && path[length - 1] == '/')
        length--; /* the root's */
    if (base + length >= sizeof folder)
        length = 0;
    memcpy(folder + base, path, length);
    folder[base + length] = '\0';
    climb(v, found);
}

static struct cgroup_room look_anew(void)
{
    struct cgroup_room found = {SIZE_MAX, 0, false};
    tightest.version = NULL;
    if (!os_read_file("/proc/self/cgroup", list, sizeof list))
        return found;
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++) {
        for (const char *line = list, *end; *line != '\0'; line = *end == '\0' ? end : end + 1) {
            end = line + strcspn(line, "\n");
            const char *path = path_in(line, (size_t)(end - line), &versions[i]);
            bool is_cut = end == list + sizeof list - 1; /* then the group is not known: the top */
            if (path != NULL)
                climb_from(&versions[i], path, is_cut ? 0 : (size_t)(end - path), &found);
        }
    }
    return found;
}

HAK_COLD struct cgroup_room cgroup_look(bool anew)
{
    if (anew || tightest.version == NULL)
        return look_anew();
    return room_of(tightest.version, tightest.folder, tightest.limit);
}
