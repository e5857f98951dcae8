/* As malloc and its slow path, in the library's section: an entry that calls the slow path last, as the release
 * build does by a jump. Compiled several ways; its name is ENTRY. */
#include "stack_entry.h"

#include <string.h>

#define OWN __attribute__((noinline, section("hak_text")))

OWN static uint32_t sample(uintptr_t *out, bool by_tables)
{
    uint32_t count = stack_capture(out, STACK_MOST, by_tables);
    __asm__ volatile("" ::: "memory");
    return count;
}

OWN static uint32_t slow(uintptr_t *out, bool by_tables)
{
    volatile char room[200];
    memset((char *)room, 0, sizeof room);
    uint32_t count = sample(out, by_tables);
    __asm__ volatile("" ::"r"(room) : "memory");
    return count;
}

OWN uint32_t ENTRY(uintptr_t *out, bool by_tables)
{
    entry_returns_to = (uintptr_t)__builtin_return_address(0);
    return slow(out, by_tables);
}
