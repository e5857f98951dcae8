# Draws PostScript pages, makes PDF of them, and renders that at two resolutions.
set -eu
cat >pages.ps <<'END'
%!PS
/page { /n exch def
    /Helvetica findfont 9 n add scalefont setfont
    0 1 60 { dup 12 mul 40 add 40 exch moveto (line ) show n 100 mul add 20 string cvs show } for
    0 6 354 { gsave 300 400 translate rotate n 12 div .4 .7 setrgbcolor
        0 0 moveto 150 20 200 90 n 18 mul 5 curveto closepath fill grestore } for
    /a [ 1 1 400 { n mul 31 mod } for ] def
    0 1 399 { dup a exch get 3 mul 200 add exch 1.4 mul exch moveto 2 0 rlineto stroke } for
    showpage } def
1 1 8 { page } for
/words 500 dict def 0 1 400 { dup 30 string cvs cvn exch words 3 1 roll put } for words length =
END
gs -q -dNOPAUSE -dBATCH -sDEVICE=pdfwrite -dCompressPages=true -sOutputFile=all.pdf pages.ps
gs -q -dNOPAUSE -dBATCH -sDEVICE=png16m -r110 -sOutputFile=out/page%d.png all.pdf
gs -q -dNOPAUSE -dBATCH -sDEVICE=pbmraw -r60 -sOutputFile=out/small%d.pbm pages.ps
gs -q -dNOPAUSE -dBATCH -sDEVICE=txtwrite -sOutputFile=out/text all.pdf
