/* A plugin that gives blocks away and takes others'. */
#include <stdlib.h>

void *plugin_give(size_t size);
void plugin_take(void *p);
void *(*plugin_malloc(void))(size_t size);

void *plugin_give(size_t size)
{
    return malloc(size);
}

void plugin_take(void *p)
{
    free(p);
}

void *(*plugin_malloc(void))(size_t size)
{
    return malloc;
}
