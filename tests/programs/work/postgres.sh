# A new cluster, a bounded pgbench run with four clients, then queries whose sums are compared.
set -eu
. "$WORK/lib/server.sh"
initdb -D data -A trust -U test --no-sync >initdb.log 2>&1
start postgres -D data -k "$PWD" -c listen_addresses= -c fsync=off -c autovacuum=off \
    -c max_parallel_workers_per_gather=2 -c min_parallel_table_scan_size=0
export PGHOST="$PWD" PGUSER=test PGDATABASE=postgres
wait_until pg_isready
pgbench -q -i -s 2 >pgbench.log 2>&1
# One client, and a seed: the same transactions, so the same balances.
pgbench --random-seed=7 -c 1 -t 800 -M prepared >>pgbench.log 2>&1
# Four clients that only read.
pgbench --random-seed=7 -c 4 -j 2 -t 800 -S >>pgbench.log 2>&1
psql -X -q -A -t -v ON_ERROR_STOP=1 <<'END'
SELECT sum(abalance), sum(hashtext(aid::text || ':' || abalance)::bigint) FROM pgbench_accounts;
SELECT sum(tbalance) FROM pgbench_tellers;
SELECT bid, bbalance FROM pgbench_branches ORDER BY bid;
SELECT count(*), sum(delta) FROM pgbench_history;
CREATE TABLE t AS SELECT i, md5(i::text) AS h, i % 97 AS g FROM generate_series(1, 100000) AS i;
CREATE INDEX ON t (h);
CREATE INDEX ON t USING gin (to_tsvector('simple', h));
ANALYZE t;
SELECT g, count(*), min(h), md5(string_agg(h, ',' ORDER BY i)) FROM t GROUP BY g ORDER BY g;
SELECT sum(r) FROM (SELECT rank() OVER (PARTITION BY g ORDER BY h DESC) AS r FROM t) AS ranked;
SELECT count(*) FROM t AS a JOIN t AS b ON a.h < b.h AND a.g = 3 AND b.g = 5;
SELECT jsonb_agg(jsonb_build_object('i', i, 'h', h) ORDER BY i) FROM t WHERE i < 200;
DO $$ DECLARE s text := ''; BEGIN FOR k IN 1..20000 LOOP s := s || k; END LOOP;
RAISE NOTICE '%', md5(s); END $$;
SELECT pg_backend_pid() AS backend \gset
\setenv BACKEND :backend
\! cat /proc/$BACKEND/maps >mapped/backend
END
keep_maps postgres "$server"
stop INT
