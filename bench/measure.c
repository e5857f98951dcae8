/* bench_core's page faults and timed loop. */
#include "bench_core.h"

#include <sys/resource.h>

#define STEPS 64

long minor_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

uint64_t scaled(const struct options *options, uint64_t pairs)
{
    double wanted = (double)pairs * options->scale;
    return wanted < 1.0 ? 1 : (uint64_t)wanted;
}

void measure_steps(const struct options *options, step_fn *step, void *state, uint64_t pairs,
                   uint64_t granule, struct outcome *outcome)
{
    long faults[STEPS + 1];
    uint64_t limit_ns = (uint64_t)(options->limit_s * 1e9);
    uint64_t granules = scaled(options, pairs) / STEPS / granule;
    uint64_t per_step = (granules == 0 ? 1 : granules) * granule;
    uint64_t elapsed = 0;
    unsigned done = 0;

    faults[0] = minor_faults();
    uint64_t start = now_ns();
    do {
        step(state, per_step);
        elapsed = now_ns() - start;
        faults[++done] = minor_faults();
    } while (done < STEPS && elapsed < limit_ns);

    outcome->ops = per_step * done;
    outcome->ns_per_pair = (double)elapsed / (double)outcome->ops;
    outcome->faults_steady = faults[done] - faults[done / 2];
}
