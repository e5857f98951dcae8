/* A profile in a file: a copy of the live area and what its addresses mean (live/format.h).
 *
 * Calls: live, os. Called by: front, api. */
#ifndef HAK_DUMP_H
#define HAK_DUMP_H

#include "base/base.h"

/* Why a file could not be opened or written; NULL: its number has to do. */
const char *reason_unwritten(int error);

/* Writes it to `path`, in whose text %p becomes the process id. Keeps errno, and is no cancellation point. 0, or the error: there is
 * no such file to be had, or no room for all of it (it is empty then); ENODATA: there is no area. */
int dump_profile(const char *path);

/* `path` with %p replaced by the process id. */
void path_of_process(char *out, size_t room, const char *path);

#endif
