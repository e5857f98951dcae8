/* The live area: that its header describes its tables as they are, and that what it says when nothing runs is what
 * the library itself counts, after threads that allocated and freed at random with samples in between. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "big/big.h"
#include "control/options.h"
#include "control/stats.h"
#include "front/explicit.h"
#include "front/front.h"
#include "hakmem/hakmem.h"
#include "heap/registry.h"
#include "heap/runs.h"
#include "live/live.h"
#include "live_here.h"
#include "os/os.h"
#include "pages/pages.h"
#include "profile/arena.h"
#include "profile/rate.h"
#include "profile/sites.h"
#include "profile/timeline.h"
#include "purge/purge.h"
#include "purge/show.h"
#include "slab/slab.h"
#include "super/super.h"

static const struct live_table *table(enum live_table_index i)
{
    return &live_area()->header.tables[i];
}

static uint32_t used_rows(enum live_table_index i)
{
    return load_relaxed(&table(i)->used);
}

/* ---- the header ---- */

/* As a reader computes it from the text: the size of a row. */
static size_t row_size(const char *fields)
{
    size_t size = 0, most = 1;
    for (const char *f = fields; *f != '\0';) {
        char name[32], type[8];
        int read = 0, length = 1;
        assert_int_equal(sscanf(f, "%31[a-z0-9_]:%7[a-z0-9]%n", name, type, &read), 2);
        f += read;
        if (*f == '[') {
            assert_int_equal(sscanf(f, "[%d]%n", &length, &read), 1);
            f += read;
        }
        assert_int_equal(*f, ' ');
        f++;
        size_t word = strcmp(type, "u32") == 0 ? 4 : 8;
        assert_true(word == 4 || strcmp(type, "u64") == 0);
        size = round_up(size, word) + word * (size_t)length;
        most = word > most ? word : most;
    }
    return round_up(size, most);
}

static void the_header_describes_the_tables(void **state)
{
    (void)state;
    const struct live_header *h = &live_area()->header;
    assert_memory_equal(h->magic, LIVE_MAGIC, sizeof LIVE_MAGIC);
    assert_int_equal(h->area_size, sizeof(struct live_area));
    assert_int_equal(h->table_count, LIVE_TABLE_COUNT);
    assert_string_equal((const char *)h + h->text,
                        HAK_STRINGIZE(HAK_VERSION_MAJOR) "." HAK_STRINGIZE(
                            HAK_VERSION_MINOR) "." HAK_STRINGIZE(HAK_VERSION_PATCH));
    size_t end = h->header_size;
    for (uint32_t i = 0; i < h->table_count; i++) {
        const struct live_table *t = &h->tables[i];
        assert_true(t->fields < h->header_size);
        assert_int_equal(row_size((const char *)h + t->fields), t->stride);
        assert_int_equal(t->offset % 64, 0);
        assert_true(t->offset >= end); /* no table reaches into the next */
        assert_true(load_relaxed(&t->used) <= t->rows);
        end = t->offset + (size_t)t->stride * t->rows;
    }
    assert_true(end <= h->area_size);
}

/* The same user can give himself the right to write there. */
static void what_others_write_there_leads_nowhere(void **state)
{
    enum { FAR = 1 << 30 };
    (void)state;
    struct live_area *a = live_area();
    struct live_table *heaps = &a->header.tables[LIVE_TABLE_heaps],
                      *times = &a->header.tables[LIVE_TABLE_timeline];
    uint32_t heaps_used = load_relaxed(&heaps->used), rows = heaps->rows, stack_before;
    store_relaxed(&heaps->used, FAR);
    heaps->rows = 2U * FAR;
    assert_int_equal(live_new_row(a, LIVE_TABLE_heaps), -1);
    assert_int_equal(live_extent_of(a, LIVE_TABLE_heaps).size, sizeof a->heaps);
    store_relaxed(&heaps->used, heaps_used);
    heaps->rows = rows;
    store_relaxed(&times->used, FAR);
    timeline_note(a, UINT64_MAX, 1);
    assert_true(load_relaxed(&times->used) <= LIVE_ROWS_timeline);
    uintptr_t stack[1];
    stack_before = load_relaxed(&a->sites[0].stack);
    uint32_t depth = load_relaxed(&a->sites[0].depth);
    store_relaxed(&a->sites[0].stack, FAR);
    store_relaxed(&a->sites[0].depth, 1);
    assert_int_equal(site_stack(a, 0, stack, 1), 1); /* of a word of the table */
    store_relaxed(&a->sites[0].stack, stack_before);
    store_relaxed(&a->sites[0].depth, depth);
    store_relaxed(&times->used, 0);
}

static void the_settings_are_shown(void **state)
{
    (void)state;
    const struct live_settings *s = live_area()->settings;
    assert_int_equal(used_rows(LIVE_TABLE_settings), 1);
    assert_null(option_set("retain", 6, "3M", 2));
    live_show_settings();
    assert_int_equal(load_relaxed(&s->retain), 3 * MIB);
    assert_int_equal(load_relaxed(&s->from_retain), hak_option_sources.retain);
    assert_int_equal(load_relaxed(&s->profile_output), 0);
}

static void the_process_and_its_classes_are_shown(void **state)
{
    (void)state;
    const struct live_area *a = live_area();
    assert_int_equal(load_relaxed(&a->process[0].pid), getpid());
    assert_int_equal(load_relaxed(&a->process[0].page_size), os_page_size());
    assert_int_equal(load_relaxed(&a->process[0].window_at), hak_region.base);
    assert_int_equal(used_rows(LIVE_TABLE_classes), CLASS_COUNT);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        assert_int_equal(load_relaxed(&a->classes[class].size), hak_classes[class].size);
}

/* ---- what it says is so ---- */

enum { BLOCKS = 3000, ROUNDS = 60000, EXCHANGED = 64, INTERVAL = 20000, MANY = 20 };

static _Atomic(void *) exchange[EXCHANGED];
static void *left[THREADS + 1][BLOCKS];

static size_t any_size(uint32_t *random)
{
    switch (next_random(random) % 64) {
    case 0:
        return next_random(random) % (3 * MIB);
    case 1:
    case 2:
        return next_random(random) % 300000;
    default:
        return next_random(random) % 2000;
    }
}

static void *allocate_at_random(void *number)
{
    uint32_t random = (uint32_t)(uintptr_t)number;
    void **blocks = left[(uintptr_t)number];
    for (int i = 0; i < ROUNDS; i++) {
        void **at = &blocks[next_random(&random) % BLOCKS];
        uint32_t what = next_random(&random) % 8;
        if (what == 0) /* another thread frees it */
            *at = atomic_exchange(&exchange[next_random(&random) % EXCHANGED], *at);
        else if (what == 1 && *at != NULL)
            *at = front_realloc(*at, any_size(&random) + 1);
        else if (what < 4) {
            front_free(*at);
            *at = NULL;
        } else if (*at == NULL)
            *at = front_alloc(any_size(&random));
    }
    (void)front_trim();
    return NULL;
}

static void free_what_is_left(void)
{
    for (size_t i = 0; i < EXCHANGED; i++)
        front_free(atomic_exchange(&exchange[i], NULL));
    for (size_t i = 0; i <= THREADS; i++) {
        for (size_t k = 0; k < BLOCKS; k++) {
            front_free(left[i][k]);
            left[i][k] = NULL;
        }
    }
}

static void check_heap(struct heap *h, void *heaps)
{
    const struct live_heaps *row = load_relaxed(&h->row);
    assert_non_null(row);
    assert_int_equal(load_relaxed(&row->address), (uintptr_t)h);
    assert_int_equal(load_relaxed(&row->state), load_relaxed(&h->state));
    assert_int_equal(load_relaxed(&row->tid), h->tid);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        const live_u32 *shown = &row->by_class[(size_t) class * 4];
        assert_at(load_relaxed(&shown[0]) == h->classes[class].used, class);
        assert_at(load_relaxed(&shown[1]) == h->classes[class].slabs, class);
        assert_at(load_relaxed(&shown[2]) == h->classes[class].touched, class);
        assert_at(load_relaxed(&shown[3]) == magazine_kept(magazine_of(h, class)), class);
    }
    for (uint32_t i = 0; i < COUNTER_COUNT; i++)
        assert_at(load_relaxed(&counters_of(load_relaxed(&h->row))[i]) ==
                      load_relaxed(&h->counters[i]),
                  i);
    ++*(uint32_t *)heaps;
}

static void check_runs(const struct live_process *p)
{
    uint64_t bytes = load_relaxed(&p->run_bytes), blocks = load_relaxed(&p->run_blocks);
    for (uint32_t i = 0; i < used_rows(LIVE_TABLE_heaps); i++) {
        bytes += load_relaxed(&live_area()->heaps[i].run_bytes);
        blocks += load_relaxed(&live_area()->heaps[i].run_blocks);
    }
    size_t want_bytes, want_blocks;
    runs_live(&want_bytes, &want_blocks);
    assert_int_equal(bytes, want_bytes);
    assert_int_equal(blocks, want_blocks);
}

static bool is_slab(uintptr_t word)
{
    return word > WORD_TAG_MAX || word == WORD_EXPLICIT;
}

/* Pages of the heap's slabs, from their lines. */
static void check_touched(void)
{
    uint32_t pages[CLASS_COUNT] = {0}, shown[CLASS_COUNT] = {0};
    for (size_t unit = 0; unit < region_top() * GRANULE_UNITS; unit++) {
        const struct slab *s = slab_at(unit);
        if (is_slab(unit_word(unit)) && s->back == 0)
            pages[s->class] += slab_touched_pages(s, s->high);
    }
    for (uint32_t i = 0; i < used_rows(LIVE_TABLE_heaps); i++) {
        for (uint32_t class = 0; class < CLASS_COUNT; class ++)
            shown[class] += load_relaxed(&live_area()->heaps[i].by_class[(size_t) class * 4 + 2]);
    }
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        assert_at(pages[class] == shown[class], class);
}

static void check_counts(const struct live_process *p)
{
    assert_int_equal(load_relaxed(&p->super_bytes), (supers_mapped() + pages_granules())
                                                        << GRANULE_SHIFT);
    assert_int_equal(load_relaxed(&p->units_in_use), units_in_use());
    assert_int_equal(load_relaxed(&p->units_dirty), units_dirty());
    assert_int_equal(load_relaxed(&p->pages_in_use), pages_in_use());
    assert_int_equal(load_relaxed(&p->pages_dirty), pages_dirty());
    assert_int_equal(load_relaxed(&p->big_bytes), big_live_bytes());
    assert_int_equal(load_relaxed(&p->big_blocks), big_live_count());
    assert_int_equal(load_relaxed(&p->big_cached), big_cached_bytes());
    assert_int_equal(load_relaxed(&p->kept_bytes), load_relaxed(&hak_kept.slabs));
    assert_int_equal(load_relaxed(&p->purged_bytes), purge_total());
    assert_int_equal(load_relaxed(&p->sampled_unit_bytes), arena_units() * UNIT_SIZE);
}

static void check_units(void)
{
    static const uintptr_t words[] = {[UNIT_HEAP] = WORD_HEAP,
                                      [UNIT_SAMPLED] = WORD_SAMPLED,
                                      [UNIT_RUN] = WORD_RUN,
                                      [UNIT_BIG] = WORD_BIG};
    for (size_t unit = 0; unit < region_top() * GRANULE_UNITS; unit++) {
        uint32_t what = load_relaxed(&live_area()->units[unit].what), kind = what & 15;
        uintptr_t word = unit_word(unit);
        assert_at(kind == 0 || unit < used_rows(LIVE_TABLE_units), unit); /* or nobody reads it */
        if (kind == UNIT_SLAB) {
            assert_at(is_slab(word), unit);
            assert_at(what >> 8 == slab_of_unit(unit)->class, unit);
            assert_at((what >> 4 & 15) == slab_of_unit(unit)->run_at, unit);
        } else if (kind == UNIT_BIG)
            assert_at(word == WORD_BIG && what >> 8 == slab_at(unit)->granules, unit);
        else if (kind == 0)
            assert_at(word == WORD_NONE || word == WORD_FREED, unit);
        else
            assert_at(word == words[kind], unit);
    }
}

static void check_inbox(struct heap *h, void *none)
{
    const struct live_heaps *row = load_relaxed(&h->row);
    (void)none;
    if (row != NULL && load_relaxed(&h->inbox) == NULL && h->arrived == NULL)
        assert_int_equal(load_relaxed(&row->inbox_bytes), 0);
}

static void check_samples(void)
{
    uint64_t bytes = 0, samples = 0, rows = 0, of_rows = 0;
    const struct live_area *a = live_area();
    for (uint32_t i = 0; i < used_rows(LIVE_TABLE_sites); i++) {
        bytes += load_relaxed(&a->sites[i].live_bytes);
        samples += load_relaxed(&a->sites[i].live_samples);
    }
    for (uint32_t i = 0; i < used_rows(LIVE_TABLE_blocks); i++) {
        rows += load_relaxed(&a->blocks[i].address) != 0;
        if (load_relaxed(&a->blocks[i].address) != 0)
            of_rows += load_relaxed(&a->blocks[i].weight_bytes);
    }
    assert_int_equal(samples, rows);
    assert_int_equal(bytes, of_rows);
    assert_int_equal(bytes, load_relaxed(&a->process[0].sampled_live));
}

static void check_all(void)
{
    uint32_t heaps = 0;
    registry_each(check_heap, &heaps);
    assert_int_equal(heaps, used_rows(LIVE_TABLE_heaps));
    check_touched();
    check_runs(live_area()->process);
    check_units();
    registry_each(check_inbox, NULL);
    check_samples();
    check_counts(live_area()->process);
}

static void what_is_shown_is_so(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        run_threads(allocate_at_random);
        front_free(front_alloc(MIB / 2)); /* the next change: see purge/show.c */
        check_counts(live_area()->process);
        (void)front_trim();
        check_all();
        free_what_is_left();
        check_counts(live_area()->process);
        (void)front_trim();
        check_all();
    }
    assert_true(load_relaxed(&live_area()->process[0].samples) > 1000);
}

/* Units that only samples and threads take. */
static void units_are_counted_whoever_takes_them(void **state)
{
    (void)state;
    void *blocks[8];
    hak_options.profile_interval = 1;
    rate_draw(&hak_thread.heap->magazines.sampler);
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        blocks[i] = front_alloc(UNIT_SIZE);
        assert_int_equal(unit_word(unit_of(blocks[i])), WORD_SAMPLED);
        check_counts(live_area()->process);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        front_free(blocks[i]);
        check_counts(live_area()->process);
    }
    hak_options.profile_interval = INTERVAL;
    struct heap *heaps[4 * THREADS]; /* more than ended threads have left */
    for (size_t i = 0; i < ARRAY_LENGTH(heaps); i++) {
        heaps[i] = registry_attach();
        assert_non_null(heaps[i]);
        check_counts(live_area()->process);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(heaps); i++)
        registry_abandon(heaps[i]);
}

/* Each that can be had, some of them made for it. */
static void shared_heaps_are_shown(void **state)
{
    (void)state;
    struct heap *h, *all[SHARED_HEAPS];
    bool are_shown = true;
    size_t n = 0;
    while (n < SHARED_HEAPS && (h = registry_take_shared()) != NULL) {
        const struct live_heaps *row = load_relaxed(&h->row);
        are_shown = are_shown && row != NULL && load_relaxed(&row->state) == HEAP_SHARED;
        all[n++] = h;
    }
    for (size_t i = 0; i < n; i++)
        heap_unlock_visited(all[i]);
    assert_int_equal(n, SHARED_HEAPS);
    assert_true(are_shown);
}

/* Nothing fails while the lock is held. */
static bool shows_kept(bool more_than, size_t before)
{
    size_t kept = load_relaxed(&hak_kept.slabs);
    return load_relaxed(&live_area()->process[0].kept_bytes) == kept &&
           (kept > before) == more_than;
}

/* Whatever is taken or given next. */
static void empty_slabs_that_stay_are_shown_at_once(void **state)
{
    (void)state;
    struct heap *h = hak_thread.heap;
    uint32_t class = 0;
    lock_take(&h->lock);
    heap_release_kept(h);
    while (class < FIRST_PAGED && h->classes[class].slabs != 0)
        class ++;
    /* Other heaps may keep as much as may be kept. */
    size_t room = load_relaxed(&hak_kept.slabs) > MIB / 2 ? MIB / 2 : 0;
    sub_relaxed(&hak_kept.slabs, room);
    purge_show();                      /* which nobody has been told of */
    void *p = heap_take_one(h, class); /* perhaps of a slab that another heap had kept */
    size_t before = load_relaxed(&hak_kept.slabs);
    bool are_shown = p != NULL && shows_kept(false, before);
    for (int i = 0; i < 3 && are_shown; i++) {
        heap_put_all(h, class, &p, 1);
        are_shown = shows_kept(true, before);
        p = heap_take_one(h, class);
        are_shown = are_shown && shows_kept(false, before);
    }
    heap_put_all(h, class, &p, 1);
    heap_release_kept(h);
    heap_unlock(h);
    are_shown = are_shown && shows_kept(false, before);
    add_relaxed(&hak_kept.slabs, room);
    purge_show();
    assert_true(are_shown);
}

/* Every row but one is taken, and the heaps that get none come and go. */
static void heaps_without_a_row_are_counted_once(void **state)
{
    (void)state;
    struct live_area *a = live_area();
    uint32_t used = used_rows(LIVE_TABLE_heaps);
    store_relaxed(&a->header.tables[LIVE_TABLE_heaps].used, (uint32_t)LIVE_ROWS_heaps - 1);
    struct heap *heaps[MANY];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < MANY; i++)
            heaps[i] = registry_attach();
        for (size_t i = 0; i < MANY; i++)
            registry_abandon(heaps[i]);
    }
    size_t unseen = 0;
    for (size_t i = 0; i < MANY; i++)
        unseen += load_relaxed(&heaps[i]->row) == NULL;
    assert_true(unseen > 0);
    assert_int_equal(load_relaxed(&a->process[0].heaps_unseen), unseen);
    store_relaxed(&a->header.tables[LIVE_TABLE_heaps].used, used);
}

static void a_block_that_was_resized_is_shown(void **state)
{
    (void)state;
    void *p = front_alloc(9 * MIB);
    p = front_realloc(p, 3 * MIB);
    check_units();
    front_free(p);
    check_units();
}

static void what_big_blocks_take_of_other_kinds_is_shown(void **state)
{
    (void)state;
    size_t retain = hak_options.retain, others = big_others();
    void *runs[8];
    (void)front_trim();
    hak_options.retain = 64 * MIB;
    for (size_t i = 0; i < ARRAY_LENGTH(runs); i++)
        runs[i] = front_alloc(MIB);
    for (size_t i = 0; i < ARRAY_LENGTH(runs); i++)
        front_free(runs[i]);
    void *big = front_alloc(2 * MIB);
    assert_true(big_others() > others);
    check_counts(live_area()->process);
    front_free(big);
    check_counts(live_area()->process);
    hak_options.retain = retain;
    (void)front_trim();
}

static uint32_t state_shown(struct heap *heap)
{
    const struct live_heaps *row = load_relaxed(&heap->row);
    assert_non_null(row);
    assert_int_equal(load_relaxed(&row->address), (uintptr_t)heap);
    return load_relaxed(&row->state);
}

static void states_of_explicit_heaps_are_shown(void **state)
{
    (void)state;
    struct heap *heap = front_heap_new();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(state_shown(heap), HEAP_EXPLICIT);
        explicit_to_vacant(heap);
        assert_int_equal(state_shown(heap), HEAP_VACANT);
        assert_ptr_equal(front_heap_new(), heap);
    }
    explicit_to_vacant(heap);
}

static void note_sample(struct heap *heap, void *p)
{
    struct sampler *s = &hak_thread.heap->magazines.sampler;
    (void)sampled_forget_if(p, true); /* it may be one by chance */
    thread_enter();
    assert_true(sampled_note(s, p, 16, 16));
    thread_leave();
    explicit_note_sampled(heap, p);
}

/* Wherever in a slab they lie: of two that are left the second is not where a word of the map begins. */
static void samples_end_with_their_heap(void **state)
{
    (void)state;
    enum { MOST = 200, FIRST = 10, SECOND = 69 };
    void *blocks[MOST] = {NULL};
    struct heap *heap = front_heap_new();
    for (size_t i = 0; i < MOST; i++) {
        void *p = front_heap_alloc_counted(heap, 1, 16);
        size_t at = ((uintptr_t)p & (UNIT_SIZE - 1)) / 16;
        assert_true(at < MOST && blocks[at] == NULL);
        blocks[at] = p;
    }
    check_units();
    check_touched();
    for (size_t i = 0; i < MOST; i++) {
        if (i != FIRST && i != SECOND)
            front_free(blocks[i]);
    }
    note_sample(heap, blocks[FIRST]);
    note_sample(heap, blocks[SECOND]);
    explicit_to_vacant(heap);
    assert_false(sampled_forget_if(blocks[FIRST], true));
    assert_false(sampled_forget_if(blocks[SECOND], true));
}

/* A check that fails there ends it with another status. */
static void what_a_child_shows_is_so(void **state)
{
    (void)state;
    run_threads(allocate_at_random);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        free_what_is_left();
        (void)front_trim();
        check_counts(live_area()->process);
        check_samples();
        check_touched();
        check_units();
        assert_int_equal(load_relaxed(&load_relaxed(&hak_thread.heap->row)->tid), getpid());
        _exit(load_relaxed(&live_area()->process[0].pid) == (uint32_t)getpid() ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    free_what_is_left();
}

static int set_up(void **state)
{
    hak_options.profile_interval = INTERVAL;
    hak_options.profile_rate = 1000000;
    return make_live_area(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_header_describes_the_tables),
        cmocka_unit_test(what_others_write_there_leads_nowhere),
        cmocka_unit_test(the_settings_are_shown),
        cmocka_unit_test(the_process_and_its_classes_are_shown),
        cmocka_unit_test(what_is_shown_is_so),
        cmocka_unit_test(a_block_that_was_resized_is_shown),
        cmocka_unit_test(what_big_blocks_take_of_other_kinds_is_shown),
        cmocka_unit_test(units_are_counted_whoever_takes_them),
        cmocka_unit_test(empty_slabs_that_stay_are_shown_at_once),
        cmocka_unit_test(shared_heaps_are_shown),
        cmocka_unit_test(states_of_explicit_heaps_are_shown),
        cmocka_unit_test(samples_end_with_their_heap),
        cmocka_unit_test(what_a_child_shows_is_so),
        cmocka_unit_test(heaps_without_a_row_are_counted_once), /* last: it leaves heaps behind */
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
