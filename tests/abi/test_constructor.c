/* Blocks from a library's constructor live through main and are freed by its destructor. */
#include "abi_check.h"
#include "constructor_library.h"

#include <sys/wait.h>

enum { churn_rounds = 20000, forks = 20 };

static void check_forks(void)
{
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        CHECK_AT(child >= 0, i);
        if (child == 0)
            _exit(constructor_blocks_intact() ? 0 : 1);
        int status;
        CHECK_AT(waitpid(child, &status, 0) == child && status == 0, i);
    }
}

int main(void)
{
    require_hakmem();
    CHECK(constructor_blocks_intact());
    check_forks();
    for (size_t i = 0; i < churn_rounds; i++) {
        void *block = malloc(1 + i % 9000);
        CHECK_AT(block != NULL, i);
        memset(block, 0xff, 1 + i % 9000);
        free(block);
    }
    CHECK(constructor_blocks_intact());
    puts("constructor: ok");
    return 0;
}
