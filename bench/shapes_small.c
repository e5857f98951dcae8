/* Small blocks, one thread: hot32, lifo, random, flags, tree. */
#include "bench_core.h"

#define HOT_SIZE 32
#define LIFO_BLOCKS 100
#define RANDOM_MIN 16
#define RANDOM_SPREAD 1025 /* 16 .. 1040 */
#define RANDOM_MEAN 528
#define FLAGS_SIZE 24

static void hot_step(void *state, uint64_t pairs)
{
    (void)state;
    for (uint64_t i = 0; i < pairs; i++) {
        give_back(take(HOT_SIZE, i), i);
    }
}

void run_hot32(const struct options *options, size_t argument, struct outcome *outcome)
{
    (void)argument;
    outcome->rss_start_kib = rss_now_kib();
    outcome->live_bytes = HOT_SIZE;
    measure_steps(options, hot_step, NULL, 200000000, 1, outcome);
}

struct lifo {
    size_t size;
    void *block[LIFO_BLOCKS];
};

static void lifo_step(void *state, uint64_t pairs)
{
    struct lifo *lifo = state;
    for (uint64_t done = 0; done < pairs; done += LIFO_BLOCKS) {
        for (unsigned i = 0; i < LIFO_BLOCKS; i++) {
            lifo->block[i] = take(lifo->size, i);
        }
        for (unsigned i = LIFO_BLOCKS; i-- > 0;) {
            give_back(lifo->block[i], i);
        }
    }
}

void run_lifo(const struct options *options, size_t block_size, struct outcome *outcome)
{
    struct lifo lifo = {.size = block_size};
    outcome->rss_start_kib = rss_now_kib();
    outcome->live_bytes = LIFO_BLOCKS * block_size;
    measure_steps(options, lifo_step, &lifo, 100000000, LIFO_BLOCKS, outcome);
}

struct random_mix {
    void **table;
    uint32_t live;
    uint64_t random;
};

static size_t random_size(uint64_t bits)
{
    return RANDOM_MIN + below((uint32_t)bits, RANDOM_SPREAD);
}

static void random_step(void *state, uint64_t pairs)
{
    struct random_mix *mix = state;
    void **table = mix->table;
    uint32_t live = mix->live;
    uint64_t random = mix->random;
    for (uint64_t i = 0; i < pairs; i++) {
        uint64_t bits = next_random(&random);
        uint32_t slot = below((uint32_t)(bits >> 32), live);
        give_back(table[slot], slot);
        table[slot] = take(random_size(bits), slot);
    }
    mix->random = random;
}

/* Enough for one to two seconds: the more objects, the more cache misses per pair. */
static uint64_t random_pairs(size_t live)
{
    return live <= 256 ? 40000000 : live <= 4096 ? 20000000 : live <= 65536 ? 10000000 : 8000000;
}

void run_random(const struct options *options, size_t live, struct outcome *outcome)
{
    if (live > UINT32_MAX) {
        die("random: too many live objects");
    }
    struct random_mix mix = {
        .table = harness_table(live * sizeof(void *)),
        .live = (uint32_t)live,
        .random = seeded(options->seed, 0),
    };
    outcome->rss_start_kib = rss_now_kib();
    outcome->live_bytes = live * RANDOM_MEAN;
    for (uint32_t slot = 0; slot < mix.live; slot++) {
        mix.table[slot] = take(random_size(next_random(&mix.random)), slot);
    }
    measure_steps(options, random_step, &mix, random_pairs(live), 1, outcome);
    for (uint32_t slot = 0; slot < mix.live; slot++) {
        give_back(mix.table[slot], slot);
    }
}

struct flags {
    void **table;
    uint32_t live;
    uint64_t random;
};

/* Its own writing instead of take(): a byte, and whatever an allocator left there stays. */
static void *take_flagged(uint32_t slot)
{
    char *block = malloc(FLAGS_SIZE);
    if (block == NULL) {
        die("out of memory");
    }
    *(volatile char *)block = (char)slot;
    return block;
}

static void flags_step(void *state, uint64_t pairs)
{
    struct flags *flags = state;
    void **table = flags->table;
    for (uint64_t done = 0; done < pairs; done += flags->live) {
        for (uint32_t slot = 0; slot < flags->live; slot++) {
            table[slot] = take_flagged(slot);
        }
        for (uint32_t left = flags->live; left > 0; left--) {
            uint32_t slot = below((uint32_t)(next_random(&flags->random) >> 32), left);
            free(table[slot]);
            table[slot] = table[left - 1];
        }
    }
}

void run_flags(const struct options *options, size_t live, struct outcome *outcome)
{
    if (live > UINT32_MAX) {
        die("flags: too many live objects");
    }
    struct flags flags = {
        .table = harness_table(live * sizeof(void *)),
        .live = (uint32_t)live,
        .random = seeded(options->seed, 0),
    };
    outcome->rss_start_kib = rss_now_kib();
    outcome->live_bytes = live * FLAGS_SIZE;
    measure_steps(options, flags_step, &flags, 20000000, live, outcome);
}

/* Of 24 bytes. */
struct tree_node {
    struct tree_node *left, *right;
    size_t depth; /* below it */
};

static struct tree_node *build_tree(size_t depth)
{
    struct tree_node *node = malloc(sizeof *node);
    if (node == NULL) {
        die("out of memory");
    }
    node->depth = depth;
    node->left = depth > 0 ? build_tree(depth - 1) : NULL;
    node->right = depth > 0 ? build_tree(depth - 1) : NULL;
    return node;
}

static void free_tree(struct tree_node *node, size_t depth)
{
    if (node->depth != depth) {
        die("a node was overwritten");
    }
    if (depth > 0) {
        free_tree(node->left, depth - 1);
        free_tree(node->right, depth - 1);
    }
    free(node);
}

static size_t nodes_of(size_t depth)
{
    return ((size_t)2 << depth) - 1;
}

static void tree_step(void *state, uint64_t pairs)
{
    size_t depth = *(const size_t *)state;
    for (uint64_t done = 0; done < pairs; done += nodes_of(depth)) {
        free_tree(build_tree(depth), depth);
    }
}

/* The deepest with no more nodes than that. */
void run_tree(const struct options *options, size_t live, struct outcome *outcome)
{
    size_t depth = 0;
    while (nodes_of(depth + 1) <= live) {
        depth++;
    }
    outcome->rss_start_kib = rss_now_kib();
    outcome->live_bytes = nodes_of(depth) * sizeof(struct tree_node);
    measure_steps(options, tree_step, &depth, 20000000, nodes_of(depth), outcome);
}
