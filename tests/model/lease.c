/* Leases (heap/lease.c): whoever ends a heap takes back what a thread has leased of it, while that thread gives the lease up for
 * another heap, or makes its first one in the same place. */
#include "heaps.h"

#include "heap/lease.h"

static struct heap *own, *ends, *used; /* the thread's; that ends; that the thread goes on with */
static struct lease *lease;
static void *got;

static void touch_leases(struct heap *h)
{
    for (int i = 0; i < LEASES; i++)
        (void)load_acquire(&h->leases[i]);
}

/* With a slab that has a block out. */
static struct heap *make_heap(void)
{
    void *p;
    bool zeroed;
    struct heap *h = registry_take_explicit();
    model_assert(h != NULL);
    heaps_ignore_classes(h);
    heaps_touch(h);
    touch_leases(h);
    model_assert(explicit_enter(h));
    model_assert(explicit_take(h, MODEL_CLASS, &p, 1, &zeroed) == 1);
    explicit_leave(h);
    heaps_touch_unit(unit_of(p));
    (void)load_relaxed(&slab_at(unit_of(p))->sampled);
    return h;
}

/* Two heaps whose leases have the same place. */
static void make_heaps(void)
{
    struct heap *other = NULL;
    ends = make_heap();
    while (used == NULL) {
        other = make_heap();
        used = lease_place(other) == lease_place(ends) ? other : NULL;
    }
}

static void touch_lease(void)
{
    (void)load_relaxed(&lease->of);
    (void)load_relaxed(&lease->of_class[MODEL_CLASS].kept);
    for (uint32_t class = 0; class < LEASED_CLASSES; class ++) {
        if (class != MODEL_CLASS)
            model_hooks->ignore(&lease->of_class[class], sizeof lease->of_class[class]);
    }
}

static void setup_heaps(void)
{
    used = NULL;
    own = heaps_attach(0);
    touch_leases(own);
    touch_leases(heaps_attach(1));
    make_heaps();
}

/* The thread's lease of the one that ends has one block in it. */
static void setup_ended(void)
{
    bool zeroed;
    setup_heaps();
    struct thread before = hak_thread;
    hak_thread.heap = own;
    hak_thread.depth = 0;
    model_assert(lease_alloc(ends, MODEL_CLASS, &zeroed) != NULL);
    lease = lease_of(ends);
    model_assert(lease != NULL);
    while (load_relaxed(&lease->of_class[MODEL_CLASS].kept) > 1)
        (void)leased_pop(&lease->of_class[MODEL_CLASS]);
    hak_thread = before;
    touch_lease();
}

/* It has none, and who ends the heap looks for one. */
static void setup_made(void)
{
    enum { MARGIN = 64 };
    setup_heaps();
    ends->parts.leases = 1;
    lease = (struct lease *)(void *)round_up((uintptr_t)(own + 1), MARGIN); /* the first slots */
    touch_lease();
    /* What lay there before: a block that nobody has, of the heap that ends. */
    store_relaxed(&lease->of, ends);
    store_relaxed(&lease->of_class[MODEL_CLASS].kept, (size_t)1);
}

static void run(int index)
{
    bool zeroed;
    hak_thread.depth = 0;
    if (index == 0) {
        got = lease_alloc(used, MODEL_CLASS, &zeroed);
        *(uint64_t *)got = 1; /* plain: a race if it is anybody else's */
    } else if (explicit_enter(ends)) {
        leases_take_back(ends);
        explicit_leave(ends);
    }
}

static void check(void)
{
    struct lease *l = lease_by(own, used);
    model_assert(l == lease && got != NULL);
    model_assert(load_relaxed(&l->of_class[MODEL_CLASS].kept) == LEASED_MOST - 1);
    model_assert(used->classes[MODEL_CLASS].used == 1 + LEASED_MOST);
    model_assert(ends->parts.leases == 0);
}

static void check_ended(void)
{
    check();
    /* All that were taken but the one that was leased. */
    model_assert(ends->classes[MODEL_CLASS].used == LEASED_MOST);
}

const struct model_scenario lease_ended = {"lease.ended", 2,   0,          2048,
                                           setup_ended,   run, check_ended};
const struct model_scenario lease_made = {"lease.made", 2, 0, 2048, setup_made, run, check};
