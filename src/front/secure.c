#include "front/secure.h"

#if HAK_SECURE

#include <string.h>

#include "control/options.h"
#include "front/check.h"
#include "front/front.h"
#include "os/os.h"

enum {
    TAIL = 16,         /* of a block: its size and the word that depends on its place */
    FILLED_MOST = 64,  /* behind the program's bytes */
    FILLING = 0xA5,    /* there */
    FREED = 0xDF,      /* all over a block that waits: as a pointer it is no address */
    WAITING_MOST = 512 /* blocks in each half of a waiting room */
};

/* A block goes through the first half in turn, so that it waits for as many others at least, and then takes a place of
 * the second by chance from another, which leaves. */
struct waiting_room {
    size_t length;
    _Atomic size_t next;
    _Atomic(void *) in_turn[WAITING_MOST], by_chance[WAITING_MOST];
};

static struct waiting_room rooms[] = {
    {.length = WAITING_MOST}, /* up to SMALL_MAX bytes */
    {.length = 32},           /* up to a unit */
    {.length = 16},           /* without their pages above SLAB_MAX */
};

/* ---- chance ---- */

static uint64_t mixed(uint64_t n)
{
    n = (n ^ n >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    n = (n ^ n >> 27) * UINT64_C(0x94d049bb133111eb);
    return n ^ n >> 31;
}

static uint64_t next_random(void)
{
    static _Thread_local uint64_t state;
    if (state == 0)
        state = hak_region.key ^ (uintptr_t)&state;
    state += UINT64_C(0x9e3779b97f4a7c15);
    return mixed(state);
}

/* ---- what surrounds a block ---- */

static bool is_large(size_t total)
{
    return total > UNIT_SIZE;
}

/* Bytes that are nobody else's, a big block's whole granules included. */
static size_t extent(const void *p, size_t total)
{
    size_t unit = unit_of(p);
    return unit_word(unit) == WORD_BIG ? slab_at(unit)->granules << GRANULE_SHIFT : total;
}

/* Bytes of the block up to its guard page. */
static size_t inner(size_t total)
{
    return is_large(total) ? (total & ~(hak_region.page_size - 1)) - hak_region.page_size : total;
}

size_t secure_request(size_t size)
{
    if (size > PTRDIFF_MAX)
        return size;
    size += TAIL;
    /* The first request comes before the region knows it. */
    return is_large(size) ? size + 2 * os_page_size() : size;
}

static _Atomic uint64_t *last_word(const void *p, size_t total)
{
    return (_Atomic uint64_t *)(void *)((char *)(uintptr_t)p + inner(total) - sizeof(uint64_t));
}

static uint64_t seal_for(const _Atomic uint64_t *place)
{
    return mixed((uintptr_t)place ^ hak_region.key);
}

/* The lowest byte is filling as well: the one that is overwritten most, and most often with zero. */
static uint64_t size_code(const _Atomic uint64_t *place, size_t size)
{
    return (((uint64_t)size << 8 ^ seal_for(place)) & ~(uint64_t)UINT8_MAX) | FILLING;
}

static size_t filled(size_t total, size_t size)
{
    return least_of(inner(total) - TAIL - size, FILLED_MOST);
}

/* The block in front of one in a slab; NULL: there is none. */
static char *block_before(const char *p, size_t total)
{
    uintptr_t word = unit_word(unit_of(p));
    if (word <= WORD_TAG_MAX || class_of_word(word) >= FIRST_PAGED)
        return NULL;
    const char *base = slab_base(slab_of_unit(unit_of(p)));
    return p == base ? NULL : (char *)(uintptr_t)p - total;
}

/* Each guard page costs mappings, of which the kernel allows 65,530: blocks beyond a number have none. Whether one has
 * stands with its size. */
enum { GUARDS_MOST = 4096, GUARDED_BIT = 48 };
static _Atomic size_t guards;

static bool guard(void *p, size_t total)
{
    if (is_large(total) && add_relaxed(&guards, 1) < GUARDS_MOST &&
        os_guard((char *)p + inner(total), extent(p, total) - inner(total)))
        return true;
    if (is_large(total))
        sub_relaxed(&guards, 1);
    return false;
}

void *secure_out(void *p, size_t size)
{
    if (p == NULL)
        return NULL;
    size_t total = front_usable(p, "malloc");
    size_t said = size | (size_t)guard(p, total) << GUARDED_BIT;
    _Atomic uint64_t *last = last_word(p, total);
    memset((char *)p + size, FILLING, filled(total, size));
    store_relaxed(last - 1, size_code(last - 1, said));
    store_relaxed(last, seal_for(last));
    return p;
}

/* The size, and whether there is a guard page. */
static size_t what_is_said(const void *p, size_t total)
{
    const _Atomic uint64_t *place = last_word(p, total) - 1;
    return (load_relaxed(place) ^ seal_for(place)) >> 8;
}

size_t secure_size(const void *p)
{
    size_t said = what_is_said(p, front_usable(p, "malloc_usable_size"));
    return said & ~((size_t)1 << GUARDED_BIT);
}

/* False: the kernel refuses. */
static bool unguard(void *p, size_t total)
{
    if ((what_is_said(p, total) >> GUARDED_BIT & 1) == 0)
        return true;
    if (!os_commit((char *)p + inner(total), extent(p, total) - inner(total)))
        return false;
    sub_relaxed(&guards, 1);
    return true;
}

static bool has_seal(const void *p, size_t total)
{
    const _Atomic uint64_t *last = last_word(p, total);
    return load_relaxed(last) == seal_for(last);
}

static bool is_filled_with(const unsigned char *bytes, size_t n, unsigned char what)
{
    return n == 0 || (bytes[0] == what && memcmp(bytes, bytes + 1, n - 1) == 0);
}

static void verify_block(void *p, size_t total, const char *what)
{
    size_t size = secure_size(p);
    const _Atomic uint64_t *place = last_word(p, total) - 1;
    if (!has_seal(p, total) || load_relaxed(place) != size_code(place, what_is_said(p, total)) ||
        size > inner(total) - TAIL ||
        !is_filled_with((unsigned char *)p + size, filled(total, size), FILLING))
        os_fatal("%s(%p): the block was written past its end", what, (uintptr_t)p);
}

/* It may be freed meanwhile, and then used by the library itself: only one that still is the program's counts. */
static void verify_before(const char *p, size_t total, const char *what)
{
    const char *before = block_before(p, total);
    if (before != NULL && check_is_live(before) && !has_seal(before, total) &&
        check_is_live(before) && !has_seal(before, total))
        os_fatal(
            "%s(%p): something was written before the start of the block, or past the end of the "
            "one in front of it",
            what, (uintptr_t)p);
}

/* ---- blocks that wait ---- */

void secure_drop(void *p)
{
    if (unguard(p, front_usable(p, "free")))
        front_free(p);
}

/* The kernel may refuse: then the block is given up, for it cannot be used by anybody. */
static void give_back(void *p)
{
    size_t total = front_usable(p, "free");
    if (is_large(total)) {
        if (os_commit(p, extent(p, total)))
            front_free(p);
        return;
    }
    if (!is_filled_with(p, inner(total) - TAIL, FREED))
        os_fatal("free(%p): the block was written to after it was freed", (uintptr_t)p);
    if (hak_options.zero_freed)
        memset(p, 0, inner(total));
    front_free(p);
}

static void wait_in(struct waiting_room *room, void *p)
{
    size_t turn = add_relaxed(&room->next, 1), chance = next_random();
    void *last = exchange_acq_rel(&room->in_turn[turn % room->length], p);
    if (last != NULL)
        last = exchange_acq_rel(&room->by_chance[chance % room->length], last);
    if (last != NULL)
        give_back(last);
}

static void make_wait(void *p, size_t total)
{
    if (!is_large(total)) {
        memset(p, FREED, inner(total) - TAIL);
        wait_in(&rooms[total <= SMALL_MAX ? 0 : 1], p);
        return;
    }
    if (!unguard(p, total))
        return;
    if (total > SLAB_MAX)
        os_purge(p, inner(total));
    os_guard(p, inner(total));
    wait_in(&rooms[2], p);
}

void secure_free(void *p, const char *what)
{
    if (p == NULL)
        return;
    size_t total = front_usable(p, what);
    verify_block(p, total, what);
    verify_before(p, total, what);
    make_wait(p, total);
}

void *secure_realloc(void *p, size_t size, const char *what)
{
    size_t total = front_usable(p, what), old = secure_size(p);
    verify_block(p, total, what);
    if (size <= PTRDIFF_MAX && front_usable_for(1, secure_request(size)) == total &&
        unguard(p, total))
        return secure_out(p, size);
    void *q = secure_out(front_alloc(secure_request(size)), size);
    if (q == NULL)
        return NULL;
    memcpy(q, p, least_of(old, size));
    secure_free(p, what);
    return q;
}

static void empty(_Atomic(void *) *place)
{
    void *p = exchange_acq_rel(place, NULL);
    if (p != NULL)
        give_back(p);
}

HAK_COLD void secure_verify(void)
{
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        for (size_t k = 0; k < rooms[i].length; k++) {
            empty(&rooms[i].in_turn[k]);
            empty(&rooms[i].by_chance[k]);
        }
    }
}

#endif
