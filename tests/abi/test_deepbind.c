/* RTLD_DEEPBIND: blocks go to a plugin and come from one, and dlopen searches where its caller's libraries are.
 *
 *     abi_deepbind PLUGIN NAME OPENER    NAME: of the plugin, that OPENER finds
 *     abi_deepbind PLUGIN                the flag is heeded (HAKMEM_DEEPBIND=1): the plugin has another malloc */
#include "abi_check.h"

typedef void *giver(size_t size);
typedef void taker(void *p);
typedef void *(*asker(void))(size_t size);
typedef void *opener(const char *name, int mode);

static void check_blocks(void *plugin)
{
    giver *give = (giver *)dlsym(plugin, "plugin_give");
    taker *take = (taker *)dlsym(plugin, "plugin_take");
    CHECK(give != NULL && take != NULL);
    static const size_t sizes[] = {1, 100, 5000, 300000, 4 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        void *theirs = give(sizes[i]), *ours = malloc(sizes[i]);
        CHECK(theirs != NULL && ours != NULL);
        CHECK(malloc_usable_size(theirs) >= sizes[i]);
        free(theirs);
        take(ours);
    }
}

static void check_search(const char *name, const char *opener_path)
{
    void *library = dlopen(opener_path, RTLD_NOW | RTLD_DEEPBIND);
    CHECK(library != NULL);
    opener *open_by_name = (opener *)dlsym(library, "opener_open");
    CHECK(open_by_name != NULL);
    CHECK(dlopen(name, RTLD_NOW) == NULL); /* the program's search path has it not */
    CHECK(open_by_name(name, RTLD_NOW | RTLD_DEEPBIND) != NULL);
    CHECK(open_by_name(name, RTLD_NOW) != NULL);
}

int main(int argc, char **argv)
{
    require_malloc_of_hakmem();
    CHECK(argc == 2 || argc == 4);
    void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
    CHECK(plugin != NULL);
    asker *malloc_of = (asker *)dlsym(plugin, "plugin_malloc");
    CHECK(malloc_of != NULL);
    CHECK((malloc_of() == malloc) == (argc == 4));
    if (argc == 4) {
        check_blocks(plugin);
        check_search(argv[2], argv[3]);
    }
    return 0;
}
