# Lays out graphs with four engines and renders them.
set -eu
awk 'BEGIN {
    print "digraph g { rankdir=LR; node [shape=box]; "
    for (i = 0; i < 160; i++) {
        printf "n%d [label=\"node %d\\n%d\"];\n", i, i, i * i
        printf "n%d -> n%d [label=\"e%d\"];\n", i, i * 7 % 160, i
        if (i % 3 == 0) printf "n%d -> n%d;\n", i, (i * i + 5) % 160
    }
    for (c = 0; c < 8; c++) printf "subgraph cluster_%d { n%d; n%d; n%d; }\n", c, c, c + 8, c + 16
    print "}" }' >graph.gv
dot -Tsvg graph.gv -o out/dot.svg
dot -Tplain graph.gv
neato -Tjson graph.gv -o out/neato.json
circo -Tdot graph.gv -o out/circo.gv
sed '/cluster/d' graph.gv | twopi -Tps -o out/twopi.ps
dot -Tpng graph.gv -o out/dot.png
