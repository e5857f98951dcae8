# Archives a tree; packs it with gzip and pigz; unpacks and compares.
set -eu
mkdir tree
sh "$WORK/lib/sample.sh" 20000 >data
split -n l/300 -a 3 data tree/part.
for name in a b c d; do
    mkdir "tree/$name"
    cp tree/part.?"$name"? tree/"$name"
done
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf out/tree.tar tree
gzip -n -9 -c out/tree.tar >out/tree.tar.gz
pigz -n -p 3 -c out/tree.tar >out/pigz.tar.gz
pigz -n -p 3 -9 -i -b 128 -c out/tree.tar >out/blocks.gz
mkdir back
tar -C back -I pigz -xf out/pigz.tar.gz
diff -r tree back/tree
tar -tvf out/tree.tar.gz
