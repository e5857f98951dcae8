#include "mind/falls.h"

#include <string.h>

static void join_oldest(struct falls *f)
{
    struct fall *a = &f->at[0], *b = &f->at[1];
    size_t bytes = a->bytes + b->bytes, kept = a->kept + b->kept;
    if (a->bytes > b->bytes)
        *b = *a;
    b->bytes = bytes;
    b->kept = kept;
    f->count--;
    memmove(a, b, f->count * sizeof *a);
}

void falls_push(struct falls *f, struct fall fall, uint64_t together_ms)
{
    struct fall *newest = f->count > 0 ? &f->at[f->count - 1] : NULL;
    if (newest != NULL && newest->key == fall.key && fall.ms - newest->ms < together_ms) {
        newest->bytes += fall.bytes;
        newest->kept += fall.kept;
        return;
    }
    if (f->count == FALLS_MOST)
        join_oldest(f);
    f->at[f->count++] = fall;
}

struct fall falls_pop(struct falls *f, size_t bytes)
{
    if (f->count == 0)
        return (struct fall){0};
    struct fall *newest = &f->at[f->count - 1], taken = *newest;
    if (bytes < newest->bytes) {
        taken.bytes = bytes;
        taken.kept = least_of(taken.kept, bytes);
        newest->bytes -= bytes;
        newest->kept -= taken.kept;
    } else {
        f->count--;
    }
    return taken;
}
