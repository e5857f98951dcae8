/* The whole interface in one thread, against a model: what a block holds, where it lies, how large it is, what
 * errno says, and that the statistics are those of the model. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heaps.h"

enum { OPERATIONS_MOST = 4096, OTHER_ERRNO = 4242 };

#define COUNT_OF(array) (sizeof(array) / sizeof(array)[0])

/* Where a sanitizer owns malloc, hakmem has its own names only. */
#if HAK_INTERPOSE
#define EITHER(in, name, own) (input_take(in, 1) & 1 ? (own) : (name))
#else
#define EITHER(in, name, own) ((void)input_take(in, 1), own)
#endif

static struct model model;
static struct heaps heaps;
static size_t base_bytes, base_blocks;

/* ---- statistics ---- */

/* In the build `secure` freed blocks count as live while they wait, for longer than a run. */
static void live_check(const struct hak_stats *s)
{
    if (HAK_SECURE)
        return;
    if (s->live_blocks - base_blocks != model.live_blocks)
        broken("%zu live blocks, not %zu", s->live_blocks - base_blocks, model.live_blocks);
    if (s->live_bytes - base_bytes != model.usable_bytes)
        broken("%zu live bytes, not %zu", s->live_bytes - base_bytes, model.usable_bytes);
}

static void statistics_check(void)
{
    struct hak_stats s;
    if (hak_stats_get(&s, sizeof s) != sizeof s)
        broken("hak_stats_get is short");
    live_check(&s);
#if HAK_INTERPOSE
    struct mallinfo2 info = mallinfo2();
    if (info.uordblks + info.hblkhd != s.live_bytes)
        broken("mallinfo2: %zu + %zu live, not %zu", info.uordblks, info.hblkhd, s.live_bytes);
    if (info.uordblks > info.arena || info.arena - info.uordblks != info.fordblks)
        broken("mallinfo2: %zu used and %zu free of %zu", info.uordblks, info.fordblks, info.arena);
#endif
}

static void partial_statistics(struct input *in)
{
    unsigned char bytes[sizeof(struct hak_stats) + 16];
    size_t size = input_take(in, 1) % sizeof bytes;
    memset(bytes, 0xA5, sizeof bytes);
    size_t filled = hak_stats_get((struct hak_stats *)(void *)bytes, size);
    if (filled > size || filled > sizeof(struct hak_stats))
        broken("hak_stats_get(%zu) filled %zu", size, filled);
    for (size_t i = filled; i < sizeof bytes; i++) {
        if (bytes[i] != 0xA5)
            broken("hak_stats_get(%zu) wrote byte %zu", size, i);
    }
}

/* ---- requests ---- */

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static bool is_alignment(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

/* What must come of a request: errno is that of refusal, 0 if it must be met, -1 if either may be. */
static int expected(size_t size, size_t alignment)
{
    if (size > PTRDIFF_MAX)
        return ENOMEM;
    return size <= GIANT && alignment <= ALIGN_SURE ? 0 : -1;
}

/* Whether memory may be written from end to end for a request of that size. */
static bool may_be_written(size_t size)
{
    return size <= GIANT || size > HOPELESS;
}

/* Whether a new block is there, after a look at the refusal. */
static bool granted(const void *p, int wanted, size_t size, size_t alignment)
{
    if (p == NULL && wanted <= 0 && errno != ENOMEM)
        broken("size %zu, alignment %zu: NULL with errno %d", size, alignment, errno);
    if (p == NULL && wanted == 0)
        refused(size, alignment);
    if (p == NULL && wanted > 0 && errno != wanted)
        broken("size %zu, alignment %zu: errno %d, not %d", size, alignment, errno, wanted);
    if (p != NULL && wanted > 0)
        broken("size %zu, alignment %zu: granted", size, alignment);
    return p != NULL;
}

static size_t free_slot(struct input *in)
{
    size_t slot = input_take(in, 2) % SLOTS;
    for (size_t i = 0; i < SLOTS; i++, slot = (slot + 1) % SLOTS) {
        if (model.blocks[slot].at == NULL)
            return slot;
    }
    return SLOTS;
}

static void *plain(struct input *in, size_t size)
{
    return input_take(in, 1) % 5 == 0 ? hak_alloc_at(size, HAK_CALLSITE())
                                      : EITHER(in, malloc(size), hak_malloc(size));
}

static void new_plain(struct input *in)
{
    size_t slot = free_slot(in), size = input_size(in);
    if (slot == SLOTS || !model_has_room(&model, size))
        return;
    errno = OTHER_ERRNO;
    void *p = plain(in, size);
    if (granted(p, expected(size, 1), size, 1))
        model_add(&model, slot, p, size, ORDINARY, false);
}

static void new_zeroed(struct input *in)
{
    size_t slot = free_slot(in), count = input_size(in), size, total;
    size = input_take(in, 1) % 4 == 0 ? input_size(in) : input_take(in, 1);
    bool fits = !__builtin_mul_overflow(count, size, &total);
    if (slot == SLOTS || (fits && (!model_has_room(&model, total) || !may_be_written(total))))
        return;
    int wanted = fits ? expected(total, 1) : ENOMEM;
    errno = OTHER_ERRNO;
    void *p = EITHER(in, calloc(count, size), hak_calloc(count, size));
    if (granted(p, wanted, total, 1))
        model_add(&model, slot, p, total, ORDINARY, true);
}

static void new_by_posix_memalign(struct input *in, size_t slot, size_t alignment, size_t size)
{
    int wanted = expected(size, alignment);
    if (!is_alignment(alignment) || alignment % sizeof(void *) != 0)
        wanted = EINVAL;
    void *untouched = &model, *p = untouched;
    errno = OTHER_ERRNO;
    int got =
        EITHER(in, posix_memalign(&p, alignment, size), hak_posix_memalign(&p, alignment, size));
    if (errno != OTHER_ERRNO)
        broken("posix_memalign changed errno to %d", errno);
    if (got != 0 && p != untouched)
        broken("posix_memalign refused with %d and changed the pointer", got);
    errno = got;
    if (granted(got == 0 ? p : NULL, wanted, size, alignment))
        model_add(&model, slot, p, size, alignment, false);
}

static void *aligned(struct input *in, uint64_t how, size_t alignment, size_t size)
{
    if (how == 0)
        return EITHER(in, aligned_alloc(alignment, size), hak_aligned_alloc(alignment, size));
    return EITHER(in, memalign(alignment, size), hak_memalign(alignment, size));
}

static void new_aligned(struct input *in)
{
    size_t slot = free_slot(in), alignment = input_alignment(in), size = input_size(in);
    if (slot == SLOTS || !model_has_room(&model, size))
        return;
    uint64_t how = input_take(in, 1) % 3;
    if (how == 2) {
        new_by_posix_memalign(in, slot, alignment, size);
        return;
    }
    int wanted = is_alignment(alignment) ? expected(size, alignment) : EINVAL;
    errno = OTHER_ERRNO;
    void *p = aligned(in, how, alignment, size);
    if (granted(p, wanted, size, alignment))
        model_add(&model, slot, p, size, alignment, false);
}

static void new_pages(struct input *in)
{
    size_t slot = free_slot(in), size = input_size(in), page = page_size();
    if (slot == SLOTS || !model_has_room(&model, size))
        return;
    bool rounds = input_take(in, 1) % 2 == 0;
    errno = OTHER_ERRNO;
    void *p = rounds ? EITHER(in, pvalloc(size), hak_pvalloc(size))
                     : EITHER(in, valloc(size), hak_valloc(size));
    if (!granted(p, expected(size, page), size, page))
        return;
    if (rounds)
        size = size == 0 ? page : (size + page - 1) / page * page;
    model_add(&model, slot, p, size, page, false);
}

/* Of a heap of the program's own. */
static void new_of_heap(struct input *in)
{
    size_t slot = free_slot(in), size = input_size(in), alignment = ORDINARY;
    uint64_t how = input_take(in, 1) % 4;
    if (slot == SLOTS || !model_has_room(&model, size) || (how == 1 && !may_be_written(size)))
        return;
    hak_heap *heap = heaps_any(&heaps, in);
    int wanted = expected(size, 1);
    void *p;
    errno = OTHER_ERRNO;
    if (how == 0) {
        alignment = input_alignment(in);
        wanted = is_alignment(alignment) ? expected(size, alignment) : EINVAL;
        p = hak_heap_aligned_alloc(heap, alignment, size);
    } else {
        p = how == 1 ? hak_heap_calloc(heap, 1, size) : hak_heap_malloc(heap, size);
    }
    if (granted(p, wanted, size, alignment))
        model_add_of(&model, slot, p, size, alignment, how == 1, heap);
}

/* ---- blocks that are there ---- */

/* The slot of a block; SLOTS: there is none. */
static size_t used_slot(struct input *in)
{
    size_t slot = input_take(in, 2) % SLOTS;
    for (size_t i = 0; i < SLOTS; i++, slot = (slot + 1) % SLOTS) {
        if (model.blocks[slot].at != NULL)
            return slot;
    }
    return SLOTS;
}

/* In any of the ways that are right for the block. */
static void release(struct input *in, struct block *b)
{
    uint64_t how = input_take(in, 1);
    errno = OTHER_ERRNO;
    if (how % 8 == 1) {
        if (b->alignment == ORDINARY)
            hak_free_sized(b->at, b->size);
        else
            hak_free_aligned_sized(b->at, b->alignment, b->size);
    } else if (how % 8 == 2) {
        if (EITHER(in, realloc(b->at, 0), hak_realloc(b->at, 0)) != NULL)
            broken("realloc to 0 gave a block");
    } else {
        (void)EITHER(in, (free(b->at), 0), (hak_free(b->at), 0));
    }
    if (errno != OTHER_ERRNO)
        broken("free changed errno to %d", errno);
}

static void free_one(struct input *in)
{
    size_t slot = used_slot(in);
    if (slot == SLOTS)
        return;
    struct block b = model_take(&model, slot);
    release(in, &b);
}

/* Whether a block may be resized to `size`, which is more than all of what may be asked for if it overflowed. */
static bool may_be_resized(size_t slot, size_t size)
{
    if (slot == SLOTS || size == 0)
        return false;
    bool copies = model.blocks[slot].usable <= GIANT && may_be_written(size);
    return copies && model_has_room(&model, size);
}

static void *resized(struct input *in, const struct block *b, bool by_product, size_t count,
                     size_t size)
{
    char *p = b->at;
    errno = OTHER_ERRNO;
    if (b->heap != NULL && !by_product && input_take(in, 1) % 2 == 0)
        return hak_heap_realloc(b->heap, p, size);
    if (by_product)
        return EITHER(in, reallocarray(p, count, size), hak_reallocarray(p, count, size));
    return EITHER(in, realloc(p, size), hak_realloc(p, size));
}

static void resize(struct input *in)
{
    size_t slot = used_slot(in), size = input_size(in), count = 1, total;
    bool by_product = input_take(in, 1) % 4 == 0;
    if (by_product)
        count = input_take(in, 1) % 2 == 0 ? input_take(in, 1) : input_size(in);
    if (__builtin_mul_overflow(count, size, &total))
        total = SIZE_MAX;
    if (!may_be_resized(slot, total))
        return;
    struct block old = model.blocks[slot];
    void *p = resized(in, &old, by_product, count, size);
    if (!granted(p, total > HOPELESS ? ENOMEM : 0, total, 1)) {
        model_check(&old);
        return;
    }
    content_check(p, old.usable < total ? old.usable : total, old.usable, old.id);
    model_forget(&model, slot);
    model_add_of(&model, slot, p, total, ORDINARY, false, old.heap);
}

/* ---- many blocks of one size ---- */

static void new_crowd(struct input *in)
{
    hak_heap *heap = input_take(in, 1) % 4 == 0 ? heaps_any(&heaps, in) : NULL;
    size_t count = input_take(in, 1), size = input_size(in) % ((size_t)64 << 10);
    size_t slot = input_take(in, 2) % SLOTS;
    for (size_t i = 0; i < count && model_has_room(&model, size); i++) {
        size_t at = (slot + i) % SLOTS;
        if (model.blocks[at].at != NULL)
            continue;
        void *p = heaps_malloc(heap, size);
        if (granted(p, 0, size, 1))
            model_add_of(&model, at, p, size, ORDINARY, false, heap);
    }
}

static void free_crowd(struct input *in)
{
    size_t slot = input_take(in, 2), count = input_take(in, 1) * 2;
    size_t step = 1 + 2 * (input_take(in, 1) % 8);
    for (size_t i = 0; i < count; i++) {
        size_t at = (slot + i * step) % SLOTS;
        if (model.blocks[at].at == NULL)
            continue;
        struct block b = model_take(&model, at);
        hak_free(b.at);
    }
}

/* ---- the rest of the interface ---- */

static void give_back(struct input *in)
{
    EITHER(in, (void)malloc_trim(input_take(in, 2)), (void)hak_purge());
    statistics_check();
}

/* Settings that may change while a program runs, within bounds that keep a run short. */
static struct {
    const char *name;
    size_t most, initial;
} settings[] = {{"opt.retain", (size_t)64 << 20, 0},
                {"opt.retain_max", (size_t)64 << 20, 0},
                {"opt.magazine_max", 2048, 0},
                {"opt.huge_pages", 1, 0},
                {"opt.prefault", 1, 0},
                {"opt.whale_capacity", 512, 0},
                {"opt.pressure", 1, 0},
                {"opt.learn", 1, 0},
                {"opt.keep", 5, 0},
                {"opt.keep_time", 16000, 0},
                {"opt.profile", 1, 0},
                {"opt.profile_interval", 1 << 20, 0},
                {"opt.profile_depth", 64, 0},
                {"opt.profile_unwind", 1, 0}};

static size_t setting_now(const char *name)
{
    size_t value = 0, length = sizeof value;
    if (hak_ctl(name, &value, &length, NULL, 0) != 0)
        broken("%s cannot be read", name);
    return value;
}

static void change_setting(struct input *in)
{
    size_t which = input_take(in, 1) % COUNT_OF(settings), value = input_take(in, 4);
    const char *name = settings[which].name;
    value %= settings[which].most + 1;
    size_t before = setting_now(name);
    int got = hak_ctl(name, NULL, NULL, &value, sizeof value);
    if (got != 0 && got != EINVAL)
        broken("%s := %zu gave %d", name, value, got);
    if (setting_now(name) != (got == 0 ? value : before))
        broken("%s is %zu after %zu was set (%d)", name, setting_now(name), value, got);
}

/* So that a run does not depend on those before it. */
static void keep_settings(void)
{
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        settings[i].initial = setting_now(settings[i].name);
}

static void restore_settings(void)
{
    for (size_t i = 0; i < COUNT_OF(settings); i++)
        (void)hak_ctl(settings[i].name, NULL, NULL, &settings[i].initial, sizeof(size_t));
}

/* Any name but that of the one entry that writes files. */
static void ask_by_name(struct input *in)
{
    static const char *const prefixes[] = {"", "stats.", "counter.", "opt.", "version", "opt"};
    char name[48] = "";
    const char *prefix = prefixes[input_take(in, 1) % COUNT_OF(prefixes)];
    size_t length = strlen(prefix), more = input_take(in, 1) % 24;
    memcpy(name, prefix, length);
    for (size_t i = 0; i < more; i++)
        name[length + i] = (char)input_take(in, 1);
    if (strncmp(name, "profile", 7) == 0)
        return;
    unsigned char old[24];
    size_t size = input_take(in, 1) % 17;
    memset(old, 0xA5, sizeof old);
    int got = hak_ctl(name, old, &size, NULL, 0);
    if (got != 0 && got != ENOENT && got != EINVAL && got != EPERM)
        broken("hak_ctl(\"%s\") gave %d", name, got);
    for (size_t i = got == 0 ? size : 0; i < sizeof old; i++) {
        if (old[i] != 0xA5)
            broken("hak_ctl(\"%s\") gave %d and wrote byte %zu", name, got, i);
    }
}

static void look(struct input *in)
{
    size_t slot = used_slot(in);
    if (slot < SLOTS)
        model_check(&model.blocks[slot]);
    if (hak_usable_size(NULL) != 0)
        broken("NULL has a size");
    hak_free(NULL);
    partial_statistics(in);
    statistics_check();
    heaps_check(&heaps, &model);
}

static void step(struct input *in)
{
    switch (input_take(in, 1) % 28) {
    case 0:
    case 1:
    case 2:
    case 3:
        new_plain(in);
        break;
    case 4:
    case 5:
        new_zeroed(in);
        break;
    case 6:
    case 7:
        new_aligned(in);
        break;
    case 8:
        new_pages(in);
        break;
    case 9:
    case 10:
    case 11:
        resize(in);
        break;
    case 12:
    case 13:
        new_crowd(in);
        break;
    case 14:
        free_crowd(in);
        break;
    case 15:
        look(in);
        break;
    case 16:
        give_back(in);
        break;
    case 17:
        change_setting(in);
        break;
    case 18:
        ask_by_name(in);
        break;
    case 19:
    case 20:
    case 21:
        new_of_heap(in);
        break;
    case 22:
        heaps_end_any(&heaps, &model, in);
        break;
    default:
        free_one(in);
    }
}

static void begin(void)
{
    struct hak_stats s;
    hak_stats_get(&s, sizeof s);
    base_bytes = s.live_bytes;
    base_blocks = s.live_blocks;
    keep_settings();
}

static void end(void)
{
    heaps_end_all(&heaps, &model);
    for (size_t slot = 0; slot < SLOTS; slot++) {
        if (model.blocks[slot].at != NULL)
            hak_free(model_take(&model, slot).at);
    }
    restore_settings();
    statistics_check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    begin();
    for (size_t i = 0; i < OPERATIONS_MOST && in.at < in.end; i++)
        step(&in);
    statistics_check();
    end();
    return 0;
}
