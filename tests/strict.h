/* Strict overcommit: the kernel promises no more than there is, and what runs beside a test may hold most of it. */
#ifndef HAK_TESTS_STRICT_H
#define HAK_TESTS_STRICT_H

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

/* Whether vm.overcommit_memory is 2, so that any request may be refused through no fault of the allocator's. */
static inline bool overcommit_is_strict(void)
{
    char mode = '0';
    int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    bool known = read(file, &mode, 1) == 1;
    close(file);
    return known && mode == '2';
}

#endif
