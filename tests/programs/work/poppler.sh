# Renders, reads and converts a PDF of several pages.
set -eu
cat >pages.ps <<'END'
%!PS
/Times-Roman findfont 11 scalefont setfont
1 1 12 { /n exch def 0 1 55 { dup 13 mul 40 add 50 exch moveto (words on line ) show n mul 20 string
cvs show ( of some text that wraps) show } for n 13 div setgray 300 400 n 12 mul 0 300 arc fill showpage } for
END
ps2pdf pages.ps all.pdf
pdftotext -layout all.pdf out/layout
pdftotext -bbox all.pdf out/bbox
pdftoppm -r 90 -png all.pdf out/page
pdftocairo -svg -f 3 -l 3 all.pdf out/page3.svg
pdfseparate -l 3 all.pdf tmp/only%d.pdf
pdfunite tmp/only*.pdf tmp/united.pdf
pdftoppm -r 40 tmp/united.pdf out/united
pdffonts all.pdf
