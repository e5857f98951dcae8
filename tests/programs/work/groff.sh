# Formats tables, equations and macros to text, PostScript and HTML.
set -eu
seq 300 | awk 'BEGIN { print ".TH EXAMPLE 7 2023-11-14\n.SH NAME\nexample \\- a page" }
    {
        print ".SH SECTION " $1 "\n.PP\nSome \\fBbold\\fP text that is filled and hyphenated, number " $1 "."
        print ".TP\n.B \\-\\-option" $1 "\nExplains what the option does, over more than one line of output."
        if ($1 % 10 == 0) print ".TS\nallbox;\nl c r.\na\tb\t" $1 "\nlonger\tx\ty\n.TE"
        if ($1 % 15 == 0) print ".EQ\nx sub " $1 " = { a over b } sup 2 + sqrt { y }\n.EN"
    }' >page.7
groff -t -e -man -Tutf8 -P-c page.7 >out/text
groff -t -e -man -Tps page.7 >out/page.ps
groff -t -e -man -Tdvi page.7 >out/page.dvi
wc -l out/text
