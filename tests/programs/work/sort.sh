# Parallel and external sorts, merges, joins, shuffles with a fixed source, and other coreutils.
set -eu
sh "$WORK/lib/sample.sh" 90000 >data
sort --parallel=4 -k3,3 -k2n -S 12M data | sha256sum
sort --parallel=2 -r -u data >out/unique
sort --parallel=4 -t ' ' -k2.5n -S 2M --batch-size=4 --compress-program=gzip data | sha256sum
sort -V -k4 data | head -n 2000 >out/versions
shuf --random-source=data data >shuffled
sort -k2,2 data >left
sort -k2,2 shuffled | head -n 3000 >right
join -1 2 -2 2 left right | wc
tr -cs a-z0-9 '\n' <data | sort | uniq -c | sort -k1nr -k2 | head -n 200
tac data | rev | cut -d' ' -f2-4 | paste - - - | fold -w 40 | sha512sum
comm -12 left right | wc -l
seq 2000000 2000400 | factor
split -n r/7 --filter='md5sum >out/$FILE' data
