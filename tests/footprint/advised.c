/* Where transparent huge pages are on for everything, a mapping of which nobody has said otherwise has 2 MiB wherever a
 * byte is touched. All that hakmem maps for itself and for blocks up to 1 MiB has been said something of: small pages, or
 * huge ones on purpose. That can be seen whatever the machine's setting is. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

enum { BLOCKS = 10000, HUGE_SHIFT = 21 };

static char *volatile blocks[BLOCKS];

/* More than 128 MiB: tables are mapped again; enough for samples. */
static void allocate(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc((size_t)(i % 100 + 1) * 320);
        if (blocks[i] == NULL) {
            fail("malloc gave NULL");
        }
    }
}

static bool is_private_and_written(const char *mapping)
{
    return strstr(mapping, " rw-p ") != NULL && strstr(mapping, "[stack]") == NULL &&
           strstr(mapping, "[heap]") == NULL;
}

static bool has_room(const char *mapping)
{
    uintptr_t first, end;
    return sscanf(mapping, "%lx-%lx", &first, &end) == 2 &&
           end >> HUGE_SHIFT > (first + (1 << HUGE_SHIFT) - 1) >> HUGE_SHIFT;
}

int main(void)
{
    char line[512], mapping[sizeof line] = "";
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0) {
        skip("the kernel has no transparent huge pages");
    }
    allocate();
    FILE *maps = fopen("/proc/self/smaps", "re");
    size_t large = 0;
    if (maps == NULL) {
        fail("cannot read /proc/self/smaps");
    }
    while (fgets(line, sizeof line, maps) != NULL) {
        if (strchr("0123456789abcdef", line[0]) != NULL) { /* names of fields begin with capitals */
            memcpy(mapping, line, sizeof line);
        } else if (strncmp(line, "VmFlags:", 8) == 0 && is_private_and_written(mapping) &&
                   has_room(mapping)) {
            large++;
            if (strstr(line, " nh") == NULL && strstr(line, " hg") == NULL) {
                fail("room for a huge page, and no advice: %s", mapping);
            }
        }
    }
    (void)fclose(maps);
    note("%zu mappings with room for a huge page", large);
    if (large == 0) {
        fail("none: nothing was looked at");
    }
    return 0;
}
