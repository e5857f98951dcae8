# Word counts over text, then what only gawk has: sorted traversal, arrays of arrays, big numbers.
set -eu
sh "$WORK/lib/sample.sh" 40000 >data
gawk -f "$WORK/lib/words.awk" data | sort
gawk 'BEGIN { PROCINFO["sorted_in"] = "@ind_num_asc" }
    { deep[NR % 30][$2][NR % 7]++; n[length($4)] = gensub(/([a-z]+)([0-9]+)/, "\\2\\1", "g") }
    END { for (i in deep) { c = 0; for (j in deep[i]) c += length(deep[i][j]); print i, c }
          for (i in n) print n[i]; print asorti(n, sorted), sorted[1] }' data
gawk -M 'BEGIN { x = 1; for (i = 1; i <= 1500; i++) x *= i; print x }'
