#ifndef HAK_TESTS_CONSTRUCTOR_LIBRARY_H
#define HAK_TESTS_CONSTRUCTOR_LIBRARY_H

#include <stdbool.h>

enum { constructor_blocks = 300 };

/* Whether all blocks that the library's constructor has allocated hold what it wrote. */
bool constructor_blocks_intact(void);

#endif
