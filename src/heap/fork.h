/* Fork: what the process has is whole in the child, and free to be used by its only thread. Takes every lock, in the order
 * of registry.h, and closes every inbox.
 *
 * Calls: registry, the locks of purge, big, pages and others below, pressure, os. Called by: front (attach). */
#ifndef HAK_FORK_H
#define HAK_FORK_H

#include <stdbool.h>

/* Around fork, in the forking thread, with signals blocked: waits for its turn, without any lock; then
 * takes all locks. False: has none, others come first. */
void fork_await(void);
bool fork_before(void);
void fork_after(bool in_child);

/* Whether this is the child of a fork, of which other threads, or what a handler had interrupted, stopped in the midst of what they
 * did: then blocks may be in use for their slabs that nobody has. */
bool fork_has_cut_short(void);

#endif
