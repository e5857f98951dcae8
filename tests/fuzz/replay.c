/* Runs a fuzz target on files: `replay FILE|FOLDER...`. The main of a target without a fuzzer, and of AFL++'s. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fuzz.h"

enum { INPUT_MOST = 1 << 20, PATH_MOST = 4096 };

static size_t replayed;

static void replay_file(const char *path)
{
    static uint8_t data[INPUT_MOST];
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        broken("cannot open %s", path);
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    replayed++;
}

static void replay(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        broken("there is no %s", path);
    if (!S_ISDIR(about.st_mode)) {
        replay_file(path);
        return;
    }
    struct dirent **names;
    int count = scandir(path, &names, NULL, alphasort);
    if (count < 0 && errno == ENOMEM)
        refused(0, 1);
    if (count < 0)
        broken("cannot read %s", path);
    for (int i = 0; i < count; i++) {
        char inner[PATH_MOST];
        if (names[i]->d_name[0] != '.') {
            snprintf(inner, sizeof inner, "%s/%s", path, names[i]->d_name);
            replay(inner);
        }
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    if (replayed == 0)
        broken("no inputs");
    printf("%zu inputs\n", replayed);
    return 0;
}
