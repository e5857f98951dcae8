# Renders a picture with gradients, filters, clips and text at two sizes.
set -eu
seq 250 | awk 'BEGIN {
        print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"600\" height=\"500\"><defs>"
        print "<linearGradient id=\"g\"><stop offset=\"0\" stop-color=\"red\"/><stop offset=\"1\"/>"
        print "</linearGradient><filter id=\"f\"><feGaussianBlur stdDeviation=\"2\"/></filter></defs>"
    }
    {
        print "<circle cx=\"" $1 * 37 % 600 "\" cy=\"" $1 * 53 % 500 "\" r=\"" $1 % 40 + 3 "\" fill=\"url(#g)\""
        print " opacity=\"0.5\"" ($1 % 9 ? "/>" : " filter=\"url(#f)\"/>")
        print "<path d=\"M" $1 " 10 C 40 " $1 ", 300 " 500 - $1 ", 580 " $1 * 2 % 500 "\" stroke=\"blue\" fill=\"none\"/>"
    }
    END { print "</svg>" }' >picture.svg
rsvg-convert picture.svg -o out/picture.png
rsvg-convert -z 1.7 picture.svg -o out/large.png
rsvg-convert -f svg picture.svg | wc -c
