# Builds a repository with branches and merges; logs, clones, blames, repacks and checks it.
set -eu
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_CONFIG_NOSYSTEM=1
export GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main repo
cd repo
git config gc.auto 0
i=0
while [ "$i" -lt 30 ]; do
    mkdir -p "dir$((i % 5))"
    awk -v i="$i" 'BEGIN { for (l = 0; l < 800; l++) print l % (i + 2), l * (l % 7 ? 1 : i) }' \
        >"dir$((i % 5))/file$((i % 12)).txt"
    git add .
    git commit -q -m "change $i"
    if [ $((i % 10)) -eq 5 ]; then
        git checkout -q -b "topic$i"
        echo "topic $i" >"topic$i.txt"
        git add .
        git commit -q -m "topic $i"
        git checkout -q main
        git merge -q --no-ff -m "merge topic $i" "topic$i"
    fi
    i=$((i + 1))
done
git log --graph --stat --format='%H %an %ad %s' >../out/log.txt
git log -p -M >../out/patches.txt
git blame dir1/file1.txt >../out/blame.txt
git gc -q --aggressive --prune=now
git fsck --full --strict 2>&1
cd ..
git clone -q --no-local repo copy 2>&1
git -C copy rev-parse HEAD
git -C copy grep -c '3' HEAD -- dir0
git -C copy archive HEAD >out/archive.tar
git -C copy bundle create -q ../all.bundle --all
git -C copy bundle verify ../all.bundle 2>&1
git -C copy diff HEAD~20 --word-diff >out/words.txt
