#include "live/live.h"

#include <string.h>
#include <unistd.h>

#include "hakmem/hakmem.h"
#include "os/os.h"

struct live hak_live;

/* An area takes address space, and where the kernel commits strictly also commitment. */
enum { ADDRESS_SHARE = 32 };

static const char version[] = HAK_STRINGIZE(HAK_VERSION_MAJOR) "." HAK_STRINGIZE(
    HAK_VERSION_MINOR) "." HAK_STRINGIZE(HAK_VERSION_PATCH);

/* Per table, the text that says what is in a row. */
#define LIVE_TABLE(table, rows)
#define LIVE_FIELD(table, type, name) #name ":" #type " "
#define LIVE_LENGTH(length) #length
#define LIVE_ARRAY(table, type, name, length) #name ":" #type "[" LIVE_LENGTH(length) "] "
#define LIVE_END(table, rows) "\0"
static const char fields[] =
#include "live/tables.def"
    ;
#undef LIVE_TABLE
#undef LIVE_FIELD
#undef LIVE_ARRAY
#undef LIVE_END

_Static_assert(sizeof fields + sizeof version <= LIVE_TEXT_ROOM, "the texts fit");
_Static_assert(LIVE_TABLE_COUNT <= (int)LIVE_TABLES_MAX, "the tables fit");

static const struct {
    char name[LIVE_NAME_MAX];
    uint32_t offset, stride, rows;
} tables[LIVE_TABLE_COUNT] = {
#define LIVE_TABLE(table, rows)                                                                    \
    {#table, offsetof(struct live_area, table), sizeof(struct live_##table), rows},
#define LIVE_FIELD(table, type, name)
#define LIVE_ARRAY(table, type, name, length)
#define LIVE_END(table, rows)
#include "live/tables.def"
#undef LIVE_TABLE
#undef LIVE_FIELD
#undef LIVE_ARRAY
#undef LIVE_END
};

enum { HEADER_SIZE = offsetof(struct live_area, text) + sizeof fields + sizeof version };

HAK_COLD size_t live_header_size(void)
{
    return HEADER_SIZE;
}

HAK_COLD struct live_extent live_extent_of(const struct live_area *a, enum live_table_index table)
{
    uint32_t used = load_relaxed(&a->header.tables[table].used), rows = tables[table].rows;
    return (struct live_extent){tables[table].offset,
                                (size_t)(used < rows ? used : rows) * tables[table].stride};
}

static void describe(struct live_area *a)
{
    struct live_header *h = &a->header;
    uint32_t text = offsetof(struct live_area, text);
    memcpy(a->text, fields, sizeof fields);
    memcpy(a->text + sizeof fields, version, sizeof version);
    h->header_size = HEADER_SIZE;
    h->area_size = sizeof *a;
    h->table_count = LIVE_TABLE_COUNT;
    h->text = text + (uint32_t)sizeof fields;
    for (uint32_t i = 0; i < LIVE_TABLE_COUNT; i++) {
        struct live_table *t = &h->tables[i];
        memcpy(t->name, tables[i].name, sizeof t->name);
        t->offset = tables[i].offset;
        t->stride = tables[i].stride;
        t->rows = tables[i].rows;
        t->fields = text;
        text += (uint32_t)strlen((const char *)a + text) + 1;
    }
}

static void show_process(struct live_area *a)
{
    struct live_process *p = a->process;
    store_relaxed(&a->header.tables[LIVE_TABLE_process].used, 1);
    store_relaxed(&p->pid, (uint32_t)getpid());
    store_relaxed(&p->page_size, (uint32_t)os_page_size());
    store_relaxed(&p->shown_ms, os_now_ms());
}

bool live_is_wanted(void)
{
    return HAK_INSIGHT && (option(live) | option(profile)) != 0;
}

void live_show_settings(void)
{
    struct live_area *a = live_area();
    if (a == NULL)
        return;
    struct live_settings *s = a->settings;
#define OPTION(name, type, when, initial, least, most, text)                                       \
    store_relaxed(&s->name, OPTION_NUMBER_##type(hak_options.name));                               \
    store_relaxed(&s->from_##name, (uint32_t)load_relaxed(&hak_option_sources.name));
#include "control/options.def"
#undef OPTION
    store_relaxed(&a->header.tables[LIVE_TABLE_settings].used, 1);
}

static size_t address_limit(void)
{
    size_t limit = hak_live.address_limit;
    hak_live.address_limit = 0;
    return limit != 0 ? limit : os_address_limit().now;
}

static struct live_area *map_area(void)
{
    struct live_area *a = NULL;
    if (address_limit() / ADDRESS_SHARE < sizeof *a)
        return NULL;
    if (option(live))
        a = os_share(sizeof *a);
    hak_live.is_private = a == NULL;
    if (a == NULL && option(profile)) {
        a = os_reserve(sizeof *a);
        if (a != NULL && !os_commit(a, sizeof *a)) {
            os_unmap(a, sizeof *a);
            a = NULL;
        }
    }
    return a;
}

HAK_COLD void live_want(void)
{
    static _Atomic bool was; /* or of two that ask at once the second might have another one made */
    if (live_is_wanted() && live_area() == NULL && !exchange_relaxed(&was, true))
        store_relaxed(&hak_live.due, true);
}

struct live_area *live_make(void)
{
    bool due = true;
    if (!cas_relaxed(&hak_live.due, &due, false)) /* nothing comes with it */
        return NULL;
    struct live_area *a = map_area();
    if (a == NULL)
        return NULL;
    describe(a);
    show_process(a);
    store_release(&hak_live.area, a); /* its owners may fill it; readers wait for the magic word */
    live_show_settings();
    return a;
}

void live_complete(struct live_area *a)
{
    /* release: all that stands in the area comes before the word that says so. */
    uint64_t magic;
    memcpy(&magic, LIVE_MAGIC, sizeof magic);
    plain_store_release((uint64_t *)(void *)a->header.magic, magic);
}

ptrdiff_t live_new_row(struct live_area *a, enum live_table_index table)
{
    struct live_table *t = &a->header.tables[table];
    uint32_t used = load_relaxed(&t->used);
    while (used < tables[table].rows) {
        if (cas_weak_relaxed(&t->used, &used, used + 1))
            return (ptrdiff_t)used;
    }
    return -1;
}

void live_forget(void)
{
    struct live_area *a = load_relaxed(&hak_live.area);
    hak_live.address_limit = 0;
    if (a == NULL) { /* or a thread that is gone now was making it */
        store_relaxed(&hak_live.due, live_is_wanted());
        return;
    }
    if (hak_live.is_private) { /* and was copied with the process */
        store_relaxed(&a->process[0].pid, (uint32_t)getpid());
        return;
    }
    if (hak_live.inherited == NULL)
        hak_live.inherited = a;
    store_relaxed(&hak_live.area, NULL);
    store_relaxed(&hak_live.due, true);
}

void live_drop_inherited(void)
{
    struct live_area *a = hak_live.inherited;
    hak_live.inherited = NULL;
    if (a != NULL)
        os_unmap(a, sizeof *a);
}
