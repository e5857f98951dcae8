#include "heap/worker.h"

#include <pthread.h>

#include "heap/hollow.h"
#include "live/live.h"
#include "os/os.h"
#include "purge/purge.h"
#include "super/super.h"

enum { PAUSE_MS = 250 };

static HAK_COLD void tend_heaps(void)
{
    thread_enter();
    while (hollow_may_be() && hollow_tend(NULL))
        ;
    thread_leave();
}

static HAK_COLD _Noreturn void *work(void *nothing)
{
    (void)nothing;
    for (;;) {
        os_sleep_ms(PAUSE_MS);
        purge_look_soon();
        purge_if_due();
        tend_heaps();
        supers_collapse();
        live_set(supers[1], load_relaxed(&hak_supers.collapsed));
    }
}

/* Without a thread to be had the process does without: others purge as they free. */
HAK_COLD void worker_start(void)
{
    pthread_t thread;
    sigset_t signals;
    os_block_signals(&signals); /* handlers are the program's threads' business */
    if (pthread_create(&thread, NULL, work, NULL) == 0)
        (void)pthread_detach(thread);
    os_restore_signals(&signals);
}
