#include "fuzz.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../strict.h"

enum { EXIT_SKIPPED = 77 };

static size_t impossible_size(struct input *in)
{
    uint64_t how = input_take(in, 1), distance = input_take(in, 2);
    if (how % 3 == 0)
        return (size_t)PTRDIFF_MAX + 1 + distance;
    if (how % 3 == 1)
        return SIZE_MAX - distance;
    return ((size_t)1 << (32 + how / 3 % 31)) + distance;
}

size_t input_size(struct input *in)
{
    uint64_t kind = input_take(in, 1);
    switch (kind & 7) {
    case 0:
    case 1:
    case 2:
        return input_take(in, 1) * 8 - (kind >> 3) % 8;
    case 3:
        return input_take(in, 2);
    case 4:
        return input_take(in, 3) % ((size_t)320 << 10);
    case 5:
        return input_take(in, 3) % ((size_t)5 << 20);
    case 6:
        return ((size_t)1 << (kind >> 3) % 28) + (size_t)(int8_t)input_take(in, 1);
    default:
        return impossible_size(in);
    }
}

size_t input_alignment(struct input *in)
{
    uint64_t kind = input_take(in, 1);
    if (kind < 192)
        return (size_t)1 << kind % 24;
    return kind < 224 ? (size_t)1 << kind % 64 : input_take(in, 2);
}

void broken(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("BROKEN: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

void refused(size_t size, size_t alignment)
{
    if (!overcommit_is_strict())
        broken("size %zu, alignment %zu: refused", size, alignment);
    fputs("skipped: the machine promises no more memory\n", stderr);
    _exit(EXIT_SKIPPED);
}
