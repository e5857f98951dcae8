#include "profile/guarded.h"
#include "profile/past.h"
#include "profile/records.h"
#include "profile/sampler.h"
#include "profile/sites.h"

static const struct record *record_around(uintptr_t at)
{
    const struct record *r = records_next(NULL);
    while (r != NULL && at - r->address >= r->usable)
        r = records_next(r);
    return r;
}

static struct trace trace_of_site(uint32_t site, uint32_t tid)
{
    const struct live_area *a = records_area();
    struct trace t = {.tid = tid};
    if (a != NULL)
        t.depth = site_stack(a, site, t.at, PAST_FRAMES);
    return t;
}

static bool tell_live(struct block_story *out, const struct record *r)
{
    if (r == NULL)
        return false;
    *out = (struct block_story){
        .address = r->address, .size = r->size, .allocated = trace_of_site(r->site, r->tid)};
    return true;
}

static bool tell_freed(struct block_story *out, const struct freed_block *b)
{
    if (b == NULL)
        return false;
    *out = (struct block_story){b->address, b->size, true, trace_of_site(b->site, b->tid), b->by};
    return true;
}

static bool find_story(uintptr_t at, struct block_story *out)
{
    if (!guarded_owns((void *)at))
        return tell_live(out, record_around(at)) || tell_freed(out, past_find(at));
    struct guarded_block b = guarded_near(at);
    if (b.address == 0)
        return false;
    return b.is_live ? tell_live(out, record_find(b.address))
                     : tell_freed(out, guarded_past(b.address));
}

HAK_COLD bool sampled_story(uintptr_t at, struct block_story *out)
{
    if (!lock_take_bounded(sampler_lock()))
        return false;
    bool found = find_story(at, out);
    lock_release(sampler_lock());
    return found;
}
