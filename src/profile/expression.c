#include "profile/expression.h"

#include "profile/cursor.h"

/* Real ones have about ten operations and a depth of three. */
enum { DEPTH = 16, OPERATIONS = 256 };

struct evaluation {
    const struct registers *registers;
    struct reach *reach;
    uintptr_t stack[DEPTH];
    size_t depth;
    bool bad;
};

static void push(struct evaluation *e, uintptr_t value)
{
    if (e->depth == DEPTH)
        e->bad = true;
    else
        e->stack[e->depth++] = value;
}

/* The value `below` the top. */
static uintptr_t pick(struct evaluation *e, size_t below)
{
    if (below < e->depth)
        return e->stack[e->depth - 1 - below];
    e->bad = true;
    return 0;
}

static uintptr_t pop(struct evaluation *e)
{
    uintptr_t value = pick(e, 0);
    e->depth -= e->depth != 0;
    return value;
}

static void push_register(struct evaluation *e, uint64_t number, int64_t offset)
{
    if (register_known(e->registers, number))
        push(e, e->registers->values[number] + (uintptr_t)offset);
    else
        e->bad = true;
}

/* The `size` low bytes of what is at an address: within one word, as the stack is read by words. */
static uintptr_t fetch(struct evaluation *e, uintptr_t at, size_t size)
{
    uintptr_t word = 0, offset = at % sizeof word;
    if (size == 0 || offset + size > sizeof word || !reach_read(e->reach, at - offset, &word)) {
        e->bad = true;
        return 0;
    }
    word >>= 8 * offset;
    return size == sizeof word ? word : word & (((uintptr_t)1 << 8 * size) - 1);
}

static uintptr_t divide(struct evaluation *e, uintptr_t a, uintptr_t b)
{
    if (b == 0 || (b == UINTPTR_MAX && a == (uintptr_t)INTPTR_MIN)) {
        e->bad = true;
        return 0;
    }
    return (uintptr_t)((intptr_t)a / (intptr_t)b);
}

static uintptr_t modulo(struct evaluation *e, uintptr_t a, uintptr_t b)
{
    if (b == 0) {
        e->bad = true;
        return 0;
    }
    return a % b;
}

static uintptr_t shift_right_signed(uintptr_t a, uintptr_t b)
{
    if (b >= 63)
        return (intptr_t)a < 0 ? UINTPTR_MAX : 0;
    return (uintptr_t)((intptr_t)a >> b);
}

/* Two operands, `b` from the top. */
static uintptr_t compute(struct evaluation *e, uint8_t code, uintptr_t a, uintptr_t b)
{
    intptr_t left = (intptr_t)a, right = (intptr_t)b;
    switch (code) {
    case 0x1a:
        return a & b;
    case 0x1b:
        return divide(e, a, b);
    case 0x1c:
        return a - b;
    case 0x1d:
        return modulo(e, a, b);
    case 0x1e:
        return a * b;
    case 0x21:
        return a | b;
    case 0x22:
        return a + b;
    case 0x24:
        return b < 64 ? a << b : 0;
    case 0x25:
        return b < 64 ? a >> b : 0;
    case 0x26:
        return shift_right_signed(a, b);
    case 0x27:
        return a ^ b;
    case 0x29:
        return left == right;
    case 0x2a:
        return left >= right;
    case 0x2b:
        return left > right;
    case 0x2c:
        return left <= right;
    case 0x2d:
        return left < right;
    case 0x2e:
        return left != right;
    default:
        e->bad = true;
        return 0;
    }
}

/* Constants: their size is in the code; odd codes are signed. */
static void constant(struct evaluation *e, struct cursor *c, uint8_t code)
{
    if (code == 0x10)
        push(e, cursor_uleb(c));
    else if (code == 0x11)
        push(e, (uintptr_t)cursor_sleb(c));
    else if (code % 2 == 0)
        push(e, cursor_fixed(c, (size_t)1 << (code - 0x08) / 2));
    else
        push(e, (uintptr_t)cursor_signed(c, (size_t)1 << (code - 0x08) / 2));
}

/* 0x2f: always; 0x28: unless the top is zero. */
static void jump(struct evaluation *e, struct cursor *c, size_t start, bool always)
{
    int64_t distance = cursor_signed(c, 2), to = (int64_t)c->at + distance;
    if (!always && pop(e) == 0)
        return;
    if (to < (int64_t)start || to > (int64_t)c->end)
        e->bad = true;
    else
        c->at = (size_t)to;
}

static void rotate(struct evaluation *e)
{
    uintptr_t top = pop(e), second = pop(e), third = pop(e);
    push(e, top);
    push(e, third);
    push(e, second);
}

static void swap(struct evaluation *e)
{
    uintptr_t top = pop(e), second = pop(e);
    push(e, top);
    push(e, second);
}

static void shuffle(struct evaluation *e, struct cursor *c, uint8_t code)
{
    if (code == 0x12) /* dup */
        push(e, pick(e, 0));
    else if (code == 0x13) /* drop */
        (void)pop(e);
    else if (code == 0x14) /* over */
        push(e, pick(e, 1));
    else if (code == 0x15) /* pick */
        push(e, pick(e, cursor_byte(c)));
    else if (code == 0x16)
        swap(e);
    else
        rotate(e);
}

static void operate(struct evaluation *e, struct cursor *c, uint8_t code)
{
    uintptr_t a, b;
    switch (code) {
    case 0x03: /* addr */
        push(e, cursor_fixed(c, 8));
        return;
    case 0x06: /* deref */
        push(e, fetch(e, pop(e), sizeof(uintptr_t)));
        return;
    case 0x94: /* deref_size */
        push(e, fetch(e, pop(e), cursor_byte(c)));
        return;
    case 0x19: /* abs */
        a = pop(e);
        push(e, (intptr_t)a < 0 ? 0 - a : a);
        return;
    case 0x1f: /* neg */
        push(e, 0 - pop(e));
        return;
    case 0x20: /* not */
        push(e, ~pop(e));
        return;
    case 0x23: /* plus_uconst */
        push(e, pop(e) + cursor_uleb(c));
        return;
    case 0x92: /* bregx */
        a = cursor_uleb(c);
        push_register(e, a, cursor_sleb(c));
        return;
    case 0x96: /* nop */
        return;
    default:
        b = pop(e);
        a = pop(e);
        push(e, compute(e, code, a, b));
    }
}

static void next(struct evaluation *e, struct cursor *c, size_t start)
{
    uint8_t code = cursor_byte(c);
    if (code >= 0x30 && code <= 0x4f)
        push(e, code - 0x30u);
    else if (code >= 0x70 && code <= 0x8f)
        push_register(e, code - 0x70u, cursor_sleb(c));
    else if (code >= 0x08 && code <= 0x11)
        constant(e, c, code);
    else if (code >= 0x12 && code <= 0x17)
        shuffle(e, c, code);
    else if (code == 0x2f || code == 0x28)
        jump(e, c, start, code == 0x2f);
    else
        operate(e, c, code);
    e->bad |= c->bad;
}

bool expression_value(const struct tables *t, size_t at, const struct registers *registers,
                      struct reach *reach, const uintptr_t *first, uintptr_t *value)
{
    struct evaluation e = {.registers = registers, .reach = reach};
    struct cursor c = {t->bytes, at, t->size, at > t->size};
    c = cursor_block(&c, cursor_uleb(&c));
    size_t start = c.at;
    if (first != NULL)
        push(&e, *first);
    e.bad = c.bad;
    for (int i = 0; !e.bad && c.at < c.end; i++) {
        next(&e, &c, start);
        e.bad |= i == OPERATIONS;
    }
    *value = pop(&e);
    return !e.bad;
}
