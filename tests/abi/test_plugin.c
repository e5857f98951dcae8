/* A program in C that loads a plugin in C++: operator new of too much throws what the plugin catches, though no C++ library is to be
 * found from where hakmem is. */
#include "abi_check.h"

int main(int argc, char **argv)
{
    require_malloc_of_hakmem();
    CHECK(argc == 2);
    CHECK(dlsym(RTLD_DEFAULT, "__cxa_throw") == NULL);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL);
    int (*catches_bad_alloc)(size_t) = (int (*)(size_t))dlsym(plugin, "catches_bad_alloc");
    int (*calls_of_handler)(size_t) = (int (*)(size_t))dlsym(plugin, "calls_of_handler");
    CHECK(catches_bad_alloc(opaque_size(SIZE_MAX / 4)) == 1);
    CHECK(calls_of_handler(opaque_size(SIZE_MAX / 4)) == 1);
    return 0;
}
