/* Blocks from a library's constructor live through main and are freed by its destructor. */
#include "abi_check.h"
#include "constructor_library.h"

enum { churn_rounds = 20000 };

int main(void)
{
    require_hakmem();
    CHECK(constructor_blocks_intact());
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
