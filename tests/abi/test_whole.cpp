// Optimised as a whole, and linked with the static library: a program of which the compiler says that it needs operator new, and not that
// it needs free, a function built into the compiler. With free of another library it ends.
#include <cstdlib>

void operator delete(void *p) noexcept
{
    free(p);
}

int main()
{
    int *volatile block = new int;
    operator delete(block);
    return 0;
}
