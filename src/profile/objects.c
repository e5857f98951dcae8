#define _GNU_SOURCE
#include "profile/objects.h"

#include <link.h>
#include <string.h>

#include "base/atomic.h"
#include "os/os.h"

/* The header of the object that this code has been linked into, which it begins with. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden"), weak));

/* All code of the static library lies between these (cmake/static.ld); the shared one has none. */
extern const char __start_hak_text[] __attribute__((visibility("hidden"), weak));
extern const char __stop_hak_text[] __attribute__((visibility("hidden"), weak));

/* A header and what it describes lie in the first page of the object. */
enum { FIRST_PAGE = 4096, ELF_MAGIC = 0x464c457f /* little-endian */ };

struct headers {
    uintptr_t bias;
    const ElfW(Phdr) * at;
    size_t count;
};

static bool holds(const struct headers *h, const ElfW(Phdr) * p, uintptr_t address)
{
    return p->p_type == PT_LOAD && address - h->bias - p->p_vaddr < p->p_filesz;
}

static const ElfW(Phdr) * segment_of(const struct headers *h, uintptr_t address)
{
    for (size_t i = 0; i < h->count; i++)
        if (holds(h, &h->at[i], address))
            return &h->at[i];
    return NULL;
}

static void find_tables(const struct headers *h, struct tables *t)
{
    *t = (struct tables){0};
    for (size_t i = 0; i < h->count; i++) {
        if (h->at[i].p_type != PT_GNU_EH_FRAME)
            continue;
        uintptr_t header = h->bias + h->at[i].p_vaddr;
        const ElfW(Phdr) *segment = segment_of(h, header);
        if (segment == NULL || (segment->p_flags & PF_R) == 0)
            return;
        t->address = h->bias + segment->p_vaddr;
        t->bytes = (const uint8_t *)t->address;
        t->size = segment->p_filesz;
        t->header = header - t->address;
    }
}

static bool describe(const struct headers *h, uintptr_t pc, struct object *o)
{
    const ElfW(Phdr) *segment = segment_of(h, pc);
    if (segment == NULL || (segment->p_flags & PF_X) == 0)
        return false;
    o->start = h->bias + segment->p_vaddr;
    o->end = o->start + segment->p_filesz;
    find_tables(h, &o->tables);
    return true;
}

/* From the header at the beginning of an object. */
static bool headers_at(const ElfW(Ehdr) * header, struct headers *h)
{
    uint32_t magic; /* compared as a number: a text would bring its page along */
    memcpy(&magic, header->e_ident, sizeof magic);
    if (magic != ELF_MAGIC || header->e_phentsize != sizeof *h->at ||
        header->e_phoff > FIRST_PAGE || header->e_phoff % sizeof(uintptr_t) != 0 ||
        header->e_phnum > (FIRST_PAGE - header->e_phoff) / sizeof *h->at)
        return false;
    h->at = (const void *)((const char *)header + header->e_phoff);
    h->count = header->e_phnum;
    for (size_t i = 0; i < h->count; i++) {
        if (h->at[i].p_type == PT_LOAD && h->at[i].p_offset == 0) {
            h->bias = (uintptr_t)header - h->at[i].p_vaddr;
            return true;
        }
    }
    return false;
}

/* Where that object ends; 0: not looked up yet. Whoever does finds the same. */
__attribute__((section(".bss.sampler_small"))) static _Atomic uintptr_t own_end;

static HAK_NOINLINE uintptr_t find_own_end(void)
{
    struct headers h;
    uintptr_t end = (uintptr_t)&__ehdr_start;
    if (!headers_at(&__ehdr_start, &h))
        return end;
    for (size_t i = 0; i < h.count; i++) {
        uintptr_t here = h.bias + h.at[i].p_vaddr + h.at[i].p_memsz;
        if (h.at[i].p_type == PT_LOAD && here > end)
            end = here;
    }
    store_relaxed(&own_end, end);
    return end;
}

HAK_INLINE bool is_in_own_object(uintptr_t pc)
{
    if (&__ehdr_start == NULL || pc < (uintptr_t)&__ehdr_start)
        return false;
    uintptr_t end = load_relaxed(&own_end);
    return pc < (HAK_LIKELY(end != 0) ? end : find_own_end());
}

bool object_is_own(uintptr_t pc)
{
    if (__start_hak_text != NULL)
        return pc >= (uintptr_t)__start_hak_text && pc < (uintptr_t)__stop_hak_text;
    return is_in_own_object(pc);
}

#ifdef DLFO_EH_SEGMENT_TYPE
#pragma weak _dl_find_object

/* The program may have made it unreadable. */
static bool headers_of(const struct dl_find_object *found, struct headers *h)
{
    return os_may_read(found->dlfo_map_start) && headers_at(found->dlfo_map_start, h);
}

static bool loaded_headers(uintptr_t pc, struct headers *h)
{
    struct dl_find_object found;
    return _dl_find_object != NULL && _dl_find_object((void *)pc, &found) == 0 &&
           headers_of(&found, h);
}

/* ---- where the code of loaded objects is ----
 * What a wrong frame pointer leads to may be an address in an object that another thread closes at this moment, so a header is read
 * once, as long as there is a row. A row is claimed by an exchange of its key and published by a store of it (release, acquire), and never
 * changed. An object of the same place and size that comes after it may have its code elsewhere: then the walk is wrong about what is code,
 * but reads nothing. */
enum { ROWS = 16, CLAIMED = 1 };
__attribute__((section(".bss.sampler_small"))) static struct code {
    _Atomic uintptr_t key; /* 0: free */
    uintptr_t start, end;
} rows[ROWS];

/* Its first page, and how many there are. */
static uintptr_t key_of(const struct dl_find_object *found)
{
    uintptr_t start = (uintptr_t)found->dlfo_map_start, end = (uintptr_t)found->dlfo_map_end;
    return (start & ~(uintptr_t)(FIRST_PAGE - 1)) | ((end - start) / FIRST_PAGE % FIRST_PAGE);
}

/* From the first segment of code to the last. What cannot be read is taken for granted. */
static void read_code(const struct dl_find_object *found, struct code *c)
{
    struct headers h;
    c->start = (uintptr_t)found->dlfo_map_start;
    c->end = (uintptr_t)found->dlfo_map_end;
    if (!headers_of(found, &h))
        return;
    c->start = c->end;
    c->end = 0;
    for (size_t i = 0; i < h.count; i++) {
        const ElfW(Phdr) *p = &h.at[i];
        if (p->p_type != PT_LOAD || (p->p_flags & PF_X) == 0)
            continue;
        uintptr_t start = h.bias + p->p_vaddr, end = start + p->p_filesz;
        c->start = least_of(c->start, start);
        c->end = largest_of(c->end, end);
    }
}

static void find_code(const struct dl_find_object *found, struct code *c)
{
    uintptr_t key = key_of(found), there = CLAIMED, none = 0;
    struct code *row = rows;
    for (uint32_t i = 0; i < ROWS; i++) {
        row = &rows[(key / FIRST_PAGE + i) % ROWS];
        there = load_acquire(&row->key);
        if (there == key || there == 0)
            break;
    }
    if (there == key) {
        c->start = row->start;
        c->end = row->end;
        return;
    }
    read_code(found, c);
    if (there == 0 && cas_relaxed(&row->key, &none, CLAIMED)) { /* nothing was in it */
        row->start = c->start;
        row->end = c->end;
        store_release(&row->key, key);
    }
}

static bool loaded_code(uintptr_t pc, struct object *o)
{
    struct dl_find_object found;
    struct code c;
    if (_dl_find_object((void *)pc, &found) != 0)
        return false;
    find_code(&found, &c);
    o->start = c.start;
    o->end = c.end;
    return pc >= c.start && pc < c.end;
}

static bool has_find_object(void)
{
    return _dl_find_object != NULL;
}
#else
static bool loaded_headers(uintptr_t pc, struct headers *h)
{
    (void)pc, (void)h;
    return false;
}

static bool loaded_code(uintptr_t pc, struct object *o)
{
    (void)pc, (void)o;
    return false;
}

static bool has_find_object(void)
{
    return false;
}
#endif

/* Of the object that the address is in. */
static bool find_headers(uintptr_t pc, struct headers *h)
{
    return is_in_own_object(pc) ? headers_at(&__ehdr_start, h) : loaded_headers(pc, h);
}

/* Takes no lock and may be called in a signal handler. */
bool object_find_at_once(struct object *o, uintptr_t pc)
{
    struct headers h;
    return find_headers(pc, &h) && describe(&h, pc, o);
}

#ifdef __GLIBC__
struct search {
    struct object *object;
    uintptr_t pc;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    struct search *s = context;
    struct headers h = {info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum};
    return describe(&h, s->pc, s->object);
}

/* The loader's lock is taken. It is recursive in glibc, as the loader allocates while it holds it. */
bool object_find_in_list(struct object *o, uintptr_t pc)
{
    struct search s = {o, pc};
    return dl_iterate_phdr(look_at, &s) != 0;
}
#else
/* Elsewhere that lock may be held by the caller for good. */
bool object_find_in_list(struct object *o, uintptr_t pc)
{
    (void)o, (void)pc;
    return false;
}
#endif

bool object_find(struct object *o, uintptr_t pc)
{
    if (pc >= o->start && pc < o->end)
        return true;
    return object_find_at_once(o, pc) || (!has_find_object() && object_find_in_list(o, pc));
}

bool object_is_code(struct object *o, uintptr_t pc)
{
    if (!has_find_object() || (pc >= o->start && pc < o->end))
        return true;
    return loaded_code(pc, o);
}
