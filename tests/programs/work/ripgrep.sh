# Searches a tree of files on four threads with patterns of several kinds.
set -eu
mkdir tree
sh "$WORK/lib/sample.sh" 60000 >data
split -n l/400 -a 3 data tree/part.
rg -j4 --no-config -c 'word1[0-9]+ word3\b' tree | sort
rg -j4 --no-config -o --no-filename '\w+(77|88)\s\w+9' tree | sort | uniq -c
rg -j4 --no-config -i --sort path -n -C1 'WORD39 word8\d{3} ' tree
rg -j1 --no-config --json '7{3}' tree/part.aaa | grep -v '"elapsed' | sha256sum
rg -j4 --no-config -F --files-with-matches 'word5 word1' tree | sort | sha256sum
