#include "profile/tables.h"

#include "profile/cursor.h"

/* How pointers are written in the tables. */
enum {
    ENCODING_SIZE = 0x0f, /* mask */
    ENCODING_BASE = 0x70, /* mask */
    FROM_ZERO = 0x00,
    FROM_HERE = 0x10,
    FROM_HEADER = 0x30,
    OMITTED = 0xff,
    SORTED_TABLE = 0x3b /* the only form that linkers write: 4 bytes, signed, from the header */
};

static uint64_t pointer_value(struct cursor *c, uint8_t encoding)
{
    switch (encoding & ENCODING_SIZE) {
    case 0x00:
    case 0x04:
    case 0x0c:
        return cursor_fixed(c, 8);
    case 0x01:
        return cursor_uleb(c);
    case 0x02:
        return cursor_fixed(c, 2);
    case 0x03:
        return cursor_fixed(c, 4);
    case 0x09:
        return (uint64_t)cursor_sleb(c);
    case 0x0a:
        return (uint64_t)cursor_signed(c, 2);
    case 0x0b:
        return (uint64_t)cursor_signed(c, 4);
    default:
        c->bad = true;
        return 0;
    }
}

static uintptr_t pointer(const struct tables *t, struct cursor *c, uint8_t encoding)
{
    uintptr_t base = 0;
    if ((encoding & ENCODING_BASE) == FROM_HERE)
        base = t->address + c->at;
    else if ((encoding & ENCODING_BASE) == FROM_HEADER)
        base = t->address + t->header;
    else if ((encoding & ENCODING_BASE) != FROM_ZERO)
        c->bad = true;
    return base + pointer_value(c, encoding);
}

/* ---- entries ---- */

struct entry {
    uint64_t code_step;
    int64_t data_step;
    uint8_t encoding;
    bool sized; /* data for other readers has its size in front */
    bool signal;
    struct cursor common, program; /* instructions for all functions, and for this one */
};

/* From `at` to the end of the record that starts there, which is what its length says. */
static struct cursor record(const struct tables *t, size_t at)
{
    struct cursor c = {t->bytes, at, t->size, at > t->size};
    uint64_t length = cursor_fixed(&c, 4);
    if (length == 0 || length >= 0xfffffff0) /* the last one, or one of more than 4 GiB */
        c.bad = true;
    return cursor_block(&c, length);
}

/* The letters of the augmentation, `letters`, describe data that follows. */
static void read_augmentation(const struct tables *t, struct cursor *letters, struct cursor *data,
                              struct entry *e)
{
    for (uint8_t letter; (letter = cursor_byte(letters)) != 0;) {
        if (letter == 'R')
            e->encoding = cursor_byte(data);
        else if (letter == 'S')
            e->signal = true;
        else if (letter == 'L')
            (void)cursor_byte(data);
        else if (letter == 'P')
            (void)pointer(t, data, cursor_byte(data));
        else
            data->bad = true;
    }
}

/* CIE: what several functions have in common. */
static bool read_common(const struct tables *t, size_t at, struct entry *e)
{
    struct cursor c = record(t, at);
    if (cursor_fixed(&c, 4) != 0)
        return false;
    uint8_t version = cursor_byte(&c);
    struct cursor letters = c;
    while (cursor_byte(&c) != 0)
        ;
    e->code_step = cursor_uleb(&c);
    e->data_step = cursor_sleb(&c);
    uint64_t return_register = version == 1 ? cursor_byte(&c) : cursor_uleb(&c);
    if (c.bad || (version != 1 && version != 3) || return_register != REGISTER_PC)
        return false;
    uint8_t first = cursor_byte(&letters);
    e->sized = first == 'z';
    if (e->sized) {
        struct cursor data = cursor_block(&c, cursor_uleb(&c));
        read_augmentation(t, &letters, &data, e);
        c.bad |= data.bad;
    }
    e->common = c;
    return !c.bad && (e->sized || first == 0);
}

/* FDE: a function, of which `pc` must be. */
static bool read_entry(const struct tables *t, size_t at, uintptr_t pc, struct entry *e,
                       uintptr_t *start)
{
    struct cursor c = record(t, at);
    size_t here = c.at;
    uint64_t back = cursor_fixed(&c, 4);
    *e = (struct entry){0};
    if (c.bad || back == 0 || back > here || !read_common(t, here - (size_t)back, e))
        return false;
    *start = pointer(t, &c, e->encoding);
    uint64_t size = pointer_value(&c, e->encoding);
    if (c.bad || pc - *start >= size)
        return false;
    if (e->sized)
        cursor_skip(&c, cursor_uleb(&c));
    e->program = c;
    return !c.bad;
}

/* Where the record of the last function that starts at or before `pc` is. */
static bool find_record(const struct tables *t, uintptr_t pc, size_t *at)
{
    struct cursor c = {t->bytes, t->header, t->size, t->header > t->size};
    uint8_t version = cursor_byte(&c), frame = cursor_byte(&c), number = cursor_byte(&c);
    uint8_t table = cursor_byte(&c);
    if (version != 1 || frame == OMITTED || number == OMITTED || table != SORTED_TABLE)
        return false;
    (void)pointer(t, &c, frame);
    uint64_t count = pointer(t, &c, number);
    if (c.bad || count == 0 || count > (c.end - c.at) / 8)
        return false;
    int64_t wanted = (int64_t)(pc - t->address - t->header);
    size_t table_at = c.at, low = 0, high = (size_t)count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        c.at = table_at + 8 * middle;
        if (cursor_signed(&c, 4) <= wanted)
            low = middle;
        else
            high = middle;
    }
    c.at = table_at + 8 * low + 4;
    *at = t->header + (size_t)cursor_signed(&c, 4);
    return true;
}

/* ---- instructions ---- */

enum { REMEMBERED = 4 };

struct machine {
    const struct tables *t;
    const struct entry *entry;
    struct rules now, initial;
    struct rules remembered[REMEMBERED];
    size_t depth;
    uintptr_t at; /* the address for which `now` is */
};

static bool set(struct machine *m, uint64_t number, enum rule kind, int64_t value)
{
    if (number >= REGISTERS)
        return true; /* of floating point */
    m->now.kinds[number] = (uint8_t)kind;
    m->now.values[number] = (int32_t)value;
    return value == (int32_t)value;
}

static bool restore(struct machine *m, uint64_t number)
{
    if (number >= REGISTERS)
        return true;
    return set(m, number, m->initial.kinds[number], m->initial.values[number]);
}

static bool set_cfa(struct machine *m, uint64_t number, int64_t value)
{
    m->now.cfa_is_expression = false;
    m->now.cfa_register = (uint8_t)number;
    m->now.cfa_value = (int32_t)value;
    return number < REGISTERS && value == (int32_t)value;
}

/* Notes where an expression is, its size in front. */
static int64_t pass_expression(struct cursor *c)
{
    size_t at = c->at;
    cursor_skip(c, cursor_uleb(c));
    return (int64_t)at;
}

static bool set_cfa_expression(struct machine *m, struct cursor *c)
{
    int64_t at = pass_expression(c);
    bool fits = set_cfa(m, 0, at);
    m->now.cfa_is_expression = true;
    return fits;
}

static bool remember(struct machine *m)
{
    if (m->depth == REMEMBERED)
        return false;
    m->remembered[m->depth++] = m->now;
    return true;
}

static bool recall(struct machine *m)
{
    if (m->depth == 0)
        return false;
    m->now = m->remembered[--m->depth];
    return true;
}

static bool advance(struct machine *m, uint64_t steps)
{
    m->at += steps * m->entry->code_step;
    return true;
}

/* Counted in steps of data; wraps around if it makes no sense. */
static int64_t in_steps(const struct machine *m, uint64_t count)
{
    return (int64_t)(count * (uint64_t)m->entry->data_step);
}

/* Instructions whose operands are apart; false: makes no sense. */
static bool long_instruction(struct machine *m, struct cursor *c, uint8_t code)
{
    uint64_t number;
    switch (code) {
    case 0x00: /* nop */
        return true;
    case 0x01: /* set_loc */
        m->at = pointer(m->t, c, m->entry->encoding);
        return true;
    case 0x02: /* advance_loc1 */
        return advance(m, cursor_fixed(c, 1));
    case 0x03: /* advance_loc2 */
        return advance(m, cursor_fixed(c, 2));
    case 0x04: /* advance_loc4 */
        return advance(m, cursor_fixed(c, 4));
    case 0x05: /* offset_extended */
        number = cursor_uleb(c);
        return set(m, number, RULE_AT, in_steps(m, cursor_uleb(c)));
    case 0x06: /* restore_extended */
        return restore(m, cursor_uleb(c));
    case 0x07: /* undefined */
        return set(m, cursor_uleb(c), RULE_UNKNOWN, 0);
    case 0x08: /* same_value */
        return set(m, cursor_uleb(c), RULE_SAME, 0);
    case 0x09: /* register */
        number = cursor_uleb(c);
        return set(m, number, RULE_REGISTER, (int64_t)cursor_uleb(c));
    case 0x0a: /* remember_state */
        return remember(m);
    case 0x0b: /* restore_state */
        return recall(m);
    case 0x0c: /* def_cfa */
        number = cursor_uleb(c);
        return set_cfa(m, number, (int64_t)cursor_uleb(c));
    case 0x0d: /* def_cfa_register */
        return !m->now.cfa_is_expression && set_cfa(m, cursor_uleb(c), m->now.cfa_value);
    case 0x0e: /* def_cfa_offset */
        return !m->now.cfa_is_expression &&
               set_cfa(m, m->now.cfa_register, (int64_t)cursor_uleb(c));
    case 0x0f: /* def_cfa_expression */
        return set_cfa_expression(m, c);
    case 0x10: /* expression */
        number = cursor_uleb(c);
        return set(m, number, RULE_AT_EXPRESSION, pass_expression(c));
    case 0x11: /* offset_extended_sf */
        number = cursor_uleb(c);
        return set(m, number, RULE_AT, in_steps(m, (uint64_t)cursor_sleb(c)));
    case 0x12: /* def_cfa_sf */
        number = cursor_uleb(c);
        return set_cfa(m, number, in_steps(m, (uint64_t)cursor_sleb(c)));
    case 0x13: /* def_cfa_offset_sf */
        return !m->now.cfa_is_expression &&
               set_cfa(m, m->now.cfa_register, in_steps(m, (uint64_t)cursor_sleb(c)));
    case 0x14: /* val_offset */
        number = cursor_uleb(c);
        return set(m, number, RULE_IS, in_steps(m, cursor_uleb(c)));
    case 0x15: /* val_offset_sf */
        number = cursor_uleb(c);
        return set(m, number, RULE_IS, in_steps(m, (uint64_t)cursor_sleb(c)));
    case 0x16: /* val_expression */
        number = cursor_uleb(c);
        return set(m, number, RULE_IS_EXPRESSION, pass_expression(c));
    case 0x2e: /* GNU_args_size: for those who unwind for good */
        (void)cursor_uleb(c);
        return true;
    case 0x2f: /* GNU_negative_offset_extended */
        number = cursor_uleb(c);
        return set(m, number, RULE_AT, in_steps(m, 0 - cursor_uleb(c)));
    default:
        return false;
    }
}

static bool instruction(struct machine *m, struct cursor *c)
{
    uint8_t byte = cursor_byte(c), operand = byte & 0x3f;
    bool sound;
    if (byte >> 6 == 1)
        sound = advance(m, operand);
    else if (byte >> 6 == 2)
        sound = set(m, operand, RULE_AT, in_steps(m, cursor_uleb(c)));
    else if (byte >> 6 == 3)
        sound = restore(m, operand);
    else
        sound = long_instruction(m, c, byte);
    return sound && !c->bad;
}

/* Up to the instruction of the program at `pc`, whose rules are then `now`. */
static bool run(struct machine *m, struct cursor c, uintptr_t pc)
{
    while (c.at < c.end && m->at <= pc)
        if (!instruction(m, &c))
            return false;
    return true;
}

bool tables_rules(const struct tables *t, uintptr_t pc, struct rules *rules)
{
    size_t at;
    struct entry entry;
    struct machine m = {.t = t, .entry = &entry};
    if (t->bytes == NULL || t->size > INT32_MAX || !find_record(t, pc, &at) ||
        !read_entry(t, at, pc, &entry, &m.at))
        return false;
    if (!run(&m, entry.common, UINTPTR_MAX))
        return false;
    m.initial = m.now;
    if (!run(&m, entry.program, pc))
        return false;
    *rules = m.now;
    rules->signal = entry.signal;
    return true;
}
