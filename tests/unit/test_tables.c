/* Unwind tables as bytes: a small one with known answers, and what damage to tables may do at worst. */
#include "unit.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/os.h"
#include "profile/cursor.h"
#include "profile/expression.h"
#include "profile/objects.h"
#include "profile/stack.h"

/* ---- a cursor ---- */

static struct cursor over(const uint8_t *bytes, size_t size)
{
    return (struct cursor){bytes, 0, size, false};
}

static void numbers_of_any_length(void **state)
{
    (void)state;
    static const uint8_t unsigned_624485[] = {0xe5, 0x8e, 0x26};
    static const uint8_t minus_123456[] = {0xc0, 0xbb, 0x78};
    static const uint8_t minus_1[] = {0x7f};
    static const uint8_t most_negative[] = {0x80, 0x80, 0x80, 0x80, 0x80,
                                            0x80, 0x80, 0x80, 0x80, 0x7f};
    struct cursor c = over(unsigned_624485, sizeof unsigned_624485);
    assert_int_equal(cursor_uleb(&c), 624485);
    c = over(minus_123456, sizeof minus_123456);
    assert_int_equal(cursor_sleb(&c), -123456);
    c = over(minus_1, sizeof minus_1);
    assert_int_equal(cursor_sleb(&c), -1);
    c = over(most_negative, sizeof most_negative);
    assert_true(cursor_sleb(&c) == INT64_MIN && !c.bad);
}

static void beyond_the_end_is_bad(void **state)
{
    (void)state;
    static const uint8_t unfinished[] = {0x80, 0x80};
    static const uint8_t endless[32] = {[0 ... 31] = 0xff};
    struct cursor c = over(unfinished, sizeof unfinished);
    assert_true(cursor_uleb(&c) == 0 && c.bad);
    c = over(endless, sizeof endless);
    assert_true(cursor_uleb(&c) == 0 && c.bad);
    c = over(unfinished, sizeof unfinished);
    assert_true(cursor_fixed(&c, 4) == 0 && c.bad);
    assert_true(cursor_fixed(&c, 1) == 0 && c.bad); /* and stays so */
    c = over(unfinished, sizeof unfinished);
    cursor_skip(&c, SIZE_MAX);
    assert_true(c.bad);
}

/* ---- a small table ---- */

enum { ADDRESS = 0x10000, HEADER = 0, CODE = 0x20000, LENGTH = 0x40 };

#define LE32(n)                                                                                    \
    (uint8_t)(n), (uint8_t)((uint32_t)(n) >> 8), (uint8_t)((uint32_t)(n) >> 16),                   \
        (uint8_t)((uint32_t)(n) >> 24)

/* One function at CODE: push %rbp; mov %rsp,%rbp; ...; an early return in the middle. */
enum { COMMON = 20, COMMON_SIZE = 24, ENTRY = COMMON + COMMON_SIZE, ENTRY_SIZE = 40 };
/* clang-format off */
static const uint8_t small[] = {
    /* 0: header: version, encodings, where .eh_frame is (from here), one function, at, its record */
    1, 0x1b, 0x03, 0x3b, LE32(COMMON - 4), LE32(1), LE32(CODE - ADDRESS), LE32(ENTRY),
    /* 20: CIE "zR"; steps of 1 and -8, return address in 16; data: 4 bytes from here */
    LE32(COMMON_SIZE - 4), LE32(0), 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b,
    0x0c, 7, 8,                   /* def_cfa rsp 8 */
    0x80 | 16, 1,                 /* offset rip 1 */
    0, 0,
    /* 44: FDE */
    LE32(ENTRY_SIZE - 4), LE32(ENTRY + 4 - COMMON), LE32(CODE - ADDRESS - ENTRY - 8), LE32(LENGTH),
    0,                            /* no data */
    0x41, 0x0e, 16, 0x86, 2,      /* +1: def_cfa_offset 16, offset rbp 2 */
    0x43, 0x0d, 6,                /* +4: def_cfa_register rbp */
    0x50, 0x0a, 0x0c, 7, 8, 0xc6, /* +20: remember_state, def_cfa rsp 8, restore rbp */
    0x41, 0x0b,                   /* +21: restore_state */
    0x2e, 16,                     /* GNU_args_size */
    0x02, 1,                      /* +22 */
    0, 0, 0
};
/* clang-format on */

static struct tables tables_over(const uint8_t *bytes, size_t size)
{
    return (struct tables){bytes, size, ADDRESS, HEADER};
}

static void check_rules(uintptr_t offset, unsigned cfa, int32_t cfa_value, enum rule bp)
{
    struct tables t = tables_over(small, sizeof small);
    struct rules r;
    assert_at(tables_rules(&t, CODE + offset, &r), offset);
    assert_at(r.cfa_register == cfa && r.cfa_value == cfa_value, offset);
    assert_at(r.kinds[REGISTER_BP] == bp, offset);
    assert_at(r.kinds[REGISTER_PC] == RULE_AT && r.values[REGISTER_PC] == -8, offset);
    assert_at(!r.signal && !r.cfa_is_expression, offset);
}

static void known_rules(void **state)
{
    (void)state;
    _Static_assert(sizeof small == ENTRY + ENTRY_SIZE, "the sizes above");
    check_rules(0, REGISTER_SP, 8, RULE_SAME);
    check_rules(1, REGISTER_SP, 16, RULE_AT);
    check_rules(3, REGISTER_SP, 16, RULE_AT);
    check_rules(4, REGISTER_BP, 16, RULE_AT);
    check_rules(19, REGISTER_BP, 16, RULE_AT);
    check_rules(20, REGISTER_SP, 8, RULE_SAME);
    check_rules(21, REGISTER_BP, 16, RULE_AT);
    check_rules(LENGTH - 1, REGISTER_BP, 16, RULE_AT);
}

static void not_in_any_function(void **state)
{
    (void)state;
    struct tables t = tables_over(small, sizeof small), none = {0};
    struct rules r;
    assert_true(tables_rules(&t, CODE, &r));
    assert_false(tables_rules(&t, CODE - 1, &r));
    assert_false(tables_rules(&t, CODE + LENGTH, &r));
    assert_false(tables_rules(&t, 0, &r));
    assert_false(tables_rules(&t, UINTPTR_MAX, &r));
    assert_false(tables_rules(&none, CODE, &r));
}

/* A copy of its own, so that AddressSanitizer sees every byte read beyond. */
static uint8_t *copy_of(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    return copy;
}

static void cut_short_anywhere(void **state)
{
    (void)state;
    for (size_t size = 0; size < sizeof small; size++) {
        uint8_t *copy = copy_of(small, size);
        struct tables t = tables_over(copy, size);
        struct rules r;
        assert_at(!tables_rules(&t, CODE + 30, &r), size);
        free(copy);
    }
}

static void every_byte_with_every_value(void **state)
{
    (void)state;
    uint8_t *copy = copy_of(small, sizeof small);
    struct tables t = tables_over(copy, sizeof small);
    struct rules r;
    size_t found = 0, lost = 0;
    for (size_t at = 0; at < sizeof small; at++) {
        for (unsigned value = 0; value < 256; value++) {
            copy[at] = (uint8_t)value;
            for (uintptr_t pc = CODE; pc < CODE + LENGTH; pc += 3)
                tables_rules(&t, pc, &r) ? found++ : lost++;
        }
        copy[at] = small[at];
    }
    assert_true(found > 1000 && lost > 1000);
    free(copy);
}

enum { PROGRAM = ENTRY + 17 }; /* where the function's instructions are */

static bool has_rules_with(const uint8_t *program, size_t size)
{
    uint8_t *copy = copy_of(small, sizeof small);
    memset(copy + PROGRAM, 0, sizeof small - PROGRAM);
    memcpy(copy + PROGRAM, program, size);
    struct tables t = tables_over(copy, sizeof small);
    struct rules r;
    bool found = tables_rules(&t, CODE + 30, &r);
    free(copy);
    return found;
}

#define HAS_RULES_WITH(...)                                                                        \
    has_rules_with((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static void instructions_without_sense(void **state)
{
    (void)state;
    assert_true(HAS_RULES_WITH(0));
    assert_true(HAS_RULES_WITH(0x0a, 0x0a, 0x0b, 0x0b));
    assert_false(HAS_RULES_WITH(0x0b)); /* nothing is remembered */
    assert_false(HAS_RULES_WITH(0x0a, 0x0b, 0x0b));
    assert_false(HAS_RULES_WITH(0x0a, 0x0a, 0x0a, 0x0a, 0x0a, 0x0a)); /* too much is */
    assert_true(HAS_RULES_WITH(0x0f, 2, 0x77, 8));            /* an expression for the CFA */
    assert_false(HAS_RULES_WITH(0x0f, 2, 0x77, 8, 0x0e, 16)); /* which has no offset */
    assert_false(HAS_RULES_WITH(0x0f, 60, 0x77));             /* nor so many bytes */
    assert_false(HAS_RULES_WITH(0x0c, 17, 8));                /* no such register */
    assert_true(HAS_RULES_WITH(0x05, 33, 8));                 /* of floating point */
    assert_false(HAS_RULES_WITH(0x3f));                       /* no instruction */
}

/* ---- expressions ---- */

static uintptr_t stack_words[4] = {0x1111111122222222, 4711, 0, 3};

struct outcome {
    bool sound;
    uintptr_t value;
};

static struct outcome evaluate(const uint8_t *expression, size_t size)
{
    struct registers registers = {.known = 1u << REGISTER_SP | 1u << REGISTER_PC};
    uintptr_t at = (uintptr_t)stack_words;
    struct reach reach = {.low = at, .high = at + sizeof stack_words};
    registers.values[REGISTER_SP] = at;
    registers.values[REGISTER_PC] = 0x40100b;
    reach.limit = reach.high;
    uint8_t *copy = copy_of(expression, size);
    struct tables t = tables_over(copy, size);
    struct outcome outcome = {0};
    uintptr_t first = 100;
    outcome.sound = expression_value(&t, 0, &registers, &reach, &first, &outcome.value);
    free(copy);
    return outcome;
}

#define EVALUATE(...)                                                                              \
    evaluate((const uint8_t[]){sizeof((const uint8_t[]){__VA_ARGS__}), __VA_ARGS__},               \
             1 + sizeof((const uint8_t[]){__VA_ARGS__}))

#define assert_gives(expected, ...)                                                                \
    do {                                                                                           \
        struct outcome outcome = EVALUATE(__VA_ARGS__);                                            \
        assert_true(outcome.sound);                                                                \
        assert_int_equal(outcome.value, expected);                                                 \
    } while (0)

#define assert_senseless(...) assert_false(EVALUATE(__VA_ARGS__).sound)

static void expressions_with_known_values(void **state)
{
    (void)state;
    uintptr_t sp = (uintptr_t)stack_words;
    assert_gives(100, 0x96);                             /* what was there first */
    assert_gives(sp + 16, 0x77, 16);                     /* breg7 16 */
    assert_gives(4711, 0x77, 8, 0x06);                   /* deref */
    assert_gives(0x11111111, 0x77, 4, 0x94, 4);          /* deref_size 4 */
    assert_gives(sp - 1, 0x92, 7, 0x7f);                 /* bregx 7 -1 */
    assert_gives(UINTPTR_MAX, 0x11, 0x7f);               /* consts -1 */
    assert_gives(0x1234, 0x0a, 0x34, 0x12);              /* const2u */
    assert_gives((uintptr_t)-2, 0x09, 0xfe);             /* const1s */
    assert_gives(7, 0x3c, 0x35, 0x1c);                   /* 12 - 5 */
    assert_gives((uintptr_t)-3, 0x11, 0x74, 0x34, 0x1b); /* -12 / 4 */
    assert_gives(2, 0x3c, 0x35, 0x1d);                   /* 12 mod 5 */
    assert_gives(48, 0x3c, 0x32, 0x24);                  /* 12 << 2 */
    assert_gives(UINTPTR_MAX, 0x11, 0x7f, 0x35, 0x26);   /* -1 >> 5, signed */
    assert_gives(103, 0x33, 0x22);                       /* 100 + 3 */
    assert_gives(105, 0x23, 5);                          /* plus_uconst */
    assert_gives(2, 0x31, 0x32, 0x33, 0x17);             /* rot of 1 2 3: 3 1 2 */
    assert_gives(1, 0x31, 0x32, 0x33, 0x17, 0x13);
    assert_gives(3, 0x31, 0x32, 0x33, 0x17, 0x13, 0x13);
    assert_gives(9, 0x39, 0x31, 0x28, 1, 0, 0x13);   /* a jump across the drop */
    assert_gives(100, 0x39, 0x30, 0x28, 1, 0, 0x13); /* none */
    assert_gives(1, 0x11, 0x7f, 0x30, 0x2d);         /* -1 < 0 */
    assert_gives(5, 0x11, 0x7b, 0x19);               /* abs */
    assert_gives(31, 0x3f, 0x4f, 0x16, 0x13);        /* swap, drop */
    assert_gives(15, 0x3f, 0x4f, 0x15, 1);           /* pick */
    assert_gives(15, 0x3f, 0x4f, 0x1a);              /* and */
    /* A procedure linkage table's: rsp + 8 + (rip % 16 >= 11) * 8. */
    assert_gives(sp + 16, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22);
}

static void expressions_without_sense(void **state)
{
    (void)state;
    assert_senseless(0x13, 0x13);       /* drops more than there is */
    assert_senseless(0x76, 0);          /* an unknown register */
    assert_senseless(0x92, 99, 0);      /* one that does not exist */
    assert_senseless(0x77, 0x60, 0x06); /* memory out of reach */
    assert_senseless(0x77, 32, 0x06);   /* just behind */
    assert_senseless(0x77, 4, 0x06);    /* across two words */
    assert_senseless(0x77, 0, 0x94, 9); /* nine bytes */
    assert_senseless(0x31, 0x30, 0x1b); /* division by zero */
    assert_senseless(0x31, 0x30, 0x1d);
    assert_senseless(0x2f, 0xfd, 0xff);       /* jumps to itself for ever */
    assert_senseless(0x2f, 0xf0, 0xff);       /* out, backwards */
    assert_senseless(0x2f, 1, 0);             /* out, forwards */
    assert_senseless(0x12, 0x2f, 0xfc, 0xff); /* pushes for ever */
    assert_senseless(0x00);                   /* no operation */
    assert_senseless(0x08);                   /* its operand is missing */
    const uint8_t too_long[] = {2, 0x30};
    assert_false(evaluate(too_long, sizeof too_long).sound);
}

/* ---- objects, and the tables of this very program ---- */

static int some_data;

static void both_ways_find_the_same(void **state)
{
    (void)state;
    const uintptr_t code[] = {(uintptr_t)both_ways_find_the_same, (uintptr_t)qsort,
                              (uintptr_t)pthread_create, (uintptr_t)stack_capture};
    for (size_t i = 0; i < ARRAY_LENGTH(code); i++) {
        struct object one = {0}, other = {0}, any = {0};
        assert_at(object_find_in_list(&one, code[i]), i);
        assert_at(one.start <= code[i] && code[i] < one.end, i);
        assert_at(object_find(&any, code[i]) && object_is_code(&any, code[i]), i);
        assert_memory_equal(&one, &any, sizeof one);
        if (object_find_at_once(&other, code[i]))
            assert_memory_equal(&one, &other, sizeof one);
        assert_at(one.tables.bytes != NULL, i);
#if defined(__x86_64__)
        struct rules r;
        assert_at(tables_rules(&one.tables, code[i], &r), i);
        assert_at(r.cfa_register == REGISTER_SP && r.cfa_value == 8, i);
#endif
    }
}

static void no_code_there(void **state)
{
    (void)state;
    char *block = malloc(100);
    const uintptr_t others[] = {0, (uintptr_t)&some_data, (uintptr_t)&state, (uintptr_t)block,
                                UINTPTR_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(others); i++) {
        struct object o = {0};
        assert_at(!object_find(&o, others[i]), i);
        assert_at(!object_find_in_list(&o, others[i]), i);
        assert_at(!object_find_at_once(&o, others[i]), i);
    }
    free(block);
}

static void *look_for_code(void *first)
{
    const uintptr_t code[] = {(uintptr_t)look_for_code, (uintptr_t)qsort, (uintptr_t)stack_capture,
                              (uintptr_t)cmocka_set_message_output};
    size_t sure = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(code); i++) {
        struct object o = {0};
        sure += object_is_code(&o, code[((uintptr_t)first + i) % ARRAY_LENGTH(code)]);
    }
    return (void *)sure;
}

/* The first looks of all, at several objects: who comes second sees all that the first has found, or looks itself. */
static void threads_look_at_once(void **state)
{
    (void)state;
    pthread_t threads[8];
    for (uintptr_t i = 0; i < ARRAY_LENGTH(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, look_for_code, (void *)i), 0);
    for (size_t i = 0; i < ARRAY_LENGTH(threads); i++) {
        void *sure;
        assert_int_equal(pthread_join(threads[i], &sure), 0);
        assert_int_equal((uintptr_t)sure, 4);
    }
}

/* As some programs do with their own, against others who look for it. */
static void header_that_cannot_be_read(void **state)
{
    (void)state;
    void *library = dlopen("libm.so.6", RTLD_NOW);
    Dl_info info;
    if (library == NULL || dladdr(dlsym(library, "cbrt"), &info) == 0)
        skip();
    uintptr_t code = (uintptr_t)info.dli_saddr;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct object first = {0}, second = {0}, found = {0};
    assert_int_equal(mprotect(info.dli_fbase, page, PROT_NONE), 0);
    if (os_may_read(info.dli_fbase)) /* the kernel does not tell */
        skip();
    assert_true(object_is_code(&first, code));
    assert_false(object_find_at_once(&found, code));
    assert_int_equal(mprotect(info.dli_fbase, page, PROT_READ), 0);
    assert_true(object_is_code(&second, code)); /* and what was said stays so */
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(dlclose(library), 0);
}

/* Once it has been read nobody looks at it again. */
static void header_is_read_once(void **state)
{
    (void)state;
    Dl_info info;
    struct object first = {0}, second = {0};
    if (dladdr((void *)qsort, &info) == 0)
        skip();
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_true(object_is_code(&first, (uintptr_t)qsort));
    assert_int_equal(mprotect(info.dli_fbase, page, PROT_NONE), 0);
    bool again = object_is_code(&second, (uintptr_t)qsort);
    assert_int_equal(mprotect(info.dli_fbase, page, PROT_READ), 0);
    assert_true(again);
    assert_memory_equal(&first, &second, sizeof first);
}

static void own_code(void **state)
{
    (void)state;
    assert_true(object_is_own((uintptr_t)tables_rules));
    assert_true(object_is_own((uintptr_t)object_is_own));
    assert_false(object_is_own((uintptr_t)own_code));
    assert_false(object_is_own((uintptr_t)qsort));
    assert_false(object_is_own((uintptr_t)&some_data));
    assert_false(object_is_own(0));
}

#if defined(__x86_64__)
/* Every expression among the rules is computed, too. */
static void try_expressions(const struct tables *t, const struct rules *r)
{
    struct registers registers = {.known = (1u << REGISTERS) - 1};
    uintptr_t at = (uintptr_t)stack_words, value;
    struct reach reach = {.low = at, .high = at + sizeof stack_words};
    if (r->cfa_is_expression)
        (void)expression_value(t, (size_t)r->cfa_value, &registers, &reach, NULL, &value);
    for (size_t i = 0; i < REGISTERS; i++)
        if (r->kinds[i] == RULE_AT_EXPRESSION || r->kinds[i] == RULE_IS_EXPRESSION)
            (void)expression_value(t, (size_t)r->values[i], &registers, &reach, &at, &value);
}

enum { PLACES = 400 };

static size_t look_up_all(const struct object *o, const struct tables *t)
{
    size_t found = 0;
    for (uintptr_t pc = o->start; pc < o->end; pc += (o->end - o->start) / PLACES) {
        struct rules r;
        if (!tables_rules(t, pc, &r))
            continue;
        found++;
        try_expressions(t, &r);
    }
    return found;
}

enum { ROUNDS = 64, FIXED = 12 }; /* of the header: without its first bytes nothing is found */

/* Between the sections lies what the sanitizers forbid to read. */
__attribute__((no_sanitize("address"))) static uint8_t *copy_of_segment(const struct tables *t)
{
    uint8_t *copy = malloc(t->size);
    assert_non_null(copy);
    for (size_t i = 0; i < t->size; i++)
        copy[i] = *(const volatile uint8_t *)&t->bytes[i];
    return copy;
}

/* Damage in many places at once: in half of the bytes, down to one in 256. */
static void fuzz(uintptr_t code, uint32_t seed)
{
    struct object o = {0};
    assert_true(object_find(&o, code));
    struct tables t = o.tables;
    size_t area = t.size - t.header - FIXED, sound = look_up_all(&o, &t), most = 0, least = sound;
    assert_true(sound > PLACES / 4);
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t *copy = copy_of_segment(&o.tables);
        t.bytes = copy;
        assert_int_equal(look_up_all(&o, &t), sound);
        for (size_t i = 0; i < area >> (1 + round % 8); i++)
            copy[t.header + FIXED + next_random(&seed) % area] = (uint8_t)next_random(&seed);
        size_t left = look_up_all(&o, &t);
        most = left > most ? left : most;
        least = left < least ? left : least;
        free(copy);
    }
    assert_true(least < sound / 2 && most > 0);
}

static void damaged_tables(void **state)
{
    (void)state;
    fuzz((uintptr_t)damaged_tables, 1); /* this program's */
    fuzz((uintptr_t)qsort, 2);          /* the C library's, with a signal's frame in it */
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_look_at_once),
        cmocka_unit_test(numbers_of_any_length),
        cmocka_unit_test(beyond_the_end_is_bad),
        cmocka_unit_test(known_rules),
        cmocka_unit_test(not_in_any_function),
        cmocka_unit_test(cut_short_anywhere),
        cmocka_unit_test(every_byte_with_every_value),
        cmocka_unit_test(instructions_without_sense),
        cmocka_unit_test(expressions_with_known_values),
        cmocka_unit_test(expressions_without_sense),
        cmocka_unit_test(both_ways_find_the_same),
        cmocka_unit_test(no_code_there),
        cmocka_unit_test(header_that_cannot_be_read),
        cmocka_unit_test(header_is_read_once),
        cmocka_unit_test(own_code),
#if defined(__x86_64__)
        cmocka_unit_test(damaged_tables),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
