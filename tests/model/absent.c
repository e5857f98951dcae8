/* What the library's sources call in the layers that a model leaves out: the kernel, runs of pages, the purge,
 * the sampler. Memory is an arena that is all zeros whenever a scenario is set up. */
#include "model.h"

#include <sys/mman.h>

#include "big/big.h"
#include "control/options.h"
#include "heap/hollow.h"
#include "heap/paged.h"
#include "heap/runs.h"
#include "os/os.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "profile/rate.h"
#include "profile/sampler.h"
#include "purge/purge.h"
#include "purge/show.h"
#include "region/region.h"
#include "super/huge.h"

#define ARENA_SIZE ((size_t)256 << 20)
enum { PAGE = 4096 };

struct options hak_options;
struct option_sources hak_option_sources;
struct pressure hak_pressure;
struct pages_counts hak_pages;

static size_t arena_used;

/* Outlives what a scenario undoes. */
__attribute__((no_sanitize("thread"))) static char *arena(void)
{
    static char *at;
    if (at == NULL) {
        at = mmap(NULL, ARENA_SIZE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        model_assert(at != MAP_FAILED);
    }
    return at;
}

void *os_reserve(size_t size)
{
    char *at = arena();
    if (size > ARENA_SIZE - arena_used)
        return NULL;
    arena_used += size;
    return at + arena_used - size;
}

void *model_next_reserved(void)
{
    return arena() + arena_used;
}

void *os_share(size_t size)
{
    return os_reserve(size);
}

bool os_commit(void *at, size_t size)
{
    return at != NULL && size != 0;
}

bool os_allow_reading(void *at, size_t size)
{
    return os_commit(at, size);
}

bool os_map_over(void *at, size_t size)
{
    return os_commit(at, size);
}

enum os_result os_map_at(void *at, size_t size)
{
    return os_commit(at, size) ? OS_OK : OS_NO_MEMORY;
}

bool os_unmap(void *at, size_t size)
{
    return os_commit(at, size);
}

/* As the kernel does it: the pages are written to, seen by whoever is given them later. */
bool os_purge(void *at, size_t size)
{
    for (size_t i = 0; i < size; i += UNIT_SIZE)
        *(uint64_t *)(void *)((char *)at + i) = 0;
    return true;
}

bool os_prefault(void *at, size_t size)
{
    (void)at;
    (void)size;
    return true;
}

/* One thread at a time tells the kernel. */
static struct lock kernel_lock;
_Atomic bool model_told_huge;
bool model_refuses_huge;

void model_touch_kernel(void)
{
    (void)load_relaxed(&model_told_huge);
    (void)load_relaxed(&kernel_lock.state);
    (void)load_relaxed(&kernel_lock.holder);
    (void)load_relaxed(&kernel_lock.stalled);
    (void)load_relaxed(&kernel_lock.lost);
    (void)load_relaxed(&hak_lock_waits[kernel_lock.kind]);
}

void os_advise_huge(void *at, size_t size, bool wanted)
{
    (void)at;
    (void)size;
    (void)lock_take(&kernel_lock);
    store_relaxed(&model_told_huge, wanted);
    lock_release(&kernel_lock);
}

size_t os_resident_pages(void *at, size_t size)
{
    (void)at;
    return size / PAGE;
}

bool huge_may_collapse(void)
{
    return true;
}

bool huge_collapse(size_t granule)
{
    os_advise_huge(granule_address(granule), GRANULE_SIZE, true);
    return !model_refuses_huge;
}

bool huge_advise(size_t granule, bool fresh)
{
    (void)granule;
    return !fresh;
}

size_t os_page_size(void)
{
    return PAGE;
}

size_t os_physical_memory(void)
{
    return ARENA_SIZE;
}

struct os_limit os_address_limit(void)
{
    return (struct os_limit){SIZE_MAX, SIZE_MAX};
}

uintptr_t os_secret(enum os_secret_of which)
{
    return (uintptr_t)which;
}

void os_block_signals(sigset_t *before)
{
    (void)before; /* there are no handlers here */
}

void os_restore_signals(const sigset_t *before)
{
    (void)before;
}

uint64_t os_now_ms(void)
{
    return 0;
}

uint32_t os_thread_id(void)
{
    return (uint32_t)model_hooks->self() + 1;
}

void os_fatal(const char *format, ...)
{
    model_hooks->fail(format);
    __builtin_unreachable();
}

void *paged_take(struct heap *h, uint32_t class, bool *zeroed)
{
    (void)h;
    (void)class;
    *zeroed = false;
    return NULL;
}

void paged_put(struct heap *h, struct slab *s, void *p)
{
    (void)h;
    (void)s;
    (void)p;
}

void paged_opened(struct magazine *m)
{
    (void)m;
}

void paged_limit(struct heap *h, uint32_t class, void *freed)
{
    (void)h;
    (void)class;
    (void)freed;
}

void purge_note_fresh(size_t bytes, enum memory_kind kind)
{
    (void)bytes, (void)kind;
}

void purge_note_given(size_t bytes)
{
    (void)bytes;
}

void purge_note_filled(size_t bytes)
{
    (void)bytes;
}

void purge_show(void) {}
void purge_show_units(void) {}
void purge_show_pages(void) {}
void purge_show_big(void) {}

ptrdiff_t pages_take_whole(void)
{
    return REGION_NONE;
}

ptrdiff_t big_take_cached(size_t least, size_t *touched)
{
    *touched = least;
    return REGION_NONE;
}

void sampler_start(struct sampler *s)
{
    sampler_let(s, LEFT_MOST, INT64_MAX);
}

bool sampled_free(void *p)
{
    (void)p;
    return false;
}

void sampled_forget(const void *p)
{
    (void)p;
}

bool sampled_forget_if(const void *p, bool at_once)
{
    return p == NULL && at_once;
}

bool run_free(struct heap *h, size_t unit)
{
    return h == NULL && unit == 0;
}

bool big_free(size_t unit)
{
    return unit == 0;
}

struct lock *sampler_lock(void)
{
    static struct lock lock;
    return &lock;
}

void sampler_give_up(void) {}

struct lock *purge_lock(void)
{
    static struct lock lock;
    return &lock;
}

struct lock *big_lock(void)
{
    static struct lock lock;
    return &lock;
}

struct lock *pages_lock(void)
{
    static struct lock lock;
    return &lock;
}

void pressure_forget_looker(void) {}

void hollow_look(struct heap *h)
{
    (void)h;
}

void rate_draw(struct sampler *s)
{
    (void)s;
}
