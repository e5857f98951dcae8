# Edits a large file in batch mode: substitutions, sorting, undo, registers, folds and scripts.
set -eu
sh "$WORK/lib/sample.sh" 20000 >text
cat >edit.vim <<'END'
set nocompatible undolevels=1000 noswapfile viminfo=
edit text
%s/word\(\d\+\) word\(\d\+\)/\2:\1/ge
g/7 word1\>/m0
%sort n /:/
w! out/first
undo
silent! 1,300normal Iab
%!sort -k2 -s
let n = {}
for line in getline(1, '$')
    for w in split(line)
        let n[w] = get(n, w, 0) + 1
    endfor
endfor
call writefile(sort(map(items(n), 'v:val[0] . " " . v:val[1]')), 'out/words')
earlier 100
w! out/second
new
call setline(1, map(range(5000), 'printf("%d %s", v:val, repeat("ab", v:val % 40))'))
v/5/d
%y a
put a
w! out/third
qa!
END
vim -Nu NONE -i NONE -es -S edit.vim
sha256sum out/*
