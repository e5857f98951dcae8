/* Exits with 0 if hakmem's functions are in the process and malloc stands beside them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    Dl_info ours, standard;
    void *hak_malloc = dlsym(RTLD_DEFAULT, "hak_malloc");
    void *malloc = dlsym(RTLD_DEFAULT, "malloc");
    if (hak_malloc == NULL || dladdr(hak_malloc, &ours) == 0 || dladdr(malloc, &standard) == 0) {
        puts("hakmem is not loaded");
        return 1;
    }
    printf("malloc: %s\n", standard.dli_fname);
    return strcmp(ours.dli_fname, standard.dli_fname) == 0 ? 0 : 1;
}
