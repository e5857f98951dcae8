# Counts, joins, splits and sorts words; the same program for every awk.
{
    for (i = 1; i <= NF; i++) {
        count[$i]++
        length_of[length($i)]++
    }
    gsub(/[aeiou]+/, "<&>")
    joined[NR % 500] = joined[NR % 500] " " toupper($3)
    key = substr($2, 1, 7) SUBSEP (NR % 13)
    table[key] = table[key] + NR
}
END {
    for (word in count) {
        if (count[word] > 1) print "word", word, count[word]
    }
    for (n in length_of) print "length", n, length_of[n]
    for (k in joined) print "joined", k, length(joined[k]), split(joined[k], parts, /[0-9]+/), parts[2]
    for (k in table) {
        split(k, p, SUBSEP)
        print "table", p[1], p[2], table[k]
    }
    text = "x"
    while (length(text) < 100000) text = text text
    print "text", length(text), gsub(/x/, "yz", text)
}
