/* Opens a file as the first of its own, writes a line and leaves it open, and goes to another folder as a daemon does:
 * for check_at_exit.py, which starts it without standard error. */
#include "abi_check.h"

#include <fcntl.h>

int main(int argc, char **argv)
{
    require_hakmem();
    CHECK(argc == 2);
    const int file = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
    CHECK(file == STDERR_FILENO);
    CHECK(write(file, "mine\n", 5) == 5);
    free(malloc(100));
    CHECK(chdir("/") == 0);
    return 0;
}
