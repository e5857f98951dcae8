# The shell, awk, sed, sort, tar, gzip and other applets in one process image.
set -eu
sh "$WORK/lib/sample.sh" 4000 >data
busybox awk -f "$WORK/lib/words.awk" data | busybox sort
busybox sed -E 's/word([0-9]+) word([0-9]+)/\2:\1/g; /77/!d' data | busybox sha256sum
busybox tar -cf - data | busybox gzip -c | busybox gunzip -c | busybox tar -tf -
busybox bzip2 -c data >out/data.bz2
busybox sh -c 'i=0; while [ $i -lt 5000 ]; do a="$a x$i"; i=$((i + 1)); done; echo "${#a}"'
