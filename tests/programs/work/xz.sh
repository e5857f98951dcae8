# Compresses in blocks with two threads and checks the result.
set -eu
sh "$WORK/lib/sample.sh" 30000 >data
xz -q -T2 -4 --block-size=1MiB -k -c data >out/threads.xz
xz -q -T1 -9 -k -c data >out/best.xz
xz -q --format=lzma -2 -k -c data >out/data.lzma
xz -q -T2 -d -c out/threads.xz | cmp - data
xz -q -d -c out/best.xz out/data.lzma | sha256sum
xz --robot --list out/threads.xz
