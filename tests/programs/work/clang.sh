# Compiles C at -O2, emits its LLVM IR, and analyses it.
set -eu
sh "$WORK/lib/make_c.sh" 1 60 >many.c
clang -O2 -c many.c -o out/many.o
clang -O1 -S -emit-llvm many.c -o out/many.ll
clang -fsyntax-only -Xclang -ast-dump -fno-color-diagnostics many.c | sed 's/0x[0-9a-f]*//g' |
    sha256sum
sh "$WORK/lib/make_c.sh" 1 3 >few.c
clang --analyze -Xanalyzer -analyzer-output=text few.c -o out/report.txt 2>&1
