/* bench_core: what the shapes share. README.md says what each shape models. */
#ifndef BENCH_CORE_H
#define BENCH_CORE_H

#include "common.h"

struct options {
    uint64_t seed;
    double scale;   /* multiplies the number of operations */
    double limit_s; /* single-threaded loops stop at the first 64th past it */
    double idle_s;  /* pause of `peak` before its final RSS is read */
};

#define NO_STEADY_STATE (-1L)

struct outcome {
    uint64_t ops;
    double ns_per_pair;
    unsigned threads;
    uint64_t live_bytes; /* most that is live at a time; expected value where sizes are random */
    long faults_steady;  /* minor faults in the second half of the timed part, or NO_STEADY_STATE */
    long rss_start_kib;  /* before the first block, the harness' own tables in place */
};

/* Shapes. `argument` is the number after the name, 0 for a shape that takes none. */
void run_hot32(const struct options *, size_t argument, struct outcome *);
void run_lifo(const struct options *, size_t block_size, struct outcome *);
void run_random(const struct options *, size_t live, struct outcome *);
void run_flags(const struct options *, size_t live, struct outcome *);
void run_tree(const struct options *, size_t live, struct outcome *);
void run_cycle(const struct options *, size_t block_size, struct outcome *);
void run_cycle_fill(const struct options *, size_t block_size, struct outcome *);
void run_cycle8(const struct options *, size_t block_size, struct outcome *);
void run_peak(const struct options *, size_t argument, struct outcome *);
void run_pingpong(const struct options *, size_t argument, struct outcome *);
void run_produce(const struct options *, size_t argument, struct outcome *);

/* measure.c */
typedef void step_fn(void *state, uint64_t pairs);

/* Times `step` over about `pairs` pairs (a multiple of `granule`) in 64 equal calls; fills ops,
 * ns_per_pair, faults_steady. */
void measure_steps(const struct options *, step_fn *step, void *state, uint64_t pairs,
                   uint64_t granule, struct outcome *);
uint64_t scaled(const struct options *, uint64_t pairs);
long minor_faults(void);

#endif
