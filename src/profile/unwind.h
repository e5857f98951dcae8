/* From a frame to its caller's. */
#ifndef HAK_UNWIND_H
#define HAK_UNWIND_H

#include "profile/expression.h"
#include "profile/objects.h"

struct frame {
    struct registers registers;
    struct object object; /* the last one that was looked up */
    bool interrupted;     /* its pc is the next instruction, not what a call returns to */
};

HAK_INLINE uintptr_t frame_pc(const struct frame *f)
{
    return f->registers.values[REGISTER_PC];
}

enum step {
    STEP_TAKEN,
    STEP_WITHOUT_TABLES, /* the code has none for this place: the frame is as it was */
    STEP_LAST            /* this is the outermost frame, or what it says makes no sense */
};

/* By the tables of the code that the frame is in. */
enum step unwind_by_tables(struct frame *f, struct reach *reach);

/* By the frame pointer, whatever is in it. */
enum step unwind_by_pointer(struct frame *f, struct reach *reach);

/* The address that tells where in its function the frame is: a call may be the last instruction. */
HAK_INLINE uintptr_t frame_place(const struct frame *f)
{
    return frame_pc(f) - !f->interrupted;
}

#endif
