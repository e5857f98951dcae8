/* Rules from a file, and what the mind makes of them: nothing leaves its bounds, and never more is kept than demand has
 * fallen by. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "control/options.h"
#include "fuzz.h"
#include "live/live.h"
#include "mind/keep.h"
#include "mind/rules.h"

/* Demand may have risen by less than a step since it was followed last. */
enum { STEPS = 16, HOUR_MS = 3600 * 1000, STEP_SHARE = 32, STEP_LEAST = 1 << 20 };

/* Whatever the line was. */
static void look_at_rules(const struct live_area *a)
{
    for (uint32_t i = 0; i < LIVE_ROWS_rules; i++) {
        const struct live_rules *row = &a->rules[i];
        if (load_relaxed(&row->keep_ms) > 16000)
            broken("rule %u keeps for %u ms", i, load_relaxed(&row->keep_ms));
        for (int k = 0; k < KEEP_TIMES; k++) {
            if (load_relaxed(&row->kib[k]) > 2 * KEEP_KIB_MOST)
                broken("rule %u has more evidence than it was given", i);
        }
    }
}

static void live_by_them(struct input *in, uint64_t *now)
{
    size_t high = 0;
    for (int i = 0; i < STEPS; i++) {
        size_t in_use = input_take(in, 2) << 20;
        uint16_t key = (uint16_t)(input_take(in, 1) % KEEP_KEYS);
        high = in_use > high ? in_use : high;
        *now += input_take(in, 2);
        size_t kept = keep_look(in_use, key, *now), fallen = high - in_use;
        if (kept > fallen + high / STEP_SHARE + STEP_LEAST)
            broken("%zu bytes are kept where demand fell by %zu", kept, fallen);
    }
}

static int file = -1, said, nowhere;

static void start(void)
{
    store_relaxed(&hak_live.due, true);
    if (live_make() == NULL)
        broken("there is no live area");
    file = memfd_create("rules", MFD_CLOEXEC);
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    said = dup(STDERR_FILENO);
    if (file < 0 || nowhere < 0 || said < 0)
        broken("no files");
}

/* What is said of its lines goes nowhere. */
static void load(const uint8_t *text, size_t size, uint64_t now)
{
    char path[32];
    if (ftruncate(file, 0) != 0 || pwrite(file, text, size, 0) != (ssize_t)size)
        broken("the file cannot be written");
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    (void)dup2(nowhere, STDERR_FILENO);
    rules_load(path, now);
    (void)dup2(said, STDERR_FILENO);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t now;
    struct input in = {data, data + size}, steps = {data + size / 2, data + size};
    if (file < 0)
        start();
    hak_options.keep = KEEP_SIZE + input_take(&in, 1) % 3;
    hak_options.keep_worth = input_take(&in, 2) % 60001;
    keep_look(0, 0, now += HOUR_MS); /* what fell before does not count */
    load(in.at, (size_t)(in.end - in.at), now);
    keep_look(0, 0, now += HOUR_MS);
    live_by_them(&steps, &now);
    look_at_rules(live_area());
    return 0;
}
