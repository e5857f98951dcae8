# Compiles, assembles and links some thousands of lines at -O2, with and without LTO.
set -eu
sh "$WORK/lib/make_c.sh" 1 70 >many.c
{
    echo '#include <stdio.h>'
    seq -f 'unsigned work_%g(unsigned);' 70
    echo 'int main(void) {'
    seq -f '    printf("%%u\n", work_%g(40));' 70
    echo '}'
} >main.c
gcc -O2 -Wall -S many.c -o out/many.s
gcc -O2 -g -c many.c -o out/many.o
gcc -O1 -frandom-seed=hakmem -flto=2 -o out/lto main.c many.c
gcc -O3 -funroll-loops -fdump-tree-optimized=out/many.tree -c many.c -o out/fast.o
./out/lto
cat >wrong.c <<'END'
int f(int *p) { return p + undeclared; }
struct s { int a; } x = { .b = 3 };
END
! gcc -Wall -Wextra -c wrong.c 2>&1
