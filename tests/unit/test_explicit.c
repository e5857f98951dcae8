/* Explicit heaps from inside: leases, the inbox that stands in for the lock, what an end leaves, the child of a fork. */
#include "heaps.h"

#include <sys/wait.h>
#include <unistd.h>

#include "big/big.h"
#include "control/place.h"
#include "front/explicit.h"
#include "hakmem/hakmem.h"
#include "heap/lease.h"
#include "pages/pages.h"

enum { SIZE = 100, LARGE = 100000, MANY = 2000, SLABS = 3 };

static struct heap *h;

static hak_heap *as_program(struct heap *heap)
{
    return (hak_heap *)heap;
}

static int make(void **state)
{
    (void)state;
    h = front_heap_new();
    assert_non_null(h);
    return 0;
}

static int destroy(void **state)
{
    (void)state;
    hak_heap_destroy(as_program(h));
    return 0;
}

static void *alloc(size_t size)
{
    void *p = hak_heap_malloc(as_program(h), size);
    assert_non_null(p);
    return p;
}

static uint32_t class_of(const void *p)
{
    return slab_of_unit(unit_of(p))->class;
}

static size_t used(uint32_t class)
{
    return h->classes[class].used;
}

static size_t kept(const struct lease *l, uint32_t class)
{
    return load_relaxed(&l->of_class[class].kept);
}

/* ---- leases ---- */

static void blocks_come_from_a_lease(void **state)
{
    (void)state;
    void *p = alloc(SIZE);
    uint32_t class = class_of(p);
    struct lease *l = lease_of(h);
    assert_non_null(l);
    assert_int_equal(h->parts.leases, 1);
    assert_int_equal(kept(l, class), LEASED_MOST - 1);
    assert_int_equal(used(class), LEASED_MOST);
    assert_int_equal(unit_word(unit_of(p)), WORD_EXPLICIT);
    void *q = alloc(SIZE);
    assert_true((char *)q > (char *)p); /* by address */
    assert_int_equal(kept(l, class), LEASED_MOST - 2);
    hak_free(q);
    assert_int_equal(kept(l, class), LEASED_MOST - 1);
    assert_ptr_equal(alloc(SIZE), q);
}

static void a_full_lease_gives_half_back(void **state)
{
    (void)state;
    void *blocks[2 * LEASED_MOST];
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++)
        blocks[i] = alloc(SIZE);
    uint32_t class = class_of(blocks[0]);
    assert_int_equal(used(class), 2 * LEASED_MOST);
    for (size_t i = 0; i < LEASED_MOST; i++)
        hak_free(blocks[i]);
    assert_int_equal(used(class), 2 * LEASED_MOST);
    hak_free(blocks[LEASED_MOST]);
    assert_int_equal(kept(lease_of(h), class), LEASED_MOST / 2);
    assert_int_equal(used(class), 2 * LEASED_MOST - LEASED_MOST / 2 - 1);
}

/* Another heap in the same place of the thread takes it over, and what was in it is back. */
static void a_lease_passes_to_another_heap(void **state)
{
    (void)state;
    struct heap *others[LEASES + 1];
    uint32_t class = class_of(alloc(SIZE));
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        others[i] = front_heap_new();
        assert_non_null(hak_heap_malloc(as_program(others[i]), SIZE));
        assert_non_null(lease_of(others[i]));
    }
    struct lease *l = lease_of(h);
    assert_int_equal(used(class), l != NULL ? LEASED_MOST : 1);
    size_t without = l == NULL;
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        without += lease_of(others[i]) == NULL;
        hak_heap_destroy(as_program(others[i]));
    }
    assert_true(without >= 2); /* of LEASES + 2 heaps */
    for (int i = 0; i < LEASES; i++) {
        l = load_relaxed(&hak_thread.heap->leases[i]);
        assert_true(l == NULL || load_relaxed(&l->of) == NULL || load_relaxed(&l->of) == h);
    }
}

static void *use_and_end(void *block)
{
    *(void **)block = alloc(SIZE);
    hak_free(alloc(SIZE));
    assert_non_null(lease_of(h));
    return NULL;
}

static void a_thread_s_end_ends_its_leases(void **state)
{
    (void)state;
    pthread_t thread;
    void *block = NULL;
    assert_int_equal(pthread_create(&thread, NULL, use_and_end, (void *)&block), 0);
    pthread_join(thread, NULL);
    assert_int_equal(h->parts.leases, 0);
    assert_int_equal(used(class_of(block)), 1);
    hak_free(block);
}

static void numbers_leave_out_what_is_leased(void **state)
{
    (void)state;
    struct explicit_numbers n;
    void *p = alloc(SIZE), *q = alloc(LARGE), *r = alloc(3 * MIB);
    explicit_read(h, &n);
    assert_int_equal(n.live_blocks, 3);
    assert_int_equal(n.live_bytes, slab_at(unit_of(q))->size + slab_at(unit_of(r))->size +
                                       hak_classes[class_of(p)].size);
    hak_free(p);
    hak_free(q);
    hak_free(r);
    explicit_read(h, &n);
    assert_int_equal(n.live_blocks, 0);
    assert_int_equal(n.live_bytes, 0);
    assert_int_equal(n.held_bytes, UNIT_SIZE);
}

/* ---- slabs ---- */

static void full_slabs_are_found_again(void **state)
{
    (void)state;
    static void *blocks[MANY];
    size_t n = 0;
    blocks[n++] = alloc(3000);
    uint32_t class = class_of(blocks[0]);
    while (h->classes[class].slabs < SLABS)
        blocks[n++] = alloc(3000);
    assert_int_not_equal(h->parts.full, 0);
    assert_int_equal(h->classes[class].listed, 1);
    for (size_t i = 0; i < n; i++)
        hak_free(blocks[i]);
    assert_int_equal(h->parts.full, 0);
    assert_int_equal(h->classes[class].slabs, 1); /* kept */
    assert_int_equal(used(class), 0);
}

static void an_end_gives_all_back(void **state)
{
    (void)state;
    size_t pages = pages_in_use(), seen = 0;
    struct heap *other = front_heap_new();
    size_t with = units_in_use();
    for (size_t i = 0; i < MANY; i++)
        seen += hak_heap_malloc(as_program(other), 1 + i * 13 % 80000) != NULL;
    assert_int_equal(seen, MANY);
    assert_true(units_in_use() > with + 10);
    hak_heap_destroy(as_program(other));
    assert_int_equal(load_relaxed(&other->state), HEAP_VACANT);
    assert_int_equal(other->used_bytes, 0);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        assert_at(other->classes[class].slabs == (other->classes[class].kept != 0), class);
    assert_int_equal(pages_in_use(), pages);
    front_trim();
    thread_enter();
    registry_trim();
    thread_leave();
    assert_true(units_in_use() <= with);
    assert_null(explicit_at(other));
    assert_ptr_equal(front_heap_new(), other);
    hak_heap_destroy(as_program(other));
}

/* The thread's own heap has its blocks, and the next explicit one its struct. */
static void a_deleted_heap_gives_its_blocks(void **state)
{
    (void)state;
    enum { MANY_SMALL = 3000 };
    static void *blocks[MANY_SMALL];
    struct heap *other = front_heap_new(), *own = hak_thread.heap;
    for (size_t i = 0; i < MANY_SMALL; i++)
        blocks[i] = hak_heap_malloc(as_program(other), SIZE);
    void *large = hak_heap_malloc(as_program(other), LARGE);
    uint32_t heaps = registry_live_heaps(), class = class_of(blocks[0]);
    size_t before = own->classes[class].used, slabs = own->classes[class].slabs;
    assert_int_not_equal(other->parts.full, 0);
    hak_heap_delete(as_program(other));
    assert_int_equal(load_relaxed(&other->state), HEAP_VACANT);
    assert_int_equal(registry_live_heaps(), heaps);
    assert_int_equal(own->classes[class].used, before + MANY_SMALL);
    assert_true(own->classes[class].slabs > slabs + 1);
    assert_int_equal(other->used_bytes, 0);
    assert_int_equal(other->parts.large, 0);
    assert_null(hak_heap_of(large));
    for (size_t i = 0; i < MANY_SMALL; i++) {
        assert_ptr_equal(heap_of_word(unit_word(unit_of(blocks[i]))), own);
        hak_free(blocks[i]);
    }
    hak_free(large);
    front_trim();
    assert_int_equal(own->classes[class].used, before);
    assert_ptr_equal(front_heap_new(), other);
    hak_heap_destroy(as_program(other));
}

static void explicit_heaps_are_not_counted(void **state)
{
    (void)state;
    uint32_t before = registry_live_heaps();
    struct heap *others[10];
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        others[i] = front_heap_new();
    assert_int_equal(registry_live_heaps(), before);
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++)
        hak_heap_destroy(as_program(others[i]));
    assert_int_equal(registry_live_heaps(), before);
}

/* ---- without the lock ---- */

/* What a handler does that has interrupted the holder: it finds its own thread's name at the lock, and a depth. */
static void in_handler(void (*body)(void *), void *p)
{
    thread_enter();
    assert_true(lock_take(&h->lock));
    thread_enter();
    body(p);
    thread_leave();
    lock_release(&h->lock);
    thread_leave();
}

static void alloc_nothing(void *p)
{
    (void)p;
    assert_null(hak_heap_malloc(as_program(h), 20000));
    assert_null(hak_heap_malloc(as_program(h), LARGE));
}

static void free_it(void *p)
{
    hak_free(p);
}

static void a_handler_gets_no_block(void **state)
{
    (void)state;
    alloc(SIZE);
    in_handler(alloc_nothing, NULL);
    assert_non_null(alloc(20000));
    assert_non_null(alloc(LARGE));
}

/* What a handler does that has interrupted the use of a lease. */
static void a_handler_leaves_leases_alone(void **state)
{
    (void)state;
    void *p = alloc(SIZE);
    uint32_t class = class_of(p);
    struct lease *l = lease_of(h);
    size_t before = kept(l, class), out = used(class);
    assert_true(lease_enter());
    void *q = alloc(SIZE);
    assert_ptr_not_equal(q, p);
    assert_int_equal(kept(l, class), before);
    assert_int_equal(used(class), out + 1);
    hak_free(q);
    assert_int_equal(kept(l, class), before);
    assert_int_equal(used(class), out);
    lease_leave();
    hak_free(p);
    assert_int_equal(kept(l, class), before + 1);
}

/* It was freed in a handler while its heap's lock was held by who then deleted the heap. */
static void what_a_handler_freed_goes_with_a_deleted_heap(void **state)
{
    (void)state;
    static const size_t sizes[] = {SIZE, 2000, LARGE, 3 * MIB};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        struct heap *other = front_heap_new(), *first = h;
        void *p = hak_heap_malloc(as_program(other), sizes[i]);
        h = other;
        in_handler(free_it, p);
        h = first;
        assert_at(!inbox_is_empty(other), sizes[i]);
        hak_heap_delete(as_program(other));
        assert_at(inbox_is_empty(other), sizes[i]);
        assert_at(load_relaxed(&other->inbox_bytes) == 0, sizes[i]);
        front_trim();
        assert_at(load_relaxed(&hak_thread.heap->inbox_bytes) == 0, sizes[i]);
    }
}

static void what_a_handler_frees_waits_in_the_inbox(void **state)
{
    (void)state;
    static const size_t sizes[] = {SIZE, 20000, LARGE, 3 * MIB};
    struct explicit_numbers n;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *p = alloc(sizes[i]);
        in_handler(free_it, p);
        assert_at(!inbox_is_empty(h), sizes[i]);
        explicit_read(h, &n);
        assert_at(inbox_is_empty(h) && n.live_blocks == 0, sizes[i]);
    }
    assert_int_equal(h->parts.large, 0);
}

/* ---- what an address is ---- */

static bool says(const void *at, const char *text)
{
    char line[400];
    struct place p;
    place_find(&p, (uintptr_t)at);
    place_text(&p, line, sizeof line);
    return strstr(line, text) != NULL;
}

static void addresses_are_explained(void **state)
{
    (void)state;
    char *p = alloc(SIZE), *large = alloc(LARGE);
    assert_true(says(p + 5, "5 bytes into a live block"));
    assert_true(says(p, "a heap that the program made"));
    assert_true(says(large + 5, "5 bytes into a live block"));
    hak_free(p);
    assert_true(says(p + 5, "5 bytes into a free block"));
    assert_true(says(p, "in this thread's magazine"));
    hak_free(large);
    assert_true(says(large + 5, "5 bytes into a free block"));
}

/* ---- forks ---- */

static pthread_barrier_t both;

static void *hold_a_lease(void *block)
{
    *(void **)block = alloc(SIZE);
    pthread_barrier_wait(&both);
    pthread_barrier_wait(&both);
    return NULL;
}

/* What another thread had leased is nobody's there; the forking thread's own is what it was. */
static void in_child(const void *other_s)
{
    struct lease *l = lease_of(h);
    bool is_right = l != NULL && load_relaxed(&h->state) == HEAP_EXPLICIT;
    size_t blocks, bytes;
    leases_read(h, &blocks, &bytes);
    is_right &= l != NULL && blocks == kept(l, class_of(other_s)) && blocks != 0;
    void *p = hak_heap_malloc(as_program(h), SIZE);
    is_right &= p != NULL && hak_heap_of(p) == as_program(h);
    hak_heap_destroy(as_program(h));
    _exit(!is_right);
}

static void a_child_has_the_heap(void **state)
{
    (void)state;
    pthread_t thread;
    void *other_s = NULL;
    assert_int_equal(pthread_barrier_init(&both, NULL, 2), 0);
    assert_int_equal(pthread_create(&thread, NULL, hold_a_lease, (void *)&other_s), 0);
    pthread_barrier_wait(&both);
    alloc(SIZE);
    assert_int_equal(h->parts.leases, 2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        in_child(other_s);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(h->parts.leases, 2);
    pthread_barrier_wait(&both);
    pthread_join(thread, NULL);
}

static void a_child_has_the_vacant_heaps(void **state)
{
    (void)state;
    struct heap *other = front_heap_new();
    hak_heap_destroy(as_program(other));
    assert_int_equal(load_relaxed(&other->state), HEAP_VACANT);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct heap *newest = registry_first();
        bool is_right = load_relaxed(&other->state) == HEAP_VACANT && front_heap_new() != NULL;
        _exit(!is_right || registry_first() != newest); /* no heap was made */
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ptr_equal(front_heap_new(), other);
    hak_heap_destroy(as_program(other));
}

#define ON_A_HEAP(test) cmocka_unit_test_setup_teardown(test, make, destroy)

/* ---- other locks, other lines ---- */

static _Atomic bool may_free;

static void *free_when_it_may(void *p)
{
    hak_free(hak_malloc(SIZE)); /* it has a heap */
    while (!load_acquire(&may_free))
        cpu_relax();
    hak_free(p);
    return NULL;
}

/* Whoever waits for the sampler does not have the heap's lock: what the sampler's was interrupted for may wait for that. */
static void the_sampler_is_told_without_the_lock(void **state)
{
    (void)state;
    pthread_t other;
    void *p = alloc(SIZE);
    store_relaxed(&slab_of_unit(unit_of(p))->sampled, (uint8_t)1);
    assert_int_equal(pthread_create(&other, NULL, free_when_it_may, p), 0);
    thread_enter();
    lock_take(sampler_lock());
    uint64_t waits = load_relaxed(&hak_lock_waits[LOCK_SHARED]);
    store_release(&may_free, true);
    while (load_relaxed(&hak_lock_waits[LOCK_SHARED]) == waits)
        cpu_relax();
    bool is_free = lock_try(&h->lock);
    if (is_free)
        lock_release(&h->lock);
    lock_release(sampler_lock());
    thread_leave();
    assert_int_equal(pthread_join(other, NULL), 0);
    assert_true(is_free);
}

/* Where the purge of a class had got to, a fresh big block may lie since, whose line says much the same. */
static void a_big_block_is_no_slab_to_go_on_with(void **state)
{
    (void)state;
    void *p = alloc(SIZE), *large = alloc(3 * MIB);
    struct slab *s = slab_at(unit_of(large));
    uint32_t class = class_of(p), at = (uint32_t)unit_of(large) + 1, left = MANY;
    s->class = (uint8_t) class;
    s->pages = BIG_SMALL;
    thread_enter();
    lock_take(&h->lock);
    (void)class_purge_slabs(h, class, &at, &left);
    lock_release(&h->lock);
    thread_leave();
    assert_int_equal(s->granules, 2);
    assert_int_equal(left, MANY - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_HEAP(numbers_leave_out_what_is_leased),
        ON_A_HEAP(full_slabs_are_found_again),
        ON_A_HEAP(an_end_gives_all_back),
        ON_A_HEAP(a_deleted_heap_gives_its_blocks),
        ON_A_HEAP(explicit_heaps_are_not_counted),
        ON_A_HEAP(a_thread_s_end_ends_its_leases),
        ON_A_HEAP(a_lease_passes_to_another_heap),
        ON_A_HEAP(a_handler_gets_no_block),
        ON_A_HEAP(a_handler_leaves_leases_alone),
        ON_A_HEAP(what_a_handler_frees_waits_in_the_inbox),
        ON_A_HEAP(what_a_handler_freed_goes_with_a_deleted_heap),
        ON_A_HEAP(a_child_has_the_heap),
        ON_A_HEAP(a_child_has_the_vacant_heaps),
        ON_A_HEAP(blocks_come_from_a_lease),
        ON_A_HEAP(a_full_lease_gives_half_back),
        ON_A_HEAP(addresses_are_explained),
        ON_A_HEAP(the_sampler_is_told_without_the_lock),
        ON_A_HEAP(a_big_block_is_no_slab_to_go_on_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
