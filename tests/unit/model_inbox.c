/* The inbox protocol (src/heap/remote.c), every interleaving of it.
 *
 * One owner gives its heap up while two senders push two batches each. A step is one access to
 * something shared, and steps of all threads follow each other in every possible order (sequential
 * consistency). When all have come to an end, nobody is left who would empty the inbox, so every
 * batch must have been drained exactly once. The checker proves that it can fail on protocols that
 * are known to be wrong.
 *
 * One difference from the code: here a sender that finds the orphan's lock taken waits for it. There
 * it goes away, and whoever holds the lock looks at the inbox again after giving it back
 * (heap_unlock_visited), which is argued in its comment and not modelled here. */
#include "unit.h"

#include <stdlib.h>

enum { SENDERS = 2, BATCHES = 2, NODES = SENDERS * BATCHES, OWNER = SENDERS, ACTORS = SENDERS + 1 };

enum step {
    LOAD_HEAD,  /* sender: reads the inbox's head */
    CAS_HEAD,   /* sender: hangs its batch in front if the head is still that; else reads again */
    READ_STATE, /* sender: is the heap an orphan? */
    LOCK_TO_HELP,
    LOCK_OWN,  /* owner: waits for its heap's lock */
    ABANDON_1, /* owner: stores ORPHAN */
    ABANDON_2, /* owner: drains */
    DRAIN,     /* sender: drains in the owner's place */
    UNLOCK,
    DONE
};

struct protocol {
    bool drain_first;   /* abandoning drains and then stores the state: wrong */
    bool gives_up_lock; /* who finds an orphan locked goes away: wrong */
    bool skips_state;   /* senders do not look at the state: wrong */
};

/* Nodes are 1 .. NODES, 0 is none. No padding: compared and hashed by its bytes. */
struct world {
    uint8_t head, orphan, lock; /* of the lock: 0 free, else the actor + 1 */
    uint8_t next[NODES + 1];
    uint8_t drained[NODES + 1]; /* how often */
    uint8_t at[ACTORS], batch[ACTORS], expected[ACTORS];
};

_Static_assert(sizeof(struct world) == 3 + 2 * (NODES + 1) + 3 * ACTORS, "no padding");

/* ---- one step ---- */

static uint8_t node_of(const struct world *w, int actor)
{
    return (uint8_t)(1 + actor * BATCHES + w->batch[actor]);
}

static void batch_done(struct world *w, int actor)
{
    w->batch[actor]++;
    w->at[actor] = w->batch[actor] < BATCHES ? LOAD_HEAD : DONE;
}

/* An exchange; the chain is private afterwards, so following it is no step of its own. */
static void drain(struct world *w)
{
    for (uint8_t node = w->head; node != 0; node = w->next[node])
        w->drained[node]++;
    w->head = 0;
}

static void step_cas(struct world *w, int actor)
{
    uint8_t node = node_of(w, actor);
    w->next[node] = w->expected[actor];
    if (w->head == w->expected[actor]) {
        w->head = node;
        w->at[actor] = READ_STATE;
    } else {
        w->expected[actor] = w->head;
    }
}

static bool step_lock(struct world *w, int actor, bool waits, enum step then)
{
    if (w->lock == 0) {
        w->lock = (uint8_t)(actor + 1);
        w->at[actor] = (uint8_t)then;
    } else if (waits) {
        return false;
    } else {
        batch_done(w, actor);
    }
    return true;
}

static void step_unlock(struct world *w, int actor)
{
    w->lock = 0;
    if (actor == OWNER)
        w->at[actor] = DONE;
    else
        batch_done(w, actor);
}

/* Where a sender goes from READ_STATE. A full inbox of a living heap is helped as well, which may
 * happen or not: that is the one choice there is. */
static void step_read_state(struct world *w, int actor, const struct protocol *p, bool full)
{
    if ((w->orphan && !p->skips_state) || full)
        w->at[actor] = LOCK_TO_HELP;
    else
        batch_done(w, actor);
}

/* Lets an actor take its next step. False: it waits or is done. */
static bool step(struct world *w, int actor, const struct protocol *p, bool full)
{
    switch ((enum step)w->at[actor]) {
    case LOAD_HEAD:
        w->expected[actor] = w->head;
        w->at[actor] = CAS_HEAD;
        return true;
    case CAS_HEAD:
        step_cas(w, actor);
        return true;
    case READ_STATE:
        step_read_state(w, actor, p, full);
        return true;
    case LOCK_TO_HELP:
        return step_lock(w, actor, w->orphan && !p->gives_up_lock, DRAIN);
    case LOCK_OWN:
        return step_lock(w, actor, true, ABANDON_1);
    case ABANDON_1:
    case ABANDON_2:
        if ((w->at[actor] == ABANDON_1) != p->drain_first)
            w->orphan = true;
        else
            drain(w);
        w->at[actor] = w->at[actor] == ABANDON_1 ? ABANDON_2 : UNLOCK;
        return true;
    case DRAIN:
        drain(w);
        w->at[actor] = UNLOCK;
        return true;
    case UNLOCK:
        step_unlock(w, actor);
        return true;
    case DONE:
        return false;
    }
    return false;
}

/* ---- all interleavings ---- */

enum { TABLE = 1 << 20 };

struct search {
    struct protocol protocol;
    struct world *seen; /* open addressing; slots with no drained[0] mark are empty */
    size_t worlds, ends, lost, twice, stuck;
};

/* False: seen before. drained[0] belongs to no node and marks the slot as used. */
static bool remember(struct search *s, const struct world *w)
{
    const unsigned char *bytes = (const unsigned char *)w;
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < sizeof *w; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    size_t slot = (hash ^ hash >> 32) % TABLE;
    while (s->seen[slot].drained[0] != 0) {
        if (memcmp(&s->seen[slot], w, sizeof *w) == 0)
            return false;
        slot = (slot + 1) % TABLE;
    }
    s->seen[slot] = *w;
    s->worlds++;
    assert_true(s->worlds < TABLE / 2);
    return true;
}

static void judge_end(struct search *s, const struct world *w)
{
    s->ends++;
    for (int actor = 0; actor < ACTORS; actor++)
        s->stuck += w->at[actor] != DONE;
    for (int node = 1; node <= NODES; node++) {
        s->lost += w->drained[node] == 0;
        s->twice += w->drained[node] > 1;
    }
}

static void explore(struct search *s, const struct world *w)
{
    if (!remember(s, w))
        return;
    bool moved = false;
    for (int actor = 0; actor < ACTORS; actor++) {
        for (int full = 0; full <= (w->at[actor] == READ_STATE); full++) {
            struct world after = *w;
            if (!step(&after, actor, &s->protocol, full))
                continue;
            moved = true;
            explore(s, &after);
        }
    }
    if (!moved)
        judge_end(s, w);
}

static struct search explore_all(struct protocol p)
{
    struct search s = {.protocol = p, .seen = calloc(TABLE, sizeof(struct world))};
    assert_non_null(s.seen);
    struct world start;
    memset(&start, 0, sizeof start);
    start.drained[0] = 1;
    start.at[OWNER] = LOCK_OWN;
    explore(&s, &start);
    free(s.seen);
    print_message("%zu states, %zu ends, batches lost in them: %zu\n", s.worlds, s.ends, s.lost);
    assert_true(s.ends > 0);
    assert_int_equal(s.stuck, 0);
    assert_int_equal(s.twice, 0);
    return s;
}

static void no_batch_is_lost(void **state)
{
    (void)state;
    struct search s = explore_all((struct protocol){0});
    assert_int_equal(s.lost, 0);
    assert_true(s.worlds > 1000); /* it did look at more than one order */
}

static void draining_before_the_state_loses_batches(void **state)
{
    (void)state;
    assert_true(explore_all((struct protocol){.drain_first = true}).lost > 0);
}

static void senders_that_only_try_the_lock_lose_batches(void **state)
{
    (void)state;
    assert_true(explore_all((struct protocol){.gives_up_lock = true}).lost > 0);
}

static void senders_that_do_not_look_lose_batches(void **state)
{
    (void)state;
    assert_true(explore_all((struct protocol){.skips_state = true}).lost > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_batch_is_lost),
        cmocka_unit_test(draining_before_the_state_loses_batches),
        cmocka_unit_test(senders_that_only_try_the_lock_lose_batches),
        cmocka_unit_test(senders_that_do_not_look_lose_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
