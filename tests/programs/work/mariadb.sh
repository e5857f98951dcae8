# A new server, tables of two engines, joins, window functions and parallel clients.
set -eu
. "$WORK/lib/server.sh"
mariadb-install-db --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal \
    --skip-test-db >install.log 2>&1
start mariadbd --no-defaults --datadir="$PWD/data" --socket="$PWD/socket" --skip-networking \
    --pid-file="$PWD/pid" --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=64M
sql() {
    mariadb --no-defaults --socket="$PWD/socket" -u root --batch --skip-column-names "$@"
}
wait_until sql -e 'SELECT 1'
keep_maps mariadbd "$server"
sql <<'END'
CREATE DATABASE d;
USE d;
CREATE TABLE t (i INT PRIMARY KEY, g INT, h CHAR(32), KEY (h)) ENGINE = InnoDB;
INSERT INTO t SELECT seq, seq % 97, md5(seq) FROM seq_1_to_60000;
CREATE TABLE a ENGINE = Aria AS SELECT g, count(*) AS n, min(h) AS h FROM t GROUP BY g;
SELECT * FROM a ORDER BY g;
SELECT sum(r) FROM (SELECT rank() OVER (PARTITION BY g ORDER BY h DESC) AS r FROM t) AS x;
SELECT count(*) FROM t AS x JOIN t AS y ON x.h < y.h AND x.g = 3 AND y.g = 5;
SELECT md5(group_concat(h ORDER BY i SEPARATOR '')) FROM t WHERE g < 20;
END
clients=
for n in 1 2 3 4; do
    seq 300 | awk -v n="$n" '{ print "UPDATE t SET g = g + 1 WHERE i = " $1 * 4 + n ";"
        print "SELECT count(*) FROM t WHERE h LIKE \x27" substr("0123456789abcdef", $1 % 16 + 1, 1) n "%\x27;" }' |
        sql d >"out/client$n" &
    clients="$clients $!"
done
for client in $clients; do
    wait "$client"
done
sql d -e 'SELECT sum(g), sum(crc32(h)) FROM t; CHECK TABLE t, a; CHECKSUM TABLE t'
stop TERM
