# Builds a library of sixty generated C files with four jobs, then rebuilds after a change.
set -eu
mkdir src
i=1
while [ "$i" -le 60 ]; do
    echo "int f$i(int x) { return x % $i ? x * $i : x / $i; }" >"src/f$i.c"
    i=$((i + 1))
done
{
    seq -f 'int f%g(int);' 60
    echo '#include <stdio.h>'
    echo 'int main(void) { int s = 0;'
    seq -f 's += f%g(1000 + s %% 7);' 60
    printf '%s\n' 'printf("%d\n", s); return 0; }'
} >src/main.c
cat >Makefile <<'END'
SOURCES := $(sort $(wildcard src/*.c))
OBJECTS := $(patsubst src/%.c,obj/%.o,$(SOURCES))
WORDS := $(foreach n,$(SOURCES),$(foreach m,$(SOURCES),$(notdir $(n:.c=))-$(notdir $(m:.c=))))
all: out/program out/words
out/program: $(OBJECTS)
	@gcc -o $@ $^
obj/%.o: src/%.c | obj
	@gcc -O1 -c $< -o $@
out/words:
	@echo $(words $(WORDS)) $(words $(filter %-main,$(WORDS))) $(lastword $(sort $(WORDS))) >$@
obj:
	@mkdir -p $@
END
make -j4
./out/program
echo 'int f7(int x) { return x + 7; }' >src/f7.c
touch -d '+1 minute' src/f7.c
make -j4 --output-sync
./out/program
