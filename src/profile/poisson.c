#include "profile/poisson.h"

#include <string.h>

/* xorshift64*: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return x * UINT64_C(2685821657736338717);
}

#define LN_2 0.69314718055994530942
#define SQRT_2 1.41421356237309504880

/* x is a normal number above 0. ln(m 2^e) = e ln 2 + ln m, with m around 1; there ln m = 2 artanh s with
 * s = (m - 1) / (m + 1), by its series: |s| is below 0.172. */
static double natural_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > SQRT_2) {
        m /= 2;
        exponent++;
    }
    double s = (m - 1) / (m + 1), t = s * s;
    double series = 1 + t * (1. / 3 + t * (1. / 5 + t * (1. / 7 + t * (1. / 9 + t * (1. / 11)))));
    return exponent * LN_2 + 2 * s * series;
}

int64_t poisson_distance(uint64_t *random, uint64_t interval)
{
    /* Uniform in (0, 1): 53 bits and a half. */
    double u = ((double)(next_random(random) >> 11) + 0.5) / (double)((uint64_t)1 << 53);
    return (int64_t)(-natural_log(u) * (double)interval);
}

double poisson_hit(double x)
{
    enum { HALVINGS = 10 };
    if (x > 40)
        return 1;
    if (x < 0.05)
        return x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6)))));
    /* exp(-x) = exp(-x / 1024) ^ 1024 */
    double t = x / (1 << HALVINGS);
    double e = 1 - t * (1 - t / 2 * (1 - t / 3 * (1 - t / 4 * (1 - t / 5))));
    for (int i = 0; i < HALVINGS; i++)
        e *= e;
    return 1 - e;
}
