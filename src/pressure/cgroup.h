/* How much memory the process' control group may take and has, of either version of cgroups, from the files in which
 * the kernel shows it. A program may close every descriptor at any time, so none stays open; a file is opened, read
 * and closed by three system calls, none of which is a cancellation point here.
 *
 * Calls: os. Called by: pressure. */
#ifndef HAK_CGROUP_H
#define HAK_CGROUP_H

#include "base/base.h"

struct cgroup_room {
    size_t limit; /* SIZE_MAX: none */
    size_t used;  /* without the page cache that the kernel takes back first */
    /* Tasks of the group have waited for memory for a notable part of the last seconds. */
    bool stalled;
};

HAK_INLINE size_t room_left(struct cgroup_room room)
{
    return room.limit > room.used ? room.limit - room.used : 0;
}

/* Of the process' group and those above it the one that has least left. `anew`: looks which one that is, else at
 * the one found last. By one thread at a time. */
struct cgroup_room cgroup_look(bool anew);

#endif
