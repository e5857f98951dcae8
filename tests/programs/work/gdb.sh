# Reads debugging information of a generated program, then runs it with breakpoints and scripts.
set -eu
sh "$WORK/lib/make_c.sh" 1 25 >many.c
echo 'int main(void) { return work_3(5) == 0; }' >>many.c
sed -i 's/^unsigned work_/unsigned __attribute__((noinline)) work_/' many.c
gcc -g -O0 -o many many.c
cat >script.gdb <<'END'
set disable-randomization off
set pagination off
set width 0
set confirm off
ptype struct node
info functions work_
info scope many.c:30
list work_7
info line classify_9
python print(sum(len(s.name) for s in gdb.lookup_global_symbol("main").symtab.global_block()))
break classify_3 if n->tags[0] % 2 == 1
commands
silent
print *n->tags@6
print n->name
bt
continue
end
break work_3
run
print rounds * 3
up
continue
END
gdb -nx -batch -x script.gdb many 2>&1
