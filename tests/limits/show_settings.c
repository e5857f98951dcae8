/* Prints whether the system runs this as a set-user-ID program, and three settings of hakmem's. */
#include <hakmem/hakmem.h>
#include <stdio.h>
#include <sys/auxv.h>

static size_t setting(const char *name)
{
    size_t value = 0, size = sizeof value;
    if (hak_ctl(name, &value, &size, NULL, 0) != 0)
        fprintf(stderr, "hak_ctl knows no %s\n", name);
    return value;
}

int main(void)
{
    hak_free(hak_malloc(1)); /* a program that never allocates would not have all of the library */
    printf("secure %lu\n", getauxval(AT_SECURE));
    printf("stats %zu\n", setting("opt.stats"));
    printf("live %zu\n", setting("opt.live"));
    printf("whale_capacity %zu\n", setting("opt.whale_capacity"));
    return 0;
}
