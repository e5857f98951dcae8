#include "profile/unwind.h"

#include "base/atomic.h"

#define BIT(number) (1u << (number))

/* ---- frame pointers ---- */

/* Pointers may be signed there. */
#if defined(__aarch64__)
#define ADDRESS_MASK (((uintptr_t)1 << 48) - 1)
#else
#define ADDRESS_MASK UINTPTR_MAX
#endif

/* Where programs have code: no null pointer with an offset, nothing of the kernel's. */
static bool may_be_code(uintptr_t pc, const struct reach *reach)
{
    return pc >= 0x1000 && pc >> 47 == 0 && (pc < reach->low || pc >= reach->high);
}

enum step unwind_by_pointer(struct frame *f, struct reach *reach)
{
    uintptr_t *values = f->registers.values, at = values[REGISTER_BP], next, pc;
    if (!register_known(&f->registers, REGISTER_BP) || at < values[REGISTER_SP] ||
        !reach_covers(reach, at, 2 * sizeof at))
        return STEP_LAST;
    next = reach_load(at);
    pc = reach_load(at + sizeof at) & ADDRESS_MASK;
    if (!may_be_code(pc, reach))
        return STEP_LAST;
    values[REGISTER_BP] = next;
    values[REGISTER_SP] = at + 2 * sizeof at;
    values[REGISTER_PC] = pc;
    f->registers.known = BIT(REGISTER_BP) | BIT(REGISTER_SP) | BIT(REGISTER_PC);
    f->interrupted = false;
    return STEP_TAKEN;
}

#if defined(__x86_64__)

/* ---- rules in one word ---- */

/* What a function that was called leaves as it was: rbx, rbp, r12 to r15. */
static const uint8_t preserved[] = {3, REGISTER_BP, 12, 13, 14, 15};
enum { PRESERVED = sizeof preserved };
#define PRESERVED_BITS 0xf048u

/* Nearly all frames are of one form: CFA is rsp or rbp plus a number of words, the return address is just below,
 * and preserved registers are untouched or some words below. */
#define FORM_USED ((uint64_t)1 << 63)
#define FORM_OUTERMOST ((uint64_t)1 << 62)
#define FORM_FROM_BP ((uint64_t)1 << 61)
enum { SLOT_BITS = 6, SLOT_MASK = 63, OFFSET_SHIFT = PRESERVED * SLOT_BITS };
#define OFFSET_MASK (((uint64_t)1 << 20) - 1) /* in words */

static bool slot_of(const struct rules *r, uint8_t number, uint64_t *slot)
{
    int32_t value = r->values[number];
    *slot = 0;
    if (r->kinds[number] == RULE_SAME)
        return true;
    if (r->kinds[number] != RULE_AT || value >= 0 || value % 8 != 0 || value / -8 > SLOT_MASK)
        return false;
    *slot = (uint64_t)(value / -8);
    return true;
}

/* 0: has another form. */
static uint64_t pack(const struct rules *r)
{
    uint64_t word = FORM_USED, slot;
    if (r->signal || r->cfa_is_expression || r->kinds[REGISTER_SP] != RULE_SAME)
        return 0;
    if (r->kinds[REGISTER_PC] == RULE_UNKNOWN)
        return word | FORM_OUTERMOST;
    if (r->cfa_register == REGISTER_BP)
        word |= FORM_FROM_BP;
    else if (r->cfa_register != REGISTER_SP)
        return 0;
    uint64_t offset = (uint64_t)(int64_t)r->cfa_value / 8;
    if (!slot_of(r, REGISTER_PC, &slot) || slot != 1 || r->cfa_value % 8 != 0 ||
        offset > OFFSET_MASK)
        return 0;
    word |= offset << OFFSET_SHIFT;
    for (unsigned i = 0; i < PRESERVED; i++) {
        if (!slot_of(r, preserved[i], &slot))
            return 0;
        word |= slot << i * SLOT_BITS;
    }
    return word;
}

static HAK_COLD bool apply_form(struct frame *f, struct reach *reach, uint64_t word)
{
    struct registers *now = &f->registers, new = *now;
    uint8_t base = word & FORM_FROM_BP ? REGISTER_BP : REGISTER_SP;
    uintptr_t cfa = now->values[base] + 8 * (word >> OFFSET_SHIFT & OFFSET_MASK);
    if (word & FORM_OUTERMOST || !register_known(now, base) || cfa <= now->values[REGISTER_SP])
        return false;
    new.known = (now->known & PRESERVED_BITS) | BIT(REGISTER_SP) | BIT(REGISTER_PC);
    for (unsigned i = 0; i < PRESERVED; i++) {
        uint64_t slot = word >> i * SLOT_BITS & SLOT_MASK;
        if (slot == 0)
            continue;
        if (!reach_read(reach, cfa - 8 * slot, &new.values[preserved[i]]))
            return false;
        new.known |= BIT(preserved[i]);
    }
    if (!reach_read(reach, cfa - 8, &new.values[REGISTER_PC]))
        return false;
    new.values[REGISTER_SP] = cfa;
    *now = new;
    f->interrupted = false;
    return true;
}

/* ---- rules of any form ---- */

static bool cfa_of(const struct frame *f, const struct rules *r, struct reach *reach,
                   uintptr_t *cfa)
{
    const struct registers *now = &f->registers;
    if (r->cfa_is_expression)
        return expression_value(&f->object.tables, (size_t)r->cfa_value, now, reach, NULL, cfa);
    if (!register_known(now, r->cfa_register))
        return false;
    *cfa = now->values[r->cfa_register] + (uintptr_t)(intptr_t)r->cfa_value;
    return true;
}

/* The caller's value of one register; false: it is not known. */
static bool apply_rule(const struct frame *f, const struct rules *r, unsigned number,
                       struct reach *reach, uintptr_t cfa, uintptr_t *value)
{
    const struct registers *now = &f->registers;
    const struct tables *t = &f->object.tables;
    uintptr_t operand = (uintptr_t)(intptr_t)r->values[number], at;
    switch (r->kinds[number]) {
    case RULE_SAME:
        *value = now->values[number];
        return register_known(now, number) && (r->signal || (PRESERVED_BITS >> number & 1) != 0);
    case RULE_AT:
        return reach_read(reach, cfa + operand, value);
    case RULE_IS:
        *value = cfa + operand;
        return true;
    case RULE_REGISTER:
        *value = register_known(now, operand) ? now->values[operand] : 0;
        return register_known(now, operand);
    case RULE_AT_EXPRESSION:
        return expression_value(t, operand, now, reach, &cfa, &at) && reach_read(reach, at, value);
    case RULE_IS_EXPRESSION:
        return expression_value(t, operand, now, reach, &cfa, value);
    default:
        return false;
    }
}

static HAK_COLD HAK_NOINLINE bool apply_rules(struct frame *f, const struct rules *r,
                                              struct reach *reach)
{
    struct registers new = {.known = 0};
    uintptr_t cfa;
    if (!cfa_of(f, r, reach, &cfa))
        return false;
    for (unsigned i = 0; i < REGISTERS; i++)
        if (apply_rule(f, r, i, reach, cfa, &new.values[i]))
            new.known |= BIT(i);
    if (r->kinds[REGISTER_SP] == RULE_SAME) {
        new.values[REGISTER_SP] = cfa;
        new.known |= BIT(REGISTER_SP);
    }
    uintptr_t sp = new.values[REGISTER_SP];
    if (!register_known(&new, REGISTER_PC) || !register_known(&new, REGISTER_SP))
        return false;
    if (r->signal)
        reach_move(reach, sp);
    else if (sp <= f->registers.values[REGISTER_SP])
        return false;
    f->registers = new;
    f->interrupted = r->signal;
    return true;
}

/* ---- what has been looked up before ---- */

/* An entry is two words that other threads may be writing: it counts if they fit together. The object is
 * in the key, so that what a library leaves behind does not serve the next one at its place. */
enum { REMEMBERED_SHIFT = 10 };
static struct {
    _Atomic uint64_t check, form;
} remembered[1 << REMEMBERED_SHIFT];

static uint64_t key_of(const struct frame *f, uintptr_t pc)
{
    return (pc ^ (uint64_t)f->object.tables.header << 48 ^ (uint64_t)f->object.tables.size << 32) *
           0x9e3779b97f4a7c15u;
}

static uint64_t recall(uint64_t key)
{
    size_t i = key >> (64 - REMEMBERED_SHIFT);
    uint64_t form = load_relaxed(&remembered[i].form);
    return (load_relaxed(&remembered[i].check) ^ form) == key ? form : 0;
}

static void remember(uint64_t key, uint64_t form)
{
    size_t i = key >> (64 - REMEMBERED_SHIFT);
    store_relaxed(&remembered[i].form, form);
    store_relaxed(&remembered[i].check, key ^ form);
}

/* ---- tables ---- */

static HAK_COLD HAK_NOINLINE enum step by_rules(struct frame *f, struct reach *reach, uint64_t key)
{
    struct rules rules;
    if (!tables_rules(&f->object.tables, frame_place(f), &rules))
        return STEP_WITHOUT_TABLES;
    uint64_t form = pack(&rules);
    if (form != 0)
        remember(key, form);
    bool applied = form != 0 ? apply_form(f, reach, form) : apply_rules(f, &rules, reach);
    return applied ? STEP_TAKEN : STEP_LAST;
}

static enum step step_by_tables(struct frame *f, struct reach *reach)
{
    if (!object_find(&f->object, frame_place(f)))
        return STEP_WITHOUT_TABLES;
    uint64_t key = key_of(f, frame_place(f));
    uint64_t form = recall(key);
    if (form == 0)
        return by_rules(f, reach, key);
    return apply_form(f, reach, form) ? STEP_TAKEN : STEP_LAST;
}

HAK_COLD enum step unwind_by_tables(struct frame *f, struct reach *reach)
{
    enum step step = step_by_tables(f, reach);
    return step == STEP_TAKEN && !may_be_code(frame_pc(f), reach) ? STEP_LAST : step;
}

#else

enum step unwind_by_tables(struct frame *f, struct reach *reach)
{
    return unwind_by_pointer(f, reach);
}

#endif
