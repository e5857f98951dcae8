#include "pressure/pressure.h"

#include "control/options.h"
#include "live/live.h"
#include "os/os.h"
#include "os/thread.h"
#include "pressure/cgroup.h"

enum {
    STEP_SHARE = 32,     /* of what is left: growth up to the next look */
    LOOK_MS = 100,       /* the next look without growth, where there is a limit */
    GROUP_MS = 1000,     /* which group is the tightest is asked again */
    UNLIMITED_MS = 2000, /* where there is no limit: whether there is one now */
    ROUND_MS = 1000,     /* the next round whatever happens, or when ... */
    ROUND_SHARE = 1024,  /* ... such a share of what is held has changed: a round looks at it all */
    ALLOWED_SHARE = 8,   /* of what is left of soft_limit may be free and keep its pages, ... */
    ALLOWED_OWN = 64,    /* ... and at least such a share of it */
};

#define FIRST_LOOK ((size_t)16 << 20)
#define STEP_MIN ((size_t)1 << 20)
#define UNLIMITED_STEP ((size_t)64 << 20)

/* A level is entered when less than one such share of the limit is left, and left above another. */
static const struct {
    size_t enter, leave;
} shares[] = {
    [PRESSURE_NEAR] = {8, 6},
    [PRESSURE_TIGHT] = {16, 12},
};

struct pressure hak_pressure = {.look_at = FIRST_LOOK, .first_tight = true};

static struct {
    _Atomic bool looking;     /* by one thread; the others go on. The rest is that thread's */
    _Atomic uint64_t last_ms; /* of the last look; read by anyone */
    _Atomic size_t step;      /* what the process may grow by before the next one; read by anyone */
    _Atomic bool limited;     /* read by anyone */
    _Atomic size_t gave;      /* bytes, by anyone */
    uint64_t group_ms, round_ms;
    size_t held_at_round;
    uint64_t looks, near, tight;
} state = {.limited = true};

enum pressure_level pressure_next(enum pressure_level now, size_t limit, size_t left)
{
    for (enum pressure_level level = PRESSURE_TIGHT; level > PRESSURE_NONE; level--) {
        if (left < limit / (now >= level ? shares[level].leave : shares[level].enter))
            return level;
    }
    return PRESSURE_NONE;
}

/* ---- one look: by one thread at a time ---- */

enum { SHARES = 256 }; /* of a limit, to compare two by */

static size_t share_left(struct cgroup_room room)
{
    return room_left(room) / (room.limit / SHARES + 1);
}

/* That of which the smaller share is left; without a limit (SIZE_MAX) all is. */
static struct cgroup_room tighter(struct cgroup_room own, struct cgroup_room group)
{
    bool is_own = group.limit == SIZE_MAX || share_left(own) < share_left(group);
    struct cgroup_room room = is_own ? own : group;
    room.stalled = group.stalled;
    return room;
}

/* `*nearest`: the bytes up to the first limit that is reached, which may be the other one's. */
static struct cgroup_room room_now(uint64_t now, size_t held, size_t fresh, size_t *nearest)
{
    bool anew = now - state.group_ms >= GROUP_MS;
    if (anew) {
        state.group_ms = now;
        store_relaxed(&hak_pressure.mappings_count, os_mappings_count());
    }
    struct cgroup_room group = cgroup_look(anew);
    group.used += fresh; /* it will be touched */
    size_t limit = option(soft_limit);
    struct cgroup_room own = {limit != 0 ? limit : SIZE_MAX, held, false};
    *nearest = least_of(room_left(own), room_left(group));
    return tighter(own, group);
}

static bool has_changed(size_t held)
{
    size_t before = state.held_at_round;
    return (held > before ? held - before : before - held) >= held / ROUND_SHARE;
}

/* A round of giving back is due when a level is entered, and as long as memory is tight. */
static void begin_round_if_due(enum pressure_level before, enum pressure_level level, size_t held,
                               uint64_t now)
{
    bool again = level == PRESSURE_TIGHT && (now - state.round_ms >= ROUND_MS || has_changed(held));
    if (level <= before && !again)
        return;
    state.held_at_round = held;
    state.round_ms = now;
    store_relaxed(&hak_pressure.due, true);
    add_relaxed(&hak_pressure.rounds, 1);
}

static void set_level(enum pressure_level level, size_t held, uint64_t now)
{
    enum pressure_level before = load_relaxed(&hak_pressure.level);
    store_relaxed(&hak_pressure.level, (uint32_t)level);
    state.near += before < PRESSURE_NEAR && level >= PRESSURE_NEAR;
    state.tight += before < PRESSURE_TIGHT && level >= PRESSURE_TIGHT;
    begin_round_if_due(before, level, held, now);
}

static void show(struct cgroup_room room, size_t left)
{
    struct live_area *a = live_area();
    if (a == NULL)
        return;
    struct live_process *p = a->process;
    bool limited = room.limit != SIZE_MAX;
    store_relaxed(&p->pressure_level, load_relaxed(&hak_pressure.level));
    store_relaxed(&p->pressure_limit, limited ? room.limit : 0);
    store_relaxed(&p->pressure_left, limited ? left : 0);
    store_relaxed(&p->pressure_looks, state.looks);
    store_relaxed(&p->pressure_near, state.near);
    store_relaxed(&p->pressure_tight, state.tight);
}

static void judge(struct cgroup_room room, size_t nearest, uint64_t now, size_t held)
{
    bool limited = room.limit != SIZE_MAX;
    size_t left = room_left(room);
    enum pressure_level level = load_relaxed(&hak_pressure.level);
    level = limited ? pressure_next(level, room.limit, left) : PRESSURE_NONE;
    if (level < PRESSURE_NEAR && room.stalled)
        level = PRESSURE_NEAR;
    bool is_own = room.limit == option(soft_limit); /* beyond which nobody is killed */
    size_t allowed = largest_of(left / ALLOWED_SHARE, room.limit / ALLOWED_OWN);
    store_relaxed(&hak_pressure.allowed, is_own ? allowed : 0);
    set_level(level, held, now);
    size_t step =
        limited ? largest_of(nearest / STEP_SHARE, STEP_MIN) : largest_of(UNLIMITED_STEP, held / 4);
    store_relaxed(&state.step, step);
    store_relaxed(&state.limited, limited);
    store_relaxed(&hak_pressure.look_at, held + step);
    state.looks++;
    show(room, left);
}

/* acquire, and release when it is done: the next to look goes on where this one was. */
static bool begin_to_look(void)
{
    bool looking = false;
    return cas_acquire(&state.looking, &looking, true);
}

static bool is_rest_due(uint64_t now)
{
    return !load_relaxed(&state.limited) && now - load_relaxed(&state.last_ms) < UNLIMITED_MS;
}

void pressure_look(size_t held, size_t fresh)
{
    if (!thread_may_wait() || !begin_to_look())
        return;
    uint64_t now = os_now_ms();
    if (!option(pressure)) {
        set_level(PRESSURE_NONE, held, now);
        store_relaxed(&state.limited, false);
        store_relaxed(&hak_pressure.look_at, held + UNLIMITED_STEP);
    } else if (is_rest_due(now)) {
        store_relaxed(&hak_pressure.look_at, held + load_relaxed(&state.step));
    } else {
        size_t nearest;
        struct cgroup_room room = room_now(now, held, fresh, &nearest);
        judge(room, nearest, now, held);
    }
    store_relaxed(&state.last_ms, now);
    store_release(&state.looking, false);
}

HAK_COLD void pressure_note_filled(size_t held, size_t bytes)
{
    size_t look_at = load_relaxed(&hak_pressure.look_at);
    store_relaxed(&hak_pressure.look_at, look_at - least_of(look_at, bytes));
    pressure_note_growth(held, bytes);
}

HAK_COLD static void look_again(size_t held)
{
    if (os_now_ms() - load_relaxed(&state.last_ms) >= LOOK_MS)
        pressure_look(held, 0);
    else if (load_relaxed(&hak_pressure.look_at) > held + load_relaxed(&state.step))
        store_relaxed(&hak_pressure.look_at, held + load_relaxed(&state.step));
}

void pressure_note_time(size_t held)
{
    /* Before the first look there is no step. */
    if (load_relaxed(&state.limited) && load_relaxed(&state.step) != 0)
        look_again(held);
}

void pressure_gave(size_t bytes)
{
    if (pressure_is(PRESSURE_NEAR))
        live_set(pressure_gave, (uint64_t)(add_relaxed(&state.gave, bytes) + bytes));
}

void pressure_forget_looker(void)
{
    store_relaxed(&state.looking, false);
    store_relaxed(&hak_pressure.first_tight, true); /* the child has not shown what it has then */
}
