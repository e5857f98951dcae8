#include "profile/stack.h"

#include "profile/unwind.h"

/* Own frames in one call of malloc are few. */
enum { OWN_FRAMES = 32 };

/* Where the calling function is. */
HAK_INLINE void start_here(struct frame *f)
{
    *f = (struct frame){.interrupted = true};
    uintptr_t *values = f->registers.values;
#if defined(__x86_64__)
    __asm__ volatile("movq %%rbx, 3*8(%0)\n\t"
                     "movq %%rbp, 6*8(%0)\n\t"
                     "movq %%rsp, 7*8(%0)\n\t"
                     "movq %%r12, 12*8(%0)\n\t"
                     "movq %%r13, 13*8(%0)\n\t"
                     "movq %%r14, 14*8(%0)\n\t"
                     "movq %%r15, 15*8(%0)\n\t"
                     "leaq 0(%%rip), %%rax\n\t"
                     "movq %%rax, 16*8(%0)"
                     :
                     : "r"(values)
                     : "rax", "memory");
    f->registers.known = 0x1f0c8;
#else
    values[REGISTER_BP] = values[REGISTER_SP] = (uintptr_t)__builtin_frame_address(0);
    values[REGISTER_PC] = (uintptr_t)stack_capture;
    f->registers.known = 1u << REGISTER_BP | 1u << REGISTER_SP | 1u << REGISTER_PC;
#endif
}

/* Own frames have frame pointers (cmake/flags.cmake). Whoever goes on by tables needs all registers as the program
 * had them, and so leaves them by tables as well. */
static bool leave_own(struct frame *f, struct reach *reach, bool by_tables)
{
    for (int i = 0; object_is_own(frame_place(f)); i++) {
        enum step step = by_tables ? unwind_by_tables(f, reach) : unwind_by_pointer(f, reach);
        if (i == OWN_FRAMES || step != STEP_TAKEN)
            return false;
    }
    return true;
}

static enum step to_caller(struct frame *f, struct reach *reach, bool by_tables)
{
    enum step step = by_tables ? unwind_by_tables(f, reach) : STEP_WITHOUT_TABLES;
    return step == STEP_WITHOUT_TABLES ? unwind_by_pointer(f, reach) : step;
}

static bool is_code(struct frame *f, bool by_tables)
{
    uintptr_t place = frame_place(f);
    return by_tables ? object_find(&f->object, place) : object_is_code(&f->object, place);
}

/* Addresses that are in no object may be code made at run time, or what a wrong frame pointer leads to: they
 * count if they lead to code that is. */
static uint32_t walk(struct frame *f, struct reach *reach, uintptr_t *out, uint32_t most,
                     bool by_tables)
{
    uint32_t count = 0, sure = 1;
    for (;;) {
        out[count++] = frame_pc(f) + f->interrupted;
        if (is_code(f, by_tables))
            sure = count;
        if (count == most || to_caller(f, reach, by_tables) != STEP_TAKEN)
            return sure;
    }
}

HAK_NOINLINE uint32_t stack_capture(uintptr_t *out, uint32_t most, bool by_tables)
{
    struct frame f;
    struct reach reach;
    start_here(&f);
    reach_start(&reach, f.registers.values[REGISTER_SP]);
    return most != 0 && leave_own(&f, &reach, by_tables) ? walk(&f, &reach, out, most, by_tables)
                                                         : 0;
}
