#include "profile/records.h"

enum {
    BUCKET_BITS = 9, /* few: they share a page with other tables */
    BUCKETS = 1 << BUCKET_BITS,
};

__attribute__((section(".bss.sampler_records"))) static struct record records[LIVE_ROWS_blocks];
__attribute__((section(".bss.sampler_small"))) static uint16_t buckets[BUCKETS];
_Static_assert((int)LIVE_ROWS_blocks <= UINT16_MAX, "a number fits");

static struct {
    uint32_t used; /* records below were used at some time */
    uint32_t free; /* number of the first of those that are free now */
    uint32_t live;
} table;

uint32_t records_live(void)
{
    return table.live;
}

uint32_t record_number(const struct record *r)
{
    return (uint32_t)(r - records + 1);
}

struct record *record_at(uint32_t number)
{
    return &records[number - 1];
}

struct record *record_take(void)
{
    struct record *r = NULL;
    if (table.free != 0) {
        r = record_at(table.free);
        table.free = r->next;
    } else if (table.used < LIVE_ROWS_blocks) {
        r = &records[table.used++];
    }
    table.live += r != NULL;
    return r;
}

void record_release(struct live_area *a, struct record *r)
{
    if (a != NULL)
        store_relaxed(&a->blocks[r - records].address, (uint64_t)0);
    table.live--;
    r->address = 0;
    r->next = table.free;
    table.free = record_number(r);
}

static uint16_t *bucket_of(uintptr_t address)
{
    return &buckets[(address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - BUCKET_BITS)];
}

struct record *record_find(uintptr_t address)
{
    for (uint32_t i = *bucket_of(address); i != 0; i = record_at(i)->next) {
        if (record_at(i)->address == address)
            return record_at(i);
    }
    return NULL;
}

void record_link(struct record *r)
{
    uint16_t *bucket = bucket_of(r->address);
    r->next = *bucket;
    *bucket = (uint16_t)record_number(r);
}

void record_unlink(struct record *r)
{
    uint16_t *bucket = bucket_of(r->address);
    if (record_at(*bucket) == r) {
        *bucket = (uint16_t)r->next;
        return;
    }
    struct record *before = record_at(*bucket);
    while (record_at(before->next) != r)
        before = record_at(before->next);
    before->next = r->next;
}

const struct record *records_next(const struct record *r)
{
    r = r == NULL ? records : r + 1;
    while (r < &records[table.used] && r->address == 0)
        r++;
    return r < &records[table.used] ? r : NULL;
}

void record_show(struct live_area *a, const struct record *r)
{
    struct live_blocks *row = &a->blocks[r - records];
    store_relaxed(&row->size, r->size);
    store_relaxed(&row->usable, r->usable);
    store_relaxed(&row->weight_bytes, r->weight_bytes);
    store_relaxed(&row->weight_objects, r->weight_objects);
    store_relaxed(&row->born_ms, r->born_ms);
    store_relaxed(&row->site, r->site);
    store_relaxed(&row->tid, r->tid);
    store_release(&row->address, r->address); /* the row is whole for whoever sees it */
    live_raise_used(a, LIVE_TABLE_blocks, table.used);
}
