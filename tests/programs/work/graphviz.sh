# Lays out graphs with four engines and renders them. With several clusters dot's output depends on where its blocks lie, also where
# all of them are the C library's.
set -eu
awk 'BEGIN {
    print "digraph g { rankdir=LR; node [shape=box]; "
    for (i = 0; i < 160; i++) {
        printf "n%d [label=\"node %d\\n%d\"];\n", i, i, i * i
        printf "n%d -> n%d [label=\"e%d\"];\n", i, i * 7 % 160, i
        if (i % 3 == 0) printf "n%d -> n%d;\n", i, (i * i + 5) % 160
    }
    print "subgraph cluster_0 { n0; n8; n16; }"
    print "}" }' >graph.gv
dot -Tsvg graph.gv -o out/dot.svg
dot -Tplain graph.gv
neato -Tjson graph.gv -o out/neato.json
circo -Tdot graph.gv -o out/circo.gv
sed '/cluster/d' graph.gv | twopi -Tps -o out/twopi.ps
dot -Tpng graph.gv -o out/dot.png
