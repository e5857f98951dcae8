/* A plugin that has the library in it. */
#include <hakmem/hakmem.h>

int plugin_works(void);

int plugin_works(void)
{
    char *block = hak_malloc(100);
    if (block == NULL)
        return 0;
    block[0] = 1;
    hak_free(block);
    return 1;
}
