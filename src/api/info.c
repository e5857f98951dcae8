/* The functions that report: glibc's, and hak_stats_get, hak_ctl, hak_purge. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "control/options.h"
#include "control/stats.h"
#include "live/dump.h"
#include "live/live.h"
#include "os/os.h"

HAK_EXPORT size_t hak_purge(void)
{
    size_t trimmed = front_trim();
    return trimmed + front_purge_slabs();
}

HAK_EXPORT size_t hak_stats_get(struct hak_stats *stats, size_t size)
{
    struct numbers n;
    numbers_read(&n);
    struct hak_stats all = {
        .live_bytes = numbers_live(&n),
        .live_blocks = n.small_blocks + n.run_blocks + n.big_blocks,
        .magazine_bytes = n.magazine_bytes,
        .slab_bytes = n.slab_bytes,
        .super_bytes = n.super_bytes,
        .big_bytes = n.big_bytes,
        .dirty_bytes = n.dirty_bytes + n.big_cached,
        .purged_bytes = n.purged_bytes,
        .heaps = n.heaps,
    };
    size = size < sizeof all ? size : sizeof all;
    memcpy(stats, &all, size);
    return size;
}

/* ---- hak_ctl ---- */

static HAK_COLD int give_value(const void *value, size_t size, void *old, size_t *old_size)
{
    if (old == NULL)
        return 0;
    if (old_size == NULL || *old_size != size)
        return EINVAL;
    memcpy(old, value, size);
    return 0;
}

static int ctl_stats(const char *field, void *old, size_t *old_size)
{
    static const struct {
        char name[16];
        uint16_t offset;
    } fields[] = {
#define FIELD(name) {#name, offsetof(struct hak_stats, name)}
        FIELD(live_bytes),  FIELD(live_blocks),  FIELD(magazine_bytes),
        FIELD(slab_bytes),  FIELD(super_bytes),  FIELD(big_bytes),
        FIELD(dirty_bytes), FIELD(purged_bytes), FIELD(heaps),
#undef FIELD
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        if (strcmp(field, fields[i].name) != 0)
            continue;
        struct hak_stats stats;
        hak_stats_get(&stats, sizeof stats);
        return give_value((const char *)&stats + fields[i].offset, sizeof(size_t), old, old_size);
    }
    return ENOENT;
}

static HAK_COLD int ctl_counter(const char *name, void *old, size_t *old_size)
{
    for (int i = 0; i < COUNTER_COUNT; i++) {
        if (strcmp(name, hak_counter_names[i]) != 0)
            continue;
        struct numbers n;
        numbers_read(&n);
        return give_value(&n.counters[i], sizeof n.counters[i], old, old_size);
    }
    return ENOENT;
}

/* Of a setting that may be changed; whoever looks at the process sees it. */
static HAK_COLD bool set_option(const char *name, size_t value)
{
    char text[24];
    size_t length = os_format(text, sizeof text, "%u", value);
    bool was_wanted = live_is_wanted();
    if (option_set(name, strlen(name), text, length) != NULL)
        return false;
    live_show_settings();
    if (!was_wanted)
        live_want();
    return true;
}

static int ctl_option(const char *name, void *old, size_t *old_size, const void *new_value,
                      size_t new_size)
{
    size_t value;
    enum option_access access = option_get(name, &value);
    if (access == OPTION_NONE)
        return ENOENT;
    if (access == OPTION_READ && new_value != NULL)
        return EPERM;
    int wrong = give_value(&value, sizeof value, old, old_size);
    if (wrong != 0 || new_value == NULL)
        return wrong;
    if (new_size != sizeof value)
        return EINVAL;
    memcpy(&value, new_value, sizeof value);
    return set_option(name, value) ? 0 : EINVAL;
}

/* The value is the path's address, as jemalloc's prof.dump has it. */
static int ctl_write_profile(const void *new_value, size_t new_size)
{
    const char *path;
    if (new_value == NULL || new_size != sizeof path)
        return EINVAL;
    memcpy(&path, new_value, sizeof path);
    if (path == NULL)
        return EINVAL;
    front_show_inherited();
    return dump_profile(path);
}

static HAK_COLD bool has_prefix(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* What can be read, but for options. */
static int ctl_read(const char *name, void *old, size_t *old_size)
{
    static const char *const version = HAK_STRINGIZE(HAK_VERSION_MAJOR) "." HAK_STRINGIZE(
        HAK_VERSION_MINOR) "." HAK_STRINGIZE(HAK_VERSION_PATCH);
    if (has_prefix(name, "stats."))
        return ctl_stats(name + strlen("stats."), old, old_size);
    if (has_prefix(name, "counter."))
        return ctl_counter(name + strlen("counter."), old, old_size);
    if (strcmp(name, "version") == 0)
        return give_value(&version, sizeof version, old, old_size);
    if (strcmp(name, "opt") == 0) {
        const char *text = options_text();
        return give_value(&text, sizeof text, old, old_size);
    }
    return ENOENT;
}

HAK_EXPORT int hak_ctl(const char *name, void *old, size_t *old_size, const void *new_value,
                       size_t new_size)
{
    if (name == NULL)
        return EINVAL;
    if (strcmp(name, "profile.write") == 0)
        return ctl_write_profile(new_value, new_size);
    if (has_prefix(name, "opt."))
        return ctl_option(name + strlen("opt."), old, old_size, new_value, new_size);
    bool is_purge = strcmp(name, "purge") == 0;
    if (new_value != NULL)
        return is_purge || ctl_read(name, NULL, NULL) != ENOENT ? EPERM : ENOENT;
    if (!is_purge)
        return ctl_read(name, old, old_size);
    hak_purge();
    return 0;
}

/* What only the GNU C library has besides. */
#if HAK_INTERPOSE && defined(__GLIBC__)

HAK_EXPORT int malloc_trim(size_t keep)
{
    (void)keep; /* what the next requests want is for the purge policy to keep */
    return hak_purge() > 0;
}

HAK_EXPORT struct mallinfo2 mallinfo2(void)
{
    struct numbers n;
    numbers_read(&n);
    struct mallinfo2 info;
    memset(&info, 0, sizeof info);
    info.ordblks = n.magazine_blocks;
    info.hblks = n.big_blocks;
    info.hblkhd = n.big_bytes;
    info.uordblks = n.small_bytes + n.run_bytes;
    info.arena = largest_of(n.super_bytes, info.uordblks); /* guarded blocks lie elsewhere */
    info.fordblks = info.arena - info.uordblks;
    info.keepcost = n.dirty_bytes + n.big_cached;
    return info;
}

static int clipped(size_t value)
{
    return value > INT32_MAX ? INT32_MAX : (int)value;
}

HAK_EXPORT struct mallinfo mallinfo(void)
{
    struct mallinfo2 wide = mallinfo2();
    struct mallinfo info;
    memset(&info, 0, sizeof info);
    info.arena = clipped(wide.arena);
    info.ordblks = clipped(wide.ordblks);
    info.hblks = clipped(wide.hblks);
    info.hblkhd = clipped(wide.hblkhd);
    info.uordblks = clipped(wide.uordblks);
    info.fordblks = clipped(wide.fordblks);
    info.keepcost = clipped(wide.keepcost);
    return info;
}

HAK_COLD HAK_EXPORT void malloc_stats(void)
{
    struct numbers n;
    numbers_read(&n);
    (void)numbers_print(&n, STDERR_FILENO);
}

static void print_xml_class(FILE *out, uint32_t class, const struct class_numbers *c)
{
    size_t size = hak_classes[class].size;
    fprintf(out, "<size from=\"%zu\" to=\"%zu\" total=\"%zu\" count=\"%zu\" slabs=\"%zu\"/>\n",
            size, size, c->blocks * size, c->blocks, c->slabs);
}

HAK_COLD HAK_EXPORT int malloc_info(int options, FILE *out)
{
    if (options != 0) {
        errno = EINVAL;
        return -1;
    }
    struct numbers n;
    numbers_read(&n);
    fprintf(out, "<malloc version=\"hakmem-1\">\n<heap nr=\"0\">\n<sizes>\n");
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        if (n.classes[class].slabs != 0)
            print_xml_class(out, class, &n.classes[class]);
    }
    fprintf(out, "</sizes>\n</heap>\n");
    fprintf(out, "<total type=\"live\" count=\"%zu\" size=\"%zu\"/>\n",
            n.small_blocks + n.run_blocks + n.big_blocks, numbers_live(&n));
    fprintf(out, "<total type=\"magazine\" count=\"%zu\" size=\"%zu\"/>\n", n.magazine_blocks,
            n.magazine_bytes);
    fprintf(out, "<total type=\"mmap\" count=\"%zu\" size=\"%zu\"/>\n", n.big_blocks, n.big_bytes);
    fprintf(out, "<system type=\"current\" size=\"%zu\"/>\n", n.super_bytes + n.big_bytes);
    fprintf(out, "<system type=\"dirty\" size=\"%zu\"/>\n", n.dirty_bytes + n.big_cached);
    fprintf(out, "</malloc>\n");
    return 0;
}

/* M_TRIM_THRESHOLD is the one parameter of glibc's that has a counterpart here. As with glibc nothing is given back where it is
 * below 0, and a program that asks whether another was taken goes on. */
HAK_COLD HAK_EXPORT int mallopt(int parameter, int value)
{
    enum { RETAIN_MOST_SHIFT = 40 };
    if (parameter != M_TRIM_THRESHOLD)
        return 1;
    return set_option("retain", value < 0 ? (size_t)1 << RETAIN_MOST_SHIFT : (size_t)value);
}

#endif
