/* What the fuzz targets share: reading an input, and ending a run that went wrong. */
#ifndef HAK_FUZZ_H
#define HAK_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Each target: one run. libFuzzer and AFL++ call it by this name, as replay.c does. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at, *end;
};

/* Little-endian; what lies behind the end of the input reads as zeros. */
static inline uint64_t input_take(struct input *in, unsigned bytes)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < bytes && in->at < in->end; i++)
        value |= (uint64_t)*in->at++ << (8 * i);
    return value;
}

/* A size of any kind: most small, some at the borders of what a layer serves, some impossible. */
size_t input_size(struct input *in);
/* An alignment, some of which are none. */
size_t input_alignment(struct input *in);

/* Says what is wrong and aborts: that is what a fuzzer keeps an input for. */
_Noreturn void broken(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends a run in which a request failed that memory should be there for: broken, or skipped where overcommit is strict. */
_Noreturn void refused(size_t size, size_t alignment);

#endif
