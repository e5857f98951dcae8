# Word counts over text.
set -eu
sh "$WORK/lib/sample.sh" 40000 >data
mawk -f "$WORK/lib/words.awk" data | sort
