#include "profile/sites.h"

enum { CHAINS = 256, LIFETIMES = 8 };

_Static_assert((CHAINS & (CHAINS - 1)) == 0 && (int)LIVE_ROWS_sites <= UINT16_MAX, "chains");

/* Sites + 1 by the hash of their stacks: the first of a chain, and the one that follows a site. */
__attribute__((section(".bss.sampler_small"))) static uint16_t chain_first[CHAINS];
__attribute__((section(".bss.sampler_chains"))) static uint16_t chain_next[LIVE_ROWS_sites];
static uint32_t site_count, stack_words;

HAK_INLINE void add(live_u64 *word, uint64_t n)
{
    store_relaxed(word, load_relaxed(word) + n);
}

HAK_INLINE void add32(live_u32 *word, uint32_t n)
{
    store_relaxed(word, load_relaxed(word) + n);
}

/* FNV-1a over words: Fowler, Noll and Vo. */
static uint64_t hash_of(const uintptr_t *stack, uint32_t depth)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < depth; i++)
        hash = (hash ^ stack[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

/* Word i of a stack; within the table, wherever it is said to begin. */
HAK_INLINE uintptr_t word_of(const struct live_area *a, uint32_t first, uint32_t i)
{
    return (uintptr_t)load_relaxed(&a->stacks[(first + i) % LIVE_ROWS_stacks].address);
}

static bool is_stack_of(const struct live_area *a, uint32_t site, const uintptr_t *stack,
                        uint32_t depth)
{
    const struct live_sites *s = &a->sites[site];
    if (load_relaxed(&s->depth) != depth)
        return false;
    uint32_t first = load_relaxed(&s->stack);
    for (uint32_t i = 0; i < depth; i++) {
        if (word_of(a, first, i) != stack[i])
            return false;
    }
    return true;
}

static void add_site(struct live_area *a, uint64_t hash, const uintptr_t *stack, uint32_t depth)
{
    struct live_sites *s = &a->sites[site_count];
    store_relaxed(&s->hash, hash);
    store_relaxed(&s->stack, stack_words);
    store_relaxed(&s->depth, depth);
    for (uint32_t i = 0; i < depth; i++)
        store_relaxed(&a->stacks[stack_words + i].address, (uint64_t)stack[i]);
    stack_words += depth;
    site_count++;
    store_relaxed(&a->header.tables[LIVE_TABLE_stacks].used, stack_words);
    /* release: whoever sees the row sees its stack. */
    store_release(&a->header.tables[LIVE_TABLE_sites].used, site_count);
}

static bool is_room(uint32_t depth)
{
    return site_count < LIVE_ROWS_sites && stack_words + depth <= LIVE_ROWS_stacks;
}

static uint32_t find_or_add(struct live_area *a, const uintptr_t *stack, uint32_t depth)
{
    uint64_t hash = hash_of(stack, depth);
    uint16_t *first = &chain_first[hash & (CHAINS - 1)];
    for (uint32_t i = *first; i != 0; i = chain_next[i - 1]) {
        if (is_stack_of(a, i - 1, stack, depth))
            return i - 1;
    }
    if (!is_room(depth))
        return 0;
    add_site(a, hash, stack, depth);
    chain_next[site_count - 1] = *first;
    *first = (uint16_t)site_count;
    return site_count - 1;
}

uint32_t site_for(struct live_area *a, const uintptr_t *stack, uint32_t depth, uint64_t now)
{
    if (site_count == 0)
        add_site(a, 0, NULL, 0);
    uint32_t site = depth != 0 ? find_or_add(a, stack, depth) : 0;
    if (load_relaxed(&a->sites[site].first_ms) == 0)
        store_relaxed(&a->sites[site].first_ms, now);
    return site;
}

uint32_t site_stack(const struct live_area *a, uint32_t site, uintptr_t *out, uint32_t most)
{
    uint32_t depth = load_relaxed(&a->sites[site].depth),
             first = load_relaxed(&a->sites[site].stack);
    depth = depth < most ? depth : most;
    for (uint32_t i = 0; i < depth; i++)
        out[i] = word_of(a, first, i);
    return depth;
}

void site_passed(struct live_area *a, struct site_change c)
{
    struct live_sites *s = &a->sites[c.site];
    add(&s->total_bytes, c.bytes);
    add(&s->total_objects, c.objects);
    add32(&s->samples, 1);
    store_relaxed(&s->last_ms, c.born_ms);
}

void site_allocated(struct live_area *a, struct site_change c)
{
    struct live_sites *s = &a->sites[c.site];
    site_passed(a, c);
    add(&s->live_bytes, c.bytes);
    add(&s->live_objects, c.objects);
    add(&s->live_rounding, c.rounding);
    add32(&s->live_samples, 1);
}

static uint32_t decade(uint64_t ms)
{
    uint32_t d = 0;
    for (; ms > 0 && d < LIFETIMES - 1; ms /= 10)
        d++;
    return d;
}

void site_freed(struct live_area *a, struct site_change c, uint64_t now)
{
    struct live_sites *s = &a->sites[c.site];
    add(&s->live_bytes, 0 - c.bytes);
    add(&s->live_objects, 0 - c.objects);
    add(&s->live_rounding, 0 - c.rounding);
    add32(&s->live_samples, 0U - 1);
    add32(&s->lifetimes[decade(now - c.born_ms)], 1);
}

void sites_keep_peak(struct live_area *a)
{
    for (uint32_t i = 0; i < site_count; i++) {
        struct live_sites *s = &a->sites[i];
        store_relaxed(&s->peak_bytes, load_relaxed(&s->live_bytes));
        store_relaxed(&s->peak_objects, load_relaxed(&s->live_objects));
        store_relaxed(&s->peak_samples, load_relaxed(&s->live_samples));
    }
}

void sites_keep_tight(struct live_area *a)
{
    for (uint32_t i = 0; i < site_count; i++) {
        struct live_sites *s = &a->sites[i];
        store_relaxed(&s->tight_bytes, load_relaxed(&s->live_bytes));
        store_relaxed(&s->tight_objects, load_relaxed(&s->live_objects));
        store_relaxed(&s->tight_samples, load_relaxed(&s->live_samples));
    }
}

void sites_carry_over(struct live_area *a, const struct live_area *before)
{
    for (uint32_t i = 0; i < stack_words; i++)
        store_relaxed(&a->stacks[i].address, load_relaxed(&before->stacks[i].address));
    for (uint32_t i = 0; i < site_count; i++) {
        const struct live_sites *old = &before->sites[i];
        store_relaxed(&a->sites[i].hash, load_relaxed(&old->hash));
        store_relaxed(&a->sites[i].stack, load_relaxed(&old->stack));
        store_relaxed(&a->sites[i].depth, load_relaxed(&old->depth));
        store_relaxed(&a->sites[i].first_ms, load_relaxed(&old->first_ms));
    }
    store_relaxed(&a->header.tables[LIVE_TABLE_stacks].used, stack_words);
    store_release(&a->header.tables[LIVE_TABLE_sites].used, site_count);
}
