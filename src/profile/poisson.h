/* The arithmetic of sampling, without libm. Relative errors are below 1e-9. */
#ifndef HAK_POISSON_H
#define HAK_POISSON_H

#include "base/base.h"

/* The distance to the next point of a Poisson process with `interval` bytes between two on average. */
int64_t poisson_distance(uint64_t *random, uint64_t interval);

/* 1 - exp(-x), x above 0: the probability that a block x intervals long is a sample. */
double poisson_hit(double x);

#endif
