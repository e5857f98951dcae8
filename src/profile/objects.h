/* Which loaded object an address of code is in. */
#ifndef HAK_OBJECTS_H
#define HAK_OBJECTS_H

#include "profile/tables.h"

struct object {
    uintptr_t start, end; /* the segment of code */
    struct tables tables; /* bytes: NULL if it has none */
};

/* Whether some object's code is there. An object found before is looked at first: zero it to begin with. */
bool object_find(struct object *o, uintptr_t pc);

/* The same in the two ways that there are, for C libraries with _dl_find_object and for those without. */
bool object_find_at_once(struct object *o, uintptr_t pc);
bool object_find_in_list(struct object *o, uintptr_t pc);

/* Whether code is there; where that cannot be said without the loader's lock, it is taken for granted. Of the object
 * only where its code is. */
bool object_is_code(struct object *o, uintptr_t pc);

/* Whether it is this library's own code. */
bool object_is_own(uintptr_t pc);

#endif
