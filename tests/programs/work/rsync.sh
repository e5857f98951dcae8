# Copies a tree, changes it, and transfers only what differs, with compression and check sums.
set -eu
mkdir tree
sh "$WORK/lib/sample.sh" 60000 >data
split -n l/1500 -a 4 data tree/part.
for name in a b c; do
    mkdir "tree/$name"
    cp data "tree/$name/big"
done
rsync -a --checksum tree/ copy/
rm tree/part.aa*
head -c 300000 data >>tree/a/big
sed -i 's/word7/changed/g' tree/b/big
find tree -exec touch -d @1600000000 {} +
rsync -az --no-whole-file --block-size=900 --delete --itemize-changes tree/ copy/ | LC_ALL=C sort
diff -r tree copy
rsync -a --list-only copy/ | grep -v '^d'
