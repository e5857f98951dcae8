# A benchmark load on every type; then a known data set, whose digest is compared before and
# after a reload.
set -eu
. "$WORK/lib/server.sh"
start redis-server --port 0 --unixsocket "$PWD/socket" --save '' --io-threads 2 --dir "$PWD" \
    --enable-debug-command yes
cli() {
    redis-cli -s "$PWD/socket" "$@"
}
wait_until cli ping
keep_maps redis-server "$server"
redis-benchmark -s "$PWD/socket" -q -n 1000 -r 1000 -d 200 -P 4 --csv >benchmark.log
test "$(wc -l <benchmark.log)" -gt 15
cli flushall
awk 'BEGIN {
    for (i = 0; i < 20000; i++) {
        printf "SET key:%d value-%d-%s\n", i, i * 7919 % 1009, substr("abcdefghijklmnopqrstuvwxyz", i % 26 + 1)
        printf "HSET hash:%d f%d %d\nZADD rank:%d %d m%d\n", i % 300, i % 41, i, i % 30, i * 31 % 977, i
        printf "RPUSH list:%d e%d\nSADD set:%d %d\nAPPEND grow:%d part%d\n", i % 50, i, i % 60, i, i % 20, i
        if (i % 3 == 0) printf "DEL key:%d\n", i - 5
    }
}' | cli --pipe
cli debug digest
cli zrange rank:7 0 -1 withscores
cli eval 'local t = {} for i = 1, 5000 do t[i] = i % 7 .. "-" .. i end return #table.concat(t)' 0
cli save
cli debug reload
cli debug digest
cli dbsize
cli hgetall hash:11 | sort
stop TERM
