/* Pages that move. What lies apart in the cache and is wanted in one piece comes together by moving pages, not bytes: a mapping costs one
 * call, where the new pages of a granule would cost 512 faults. So does what other kinds of memory have free, and a block that
 * grows moves so. What has moved lies in mappings of its own, of which a process may not have many: marks say where.
 *
 * The lock of big blocks is here, where it is needed first: it guards the marks, the cache and hak_big.
 * Calls: os. Called by: big. */
#ifndef HAK_MOVED_H
#define HAK_MOVED_H

#include "big/big.h"

/* False: a handler has interrupted its holder. */
bool big_take_lock(void);
void big_release_lock(void);

/* Numbers that the lock guards need no read-modify-write. */
HAK_INLINE void add_locked(_Atomic size_t *number, size_t n)
{
    store_relaxed(number, load_relaxed(number) + n);
}

/* `done` granules have moved, and `more` ones are part of the last one's mapping; of the place they were to move to `lost` ones behind
 * those could not be mapped again. */
struct moving {
    size_t done, more, lost;
};

/* Moves n granules, as much at a time as is one mapping. The last ones' takes `more` granules behind them in, if the kernel lets it: at the
 * target, where nothing is yet. Without the lock. */
struct moving move_granules(size_t from, size_t to, size_t n, size_t more);

/* Marks what that has moved, which stays where it is. Without the lock. */
void moved_note(size_t from, size_t to, struct moving m);

/* Clears the marks of n granules; whether any was moved. Without the lock. */
bool moved_forget(size_t granule, size_t n);

/* With the lock held. */
bool moved_is(size_t granule);

/* Too many mappings are what has moved: nothing more is to be. */
bool moved_too_often(void);

#endif
