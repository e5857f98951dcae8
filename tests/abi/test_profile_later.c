/* A process that began without anything of itself to show: a profile is to be had from when it is asked for. */
#include "abi_check.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <hakmem/hakmem.h>

enum { BLOCKS = 4096, SIZE = 16384 };

static int write_profile(const char *path)
{
    return hak_ctl("profile.write", NULL, NULL, &path, sizeof path);
}

static void set(const char *name, size_t value)
{
    CHECK(hak_ctl(name, NULL, NULL, &value, sizeof value) == 0);
}

int main(void)
{
    static void *blocks[BLOCKS];
    char path[] = "/tmp/hakmem-profile-XXXXXX", start[8] = "";
    require_hakmem();
    const int file = mkstemp(path);
    CHECK(file >= 0);
    CHECK(write_profile(path) == ENODATA);
    set("opt.profile", 1);
    for (size_t i = 0; i < BLOCKS; i++) {
        CHECK_AT((blocks[i] = malloc(SIZE)) != NULL, i);
    }
    CHECK(write_profile(path) == 0);
    CHECK(read(file, start, sizeof start) == (ssize_t)sizeof start);
    CHECK(memcmp(start, "hakmem1", sizeof start) == 0);
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    close(file);
    unlink(path);
    puts("profile, later: ok");
    return 0;
}
