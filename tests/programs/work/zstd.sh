# Compresses at several levels with two threads, with a dictionary and with long matching.
set -eu
sh "$WORK/lib/sample.sh" 50000 >data
for level in 1 3 9 15; do
    zstd -q -T2 "-$level" data -o "out/data.$level.zst"
    zstd -q -d "out/data.$level.zst" -c | cmp - data
done
zstd -q -T2 --long=27 -6 data -o out/long.zst
zstd -q -d --long=27 out/long.zst -c | sha256sum
split -n l/500 -a 3 data part.
zstd -q --train part.* -o out/dictionary 2>/dev/null
mkdir packed
zstd -q -T2 -D out/dictionary part.a* --output-dir-flat packed
cat packed/* | zstd -q -d -D out/dictionary -c | sha256sum
zstd -q -t out/*.zst
