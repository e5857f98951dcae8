/* roulette: a program drawn by a seed. Sizes, how long blocks live, how many there are, the threads and what of a block is touched come
 * from the seed alone, so that programs nobody has chosen can be compared; several hundred of them are a sample of what there is. */
#include <math.h>
#include <pthread.h>
#include <sys/resource.h>

#include "common.h"
#include "lanes.h"

enum { SEED, LENGTH, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [SEED] = {"SEED", "which program", 0, UINT32_MAX, NULL, 0, 0},
    [LENGTH] = {"LENGTH", "percent of its usual 250 ms, about", 1, 100000, NULL, 100, 1},
};

enum { KINDS = 3, DRAWN = 1 << 16, LOCKS = 64, SHORT_LIVED = 16, LOOKS = 40, PHASES = 4 };

enum spacing { ONE_SIZE, EVEN, LOGARITHMIC };
enum touching { FIRST_BYTE, BOTH_ENDS, ALL_LINES };
enum pattern { AT_RANDOM, STACK, QUEUE, GENERATIONS, ARENA, GROWING, PATTERNS };

struct part {
    double weight, least, most;
    enum spacing spacing;
};

/* Sizes are drawn beforehand: drawing them takes longer than a malloc. */
struct mix {
    struct part parts[KINDS];
    unsigned count;
    size_t *drawn;
};

static struct {
    unsigned threads;
    enum pattern pattern;
    enum touching touching;
    int crosses, phases,
        in_order; /* blocks change threads; two mixes take turns; arenas are freed as they were filled */
    double long_lived; /* share of a generation */
    struct mix mixes[2];
    uint64_t live, ops; /* blocks of each thread at most; operations of all */
} program;

struct place {
    char *block;
    size_t size;
};

static struct place *exchange; /* between threads */
static pthread_mutex_t exchange_locks[LOCKS];

static struct {
    double kib;
    long looks;
} resident; /* summed up by the first thread */

/* ---- drawing ---- */

/* splitmix64 (Steele, Lea and Flood 2014), whose state may be any number. */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

static double draw_share(uint64_t *state)
{
    return (double)(draw(state) >> 11) * 0x1p-53;
}

static double draw_log(uint64_t *state, double least, double most)
{
    return least * pow(most / least, draw_share(state));
}

static uint64_t draw_below(uint64_t *state, uint64_t n)
{
    return (uint64_t)(((unsigned __int128)draw(state) * n) >> 64);
}

static double draw_largest(uint64_t *state)
{
    if (draw_share(state) < 0.35)
        return draw_share(state) < 0.3 ? 4e6 : 300000;
    return draw_share(state) < 0.4 ? 16384 : 1024;
}

static void draw_mix(struct mix *mix, uint64_t *state)
{
    mix->count = 1 + (unsigned)draw_below(state, KINDS);
    double largest = draw_largest(state);
    for (unsigned i = 0; i < mix->count; i++) {
        struct part *p = &mix->parts[i];
        p->weight = draw_share(state) + 0.05;
        p->spacing = (enum spacing)draw_below(state, KINDS);
        double a = draw_log(state, 8, largest), b = draw_log(state, 8, largest);
        p->least = a < b ? a : b;
        p->most = a < b ? b : a;
    }
}

static const struct part *draw_part(const struct mix *mix, uint64_t *state)
{
    double sum = 0;
    for (unsigned i = 0; i < mix->count; i++)
        sum += mix->parts[i].weight;
    double at = draw_share(state) * sum;
    unsigned i = 0;
    while (i < mix->count - 1 && (at -= mix->parts[i].weight) > 0)
        i++;
    return &mix->parts[i];
}

static size_t draw_size(const struct mix *mix, uint64_t *state)
{
    const struct part *p = draw_part(mix, state);
    if (p->spacing == ONE_SIZE)
        return (size_t)p->least;
    if (p->spacing == EVEN)
        return (size_t)(p->least + draw_share(state) * (p->most - p->least));
    return (size_t)(p->least * pow(p->most / p->least, draw_share(state)));
}

/* Returns their mean. */
static double draw_sizes(struct mix *mix, uint64_t seed)
{
    double sum = 0;
    mix->drawn = harness_table(DRAWN * sizeof *mix->drawn);
    for (int i = 0; i < DRAWN; i++) {
        mix->drawn[i] = draw_size(mix, &seed);
        sum += (double)mix->drawn[i];
    }
    return sum / DRAWN;
}

/* Nanoseconds of an operation, roughly: how many there are is to depend on the program, not on the allocator. */
static double guessed_cost(double mean)
{
    double touching[] = {
        [FIRST_BYTE] = 10, [BOTH_ENDS] = 60, [ALL_LINES] = mean / 64 * 4 + mean / 4096 * 30};
    return 25 + touching[program.touching] + (mean > 200000 ? mean / 4096 * 100 : 0);
}

static void draw_program(uint64_t seed, double length)
{
    static const unsigned threads[] = {1, 1, 1, 2, 2, 4};
    uint64_t state = seed * 7919 + 13;
    (void)draw(&state);
    program.threads = threads[draw_below(&state, sizeof threads / sizeof *threads)];
    program.pattern = (enum pattern)draw_below(&state, PATTERNS);
    program.touching = (enum touching)draw_below(&state, KINDS);
    program.crosses =
        program.threads > 1 && program.pattern == AT_RANDOM && draw_share(&state) < 0.6;
    program.phases = draw_share(&state) < 0.3;
    program.in_order = draw_share(&state) < 0.5;
    program.long_lived = draw_log(&state, 0.001, 0.3);
    double mean = 0;
    for (unsigned i = 0; i < 2; i++)
        draw_mix(&program.mixes[i], &state);
    for (unsigned i = 0; i < 2; i++) {
        double of_mix = draw_sizes(&program.mixes[i], 99 + i);
        mean = (i == 0 || program.phases) && of_mix > mean ? of_mix : mean;
    }
    double live = draw_log(&state, 8, 300000), most = draw_log(&state, 1e6, 2e8);
    most /= mean * program.threads;
    live = live > most ? most : live;
    program.live = live < 4 ? 4 : (uint64_t)live;
    program.ops = (uint64_t)(length * 2.5e8 / guessed_cost(mean));
    uint64_t least = 8 * program.live * program.threads;
    program.ops = program.ops < least ? least : program.ops;
}

/* ---- running ---- */

struct lane {
    uint64_t random, ops, next, filled;
    struct place *live;
    char *short_lived[SHORT_LIVED];
    int first;
};

static char *make(size_t size)
{
    char *p = malloc(size);
    if (p == NULL)
        die_no_memory(size);
    p[0] = 1;
    if (program.touching == FIRST_BYTE)
        return p;
    for (size_t i = 64; program.touching == ALL_LINES && i < size; i += 64)
        p[i] = 1;
    p[size - 1] = 1;
    return p;
}

static void replace(char **block, size_t size)
{
    free(*block);
    *block = make(size);
}

static struct place *any(struct lane *l)
{
    return &l->live[draw_below(&l->random, program.live)];
}

static void swap_with_others(struct lane *l, struct place *mine)
{
    uint64_t at = draw_below(&l->random, program.live);
    pthread_mutex_lock(&exchange_locks[at % LOCKS]);
    struct place theirs = exchange[at];
    exchange[at] = *mine;
    *mine = theirs;
    pthread_mutex_unlock(&exchange_locks[at % LOCKS]);
}

static void at_random(struct lane *l, size_t size)
{
    struct place *p = any(l);
    if (program.crosses && draw(&l->random) % 4 == 0)
        swap_with_others(l, p);
    replace(&p->block, size);
}

static void push_or_pop(struct lane *l, size_t size)
{
    if (l->filled == 0 || (l->filled < program.live && draw(&l->random) % 2 == 1)) {
        l->live[l->filled++].block = make(size);
    } else {
        free(l->live[--l->filled].block);
        l->live[l->filled].block = NULL;
    }
}

static void replace_oldest(struct lane *l, size_t size)
{
    replace(&l->live[l->next++ % program.live].block, size);
}

static void generation(struct lane *l, size_t size)
{
    if (draw_share(&l->random) < program.long_lived)
        replace(&any(l)->block, size);
    else
        replace(&l->short_lived[l->next++ % SHORT_LIVED], size);
}

static void fill_or_empty(struct lane *l, size_t size)
{
    if (l->filled < program.live) {
        l->live[l->filled++].block = make(size);
        return;
    }
    for (uint64_t i = 0; i < program.live; i++)
        free(l->live[program.in_order ? i : program.live - 1 - i].block);
    memset(l->live, 0, program.live * sizeof *l->live);
    l->filled = 0;
}

static void grow(struct lane *l, size_t size)
{
    struct place *p = any(l);
    if (p->block == NULL || p->size >= size) {
        p->size = size / 8 + 8;
        replace(&p->block, p->size);
        return;
    }
    p->size = p->size * 3 / 2;
    p->block = realloc(p->block, p->size);
    if (p->block == NULL)
        die_no_memory(p->size);
    p->block[p->size - 1] = 1;
}

static void (*const steps[PATTERNS])(struct lane *l, size_t size) = {
    [AT_RANDOM] = at_random,    [STACK] = push_or_pop,   [QUEUE] = replace_oldest,
    [GENERATIONS] = generation, [ARENA] = fill_or_empty, [GROWING] = grow,
};

static void look(const struct lane *l)
{
    if (!l->first)
        return;
    resident.kib += (double)rss_now_kib();
    resident.looks++;
}

static void run(void *lane)
{
    struct lane *l = lane;
    uint64_t apart = l->ops / LOOKS + 1;
    for (uint64_t i = 0; i < l->ops; i++) {
        unsigned mix = program.phases && (i * PHASES / l->ops) % 2 == 1;
        if (i % apart == 0)
            look(l);
        steps[program.pattern](l, program.mixes[mix].drawn[draw(&l->random) % DRAWN]);
    }
    look(l);
    for (uint64_t i = 0; i < program.live; i++)
        free(l->live[i].block);
    for (unsigned i = 0; i < SHORT_LIVED; i++)
        free(l->short_lived[i]);
}

static void describe(void)
{
    static const char *const patterns[] = {"random",      "stack", "queue",
                                           "generations", "arena", "growing"},
                             *const touching[] = {"first byte", "both ends", "all lines"},
                             *const spacings[] = {"", "even", "logarithmic"};
    printf("# %u threads, %s%s%s, %llu blocks each, touched: %s\n", program.threads,
           patterns[program.pattern], program.crosses ? " and across threads" : "",
           program.phases ? ", in phases" : "", (unsigned long long)program.live,
           touching[program.touching]);
    for (int i = 0; i <= program.phases; i++) {
        for (unsigned k = 0; k < program.mixes[i].count; k++) {
            const struct part *p = &program.mixes[i].parts[k];
            printf("# %s%.2f of %.0f to %.0f bytes %s\n", i == 0 ? "" : "then ", p->weight,
                   p->least, p->spacing == ONE_SIZE ? p->least : p->most, spacings[p->spacing]);
        }
    }
}

static double processor_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

int main(int argc, char **argv)
{
    parse_arguments("A program drawn by a seed.", parameters, PARAMETERS, argc, argv);
    draw_program(parameters[SEED].value, (double)parameters[LENGTH].value / 100);
    struct lane lanes[4];
    exchange = harness_table(program.live * sizeof *exchange);
    for (unsigned i = 0; i < LOCKS; i++)
        pthread_mutex_init(&exchange_locks[i], NULL);
    for (unsigned i = 0; i < program.threads; i++) {
        lanes[i] = (struct lane){
            .random = 1000 + i * 77, .ops = program.ops / program.threads, .first = i == 0};
        lanes[i].live = harness_table(program.live * sizeof *lanes[i].live);
    }
    double before = processor_seconds();
    uint64_t elapsed = run_lanes(&(struct lanes){
        .count = program.threads, .state = lanes, .size = sizeof *lanes, .body = run});
    double processor = processor_seconds() - before;
    for (uint64_t i = 0; i < program.live; i++)
        free(exchange[i].block);
    report(program.ops, elapsed);
    report_value("processor_ns_per_op", processor * 1e9 / (double)program.ops);
    report_value("mean_rss_kib", resident.kib / (double)resident.looks);
    describe();
    return 0;
}
