/* The size classes, and slabs of each of them. */
#include "unit.h"

#include "slab/slab.h"
#include "super/super.h"

static uint64_t *word_of(const struct slab *s, uint32_t index)
{
    return slab_word_of(slab_unit(s), s->class, index);
}

static void put(struct slab *s, void *p)
{
    size_t offset = (size_t)((char *)p - slab_base(s));
    uint32_t index = class_block_index(&hak_classes[s->class], offset);
    slab_put(s, word_of(s, index), index);
    s->used--;
}

static void class_for_is_the_smallest_that_fits(void **state)
{
    (void)state;
    uint32_t expected = 0;
    for (size_t size = 1; size <= SLAB_MAX; size++) {
        while (hak_classes[expected].size < size)
            expected++;
        assert_at(class_for(size) == expected, size);
    }
    assert_int_equal(expected, CLASS_COUNT - 1);
    assert_int_equal(class_for(0), 0);
}

static void waste_is_bounded(void **state)
{
    (void)state;
    for (size_t size = 65; size <= SLAB_MAX; size++) {
        size_t block = hak_classes[class_for(size)].size;
        assert_at((block - size) * 5 <= block, size);
    }
}

static void rows_agree_with_the_table(void **state)
{
    (void)state;
    static const struct {
        size_t from, size;
    } rows[] = {
#define CLASS(index, from, size, units, slots) {from, size},
#include "slab/size_classes.def"
#undef CLASS
    };
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        const struct class_info *c = &hak_classes[class];
        assert_at(rows[class].size == c->size, class);
        assert_at(class == 0 || rows[class].from == hak_classes[class - 1].size + 1, class);
        size_t fit = class < FIRST_PAGED ? c->units * UNIT_SIZE / c->size : 1;
        size_t bits = 64 * (size_t)class_map_words(class);
        assert_at(c->capacity == (fit < bits ? fit : bits) && fit <= 2 * bits, class);
    }
}

static void blocks_have_their_natural_alignment(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        size_t size = hak_classes[class].size;
        assert_at(size % (size < BLOCK_ALIGN ? 8 : BLOCK_ALIGN) == 0, class);
    }
}

/* The smallest class that fits and whose blocks all lie at multiples of the alignment. Paged ones lie at
 * any page. */
static uint32_t aligned_class_by_search(size_t size, size_t alignment)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        size_t block = hak_classes[class].size;
        if (block >= size && block >= alignment && block % alignment == 0)
            return class < FIRST_PAGED || alignment <= hak_region.page_size ? class : CLASS_COUNT;
    }
    return CLASS_COUNT;
}

static void class_for_aligned_is_the_smallest_that_fits(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= 2 * SLAB_MAX; alignment *= 2) {
        for (size_t size = 0; size <= SLAB_MAX + 64; size += size < 2048 ? 1 : 61)
            assert_at(class_for_aligned(size, alignment) ==
                          aligned_class_by_search(size, alignment),
                      size);
    }
}

/* ---- slabs ---- */

/* Of units: what is paged is one block and nothing to cut. */
static size_t make_slab(uint32_t class)
{
    bool zeroed;
    ptrdiff_t unit = units_take(hak_classes[class].units, &zeroed);
    assert_true(unit >= 0);
    slab_init((size_t)unit, class, NULL, zeroed);
    return (size_t)unit;
}

static void drop_slab(size_t unit)
{
    units_give(unit, hak_classes[slab_at(unit)->class].units, slab_touched_units(slab_at(unit)));
}

static void starts_agree_with_a_division(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < FIRST_PAGED; class ++) {
        const struct class_info *c = &hak_classes[class];
        size_t unit = make_slab(class);
        const struct slab *s = slab_at(unit);
        for (size_t offset = 0; offset < c->units * UNIT_SIZE; offset += 8) {
            bool starts = offset % c->size == 0 && offset / c->size < c->capacity;
            if (slab_block_starts_at(s, slab_base(s) + offset) != starts)
                fail_msg("class of %u bytes, offset %zu", c->size, offset);
        }
        drop_slab(unit);
    }
}

static void places_in_a_unit_agree_with_a_division(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < FIRST_OF_UNITS; class ++) {
        const struct class_info *c = &hak_classes[class];
        for (size_t offset = 0; offset < UNIT_SIZE; offset++) {
            struct block_place place = class_block_place(c, offset);
            assert_at(place.index == offset / c->size, offset);
            assert_at(place.starts == (offset % c->size == 0), offset);
        }
    }
}

static void every_unit_finds_its_slab(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < FIRST_PAGED; class ++) {
        size_t unit = make_slab(class);
        for (uint32_t i = 0; i < hak_classes[class].units; i++)
            assert_at(slab_of_unit(unit + i) == slab_at(unit), class);
        assert_at(slab_unit(slab_at(unit)) == unit, class);
        drop_slab(unit);
    }
}

static void take_goes_by_address(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < FIRST_PAGED; class ++) {
        static void *blocks[UNIT_SIZE];
        const struct class_info *c = &hak_classes[class];
        size_t unit = make_slab(class);
        struct slab *s = slab_at(unit);
        assert_at(slab_touched_units(s) == 0, class);
        uint32_t half = slab_take(s, blocks, c->capacity / 2);
        assert_at(half == c->capacity / 2 && !slab_is_full(s), class);
        uint32_t rest = slab_take(s, blocks + half, UINT32_MAX);
        assert_at(half + rest == c->capacity && slab_is_full(s), class);
        for (size_t i = 0; i < c->capacity; i++)
            assert_at((char *)blocks[i] == slab_base(s) + i * c->size, i);
        assert_at(s->used == c->capacity && s->carved == c->capacity, class);
        size_t touched = round_up((size_t)c->capacity * c->size, UNIT_SIZE) / UNIT_SIZE;
        assert_at(slab_touched_units(s) == touched && touched <= c->units, class);
        assert_at(slab_take(s, blocks, 1) == 0, class);
        drop_slab(unit);
    }
}

/* Frees the 6th, the 2nd and the 4th of eight blocks and takes five. */
static void check_order(size_t size)
{
    size_t unit = make_slab(class_for(size));
    struct slab *s = slab_at(unit);
    void *a[8], *b[8];
    assert_int_equal(slab_take(s, a, 8), 8);
    put(s, a[5]);
    put(s, a[1]);
    put(s, a[3]);
    assert_int_equal(s->used, 5);
    assert_int_equal(slab_take(s, b, 5), 5);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(b[i], a[1 + 2 * i]);
    assert_ptr_equal(b[3], (char *)a[7] + size); /* then untouched ones */
    assert_ptr_equal(b[4], (char *)a[7] + 2 * size);
    assert_int_equal(s->used, 10);
    drop_slab(unit);
}

static void freed_blocks_come_by_address(void **state)
{
    (void)state;
    check_order(48);
    check_order(64);
}

static void put_and_look(struct slab *s, void *p, uint32_t index)
{
    assert_at(!slab_knows_free(s->class, word_of(s, index), index), index);
    put(s, p);
    assert_at(slab_knows_free(s->class, word_of(s, index), index), index);
}

/* Every block of a full slab but the last freed, each second one first, and taken again in parts. */
static void a_map_finds_every_freed_block(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < FIRST_PAGED; class ++) {
        size_t unit = make_slab(class);
        struct slab *s = slab_at(unit);
        uint32_t n = hak_classes[class].capacity, taken = 0;
        static void *p[WIDE_WORDS * 64];
        assert_at(slab_take(s, p, n) == n, class);
        for (uint32_t i = 1; i + 1 < n; i += 2)
            put_and_look(s, p[i], i);
        for (uint32_t i = 0; i + 1 < n; i += 2)
            put_and_look(s, p[i], i);
        assert_at(s->used == 1 && s->freed != 0, class);
        for (uint32_t part; (part = slab_take(s, p + taken, 5)) != 0; taken += part)
            ;
        assert_at(taken == n - 1 && slab_is_full(s) && s->freed == 0, class);
        for (uint32_t i = 0; i < taken; i++)
            assert_at((char *)p[i] == slab_base(s) + (size_t)i * hak_classes[class].size, class);
        drop_slab(unit);
    }
}

/* Two slabs of a class, of one of which blocks come back one by one and of the other in a row, give the same blocks next. */
static void a_row_is_put_as_one_by_one(void **state)
{
    (void)state;
    enum { BLOCKS = 600 }; /* of several words of the map */
    for (uint32_t class = 0; class < FIRST_OF_UNITS; class ++) {
        size_t units[] = {make_slab(class), make_slab(class)};
        static void *p[2][BLOCKS];
        uint32_t n = hak_classes[class].capacity < BLOCKS ? hak_classes[class].capacity : BLOCKS;
        for (int i = 0; i < 2; i++)
            assert_at(slab_take(slab_at(units[i]), p[i], n) == n, class);
        for (uint32_t i = 0; i + 4 < n; i++) { /* the last of them lie at the frontier */
            uint32_t other = i * 389 % (n - 4);
            for (int k = 0; k < 2; k++) {
                void *one = p[k][i];
                p[k][i] = p[k][other];
                p[k][other] = one;
            }
        }
        for (uint32_t i = n; i-- > 1;)
            put(slab_at(units[0]), p[0][i]);
        struct slab *s = slab_at(units[1]);
        assert_at(slab_put_row(s, &p[1][1], n - 1) == n - 1, class);
        s->used -= n - 1;
        for (int i = 0; i < 2; i++)
            assert_at(slab_take(slab_at(units[i]), p[i], n - 1) == n - 1, class);
        for (uint32_t i = 0; i < n - 1; i++)
            assert_at((char *)p[0][i] - slab_base(slab_at(units[0])) ==
                          (char *)p[1][i] - slab_base(s),
                      class);
        drop_slab(units[0]);
        drop_slab(units[1]);
    }
}

/* Whatever lies in a unit: a block comes back if it starts there and is in use, and nothing else does. */
static void a_row_begins_where_a_block_does(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 48, 112, 1024, 1792};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        uint32_t class = class_for(sizes[i]), n = hak_classes[class].capacity - 1;
        static void *p[WIDE_WORDS * 64];
        size_t unit = make_slab(class);
        struct slab *s = slab_at(unit);
        assert_int_equal(slab_take(s, p, n), n);
        for (size_t offset = 0; offset < UNIT_SIZE; offset++) {
            void *one = slab_base(s) + offset, *again;
            bool is_block =
                offset % hak_classes[class].size == 0 && offset / hak_classes[class].size < n;
            assert_at(slab_put_row(s, &one, 1) == is_block, offset);
            if (!is_block)
                continue;
            s->used--;
            bool is_last = offset / hak_classes[class].size == n - 1; /* the frontier has moved */
            assert_at(slab_put_row(s, &one, 1) == 0 && s->freed == !is_last, offset);
            assert_at(slab_take(s, &again, 1) == 1 && again == one, offset);
        }
        drop_slab(unit);
    }
}

/* Blocks cut in advance and never used leave the map alone: it may have no page. */
static void a_row_at_the_frontier_moves_it(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < FIRST_OF_UNITS; class ++) {
        static void *p[WIDE_WORDS * 64];
        size_t unit = make_slab(class);
        struct slab *s = slab_at(unit);
        uint32_t n = slab_take(s, p, hak_classes[class].capacity);
        assert_at(slab_put_row(s, p, n) == n && s->carved == 0 && s->freed == 0, class);
        assert_at(is_zero((const char *)slab_map(s), class_map_words(class) * sizeof(uint64_t)),
                  class);
        drop_slab(unit);
    }
}

/* With something else between four blocks, only those behind it come back. */
static void check_row_ends(uint32_t class, void *const *p, struct slab *s, void *other)
{
    void *const row[] = {p[0], p[1], other, p[2], p[3]};
    uint32_t carved = s->carved;
    assert_int_equal(slab_put_row(s, row, 5), 2);
    s->used -= 2;
    assert_int_equal(s->carved, carved);
    void *again[2];
    assert_int_equal(slab_take(s, again, 2), 2);
    assert_at((again[0] == p[2] && again[1] == p[3]) || (again[0] == p[3] && again[1] == p[2]),
              class);
}

static void a_row_ends_before_what_is_no_block_in_use(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 48, 64, 1024};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        uint32_t class = class_for(sizes[i]);
        size_t unit = make_slab(class), next = make_slab(class);
        struct slab *s = slab_at(unit);
        void *p[6], *foreign;
        assert_int_equal(slab_take(s, p, 6), 6);
        memset(p[0], 0, 6 * sizes[i]);
        assert_int_equal(slab_take(slab_at(next), &foreign, 1), 1);
        check_row_ends(class, p, s, foreign);
        check_row_ends(class, p, s, p[3]);
        check_row_ends(class, p, s, (char *)p[1] + 4);
        check_row_ends(class, p, s, (char *)p[5] + sizes[i]);
        check_row_ends(class, p, s, (char *)unit_address(unit) - sizes[i]);
        void *const none[] = {p[0], foreign};
        assert_int_equal(slab_put_row(s, none, 2), 0);
        put(s, p[4]);
        check_row_ends(class, p, s, p[4]);
        drop_slab(unit);
        drop_slab(next);
    }
}

static void put_writes_nothing(size_t size)
{
    size_t unit = make_slab(class_for(size));
    struct slab *s = slab_at(unit);
    void *p[2];
    assert_int_equal(slab_take(s, p, 2), 2);
    memset(p[0], 'x', 2 * size);
    put(s, p[0]);
    const char *bytes = p[0];
    for (size_t i = 0; i < 2 * size; i++)
        assert_at(bytes[i] == 'x', i);
    slab_clear(s);
    drop_slab(unit);
}

static void a_freed_block_is_not_touched(void **state)
{
    (void)state;
    put_writes_nothing(48);
    put_writes_nothing(64);
}

/* ---- pages without a block ---- */

/* Of all blocks but a few neighbours every page goes, and those keep what they hold. */
static void purge_leaves_live_blocks(uint32_t size)
{
    uint32_t class = class_for(size), n = hak_classes[class].capacity;
    uint32_t live_from = n / 2, live_to = live_from + 3;
    void *blocks[WIDE_WORDS * 64];
    size_t unit = make_slab(class), page = hak_region.page_size;
    struct slab *s = slab_at(unit);
    assert_int_equal(slab_take(s, blocks, n), n);
    memset(slab_base(s), 'x', (size_t)n * size);
    assert_int_equal(slab_purge(s), 0);
    for (uint32_t i = 0; i < n; i++) {
        if (i < live_from || i >= live_to)
            put(s, blocks[i]);
    }
    size_t below = (size_t)live_from * size / page,
           above = round_up((size_t)live_to * size, page) / page;
    size_t last = (size_t)n * size / page;
    if (last < above) /* nothing but the blocks' own page */
        last = above;
    assert_int_equal(slab_purge(s), (below + last - above) * page);
    assert_true(is_zero(slab_base(s), below * page));
    assert_true(is_zero(slab_base(s) + above * page, (last - above) * page));
    for (size_t i = (size_t)live_from * size; i < (size_t)live_to * size; i++)
        assert_at(slab_base(s)[i] == 'x', i);
    slab_clear(s);
    drop_slab(unit);
}

static void pages_without_a_block_can_go(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {8, 48, 64, 80, 512, 1024, 5120};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
        purge_leaves_live_blocks(sizes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(class_for_is_the_smallest_that_fits),
        cmocka_unit_test(waste_is_bounded),
        cmocka_unit_test(rows_agree_with_the_table),
        cmocka_unit_test(blocks_have_their_natural_alignment),
        cmocka_unit_test(class_for_aligned_is_the_smallest_that_fits),
        cmocka_unit_test(starts_agree_with_a_division),
        cmocka_unit_test(places_in_a_unit_agree_with_a_division),
        cmocka_unit_test(every_unit_finds_its_slab),
        cmocka_unit_test(take_goes_by_address),
        cmocka_unit_test(freed_blocks_come_by_address),
        cmocka_unit_test(a_map_finds_every_freed_block),
        cmocka_unit_test(a_row_is_put_as_one_by_one),
        cmocka_unit_test(a_row_begins_where_a_block_does),
        cmocka_unit_test(a_row_at_the_frontier_moves_it),
        cmocka_unit_test(a_row_ends_before_what_is_no_block_in_use),
        cmocka_unit_test(a_freed_block_is_not_touched),
        cmocka_unit_test(pages_without_a_block_can_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
