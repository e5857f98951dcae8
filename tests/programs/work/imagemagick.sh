# Draws, distorts, blurs, composes and converts pictures.
set -eu
convert -seed 3 -size 300x240 gradient:red-blue -wave 12x60 -swirl 80 wave.miff
convert -size 300x240 pattern:checkerboard wave.miff -compose multiply -composite \
    -blur 0x3 -edge 1 -resize 360x300 -define png:exclude-chunks=date,time +set date:create \
    +set date:modify +set date:timestamp -strip out/a.png
convert out/a.png -quality 80 -strip out/a.jpg
convert out/a.png -colors 32 -dither FloydSteinberg -rotate 33 out/a.gif
convert out/a.png \( +clone -negate -paint 2 \) \( -clone 0 -emboss 1 \) -append out/b.ppm
montage out/a.png out/a.jpg out/a.png -geometry 150x120+4+4 -strip out/m.ppm
compare -metric AE out/a.png out/a.jpg null: 2>&1 || :
identify -format '%m %w %h %k %#\n' out/*
