# Tables, indexes, joins, window functions, recursive queries, full-text search, JSON and a dump.
set -eu
sqlite3 test.db <<'END'
PRAGMA journal_mode = WAL;
CREATE TABLE item(id INTEGER PRIMARY KEY, grp INTEGER, name TEXT, price REAL);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item, day INTEGER, n INTEGER);
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 20000)
INSERT INTO item SELECT x, x % 97, printf('item-%05d-%s', x * 7919 % 20011, hex(x * x)), x % 1000 / 7.0
FROM c;
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 120000)
INSERT INTO sale SELECT x, x * 7907 % 20000 + 1, x % 365, x % 13 FROM c;
CREATE INDEX item_name ON item(name);
CREATE INDEX sale_item ON sale(item, day);
SELECT grp, count(*), round(sum(price * n), 3), max(name) FROM item JOIN sale ON sale.item = item.id
GROUP BY grp ORDER BY 3 DESC;
SELECT * FROM (SELECT day, n, sum(n) OVER (ORDER BY day, id ROWS 50 PRECEDING) AS s FROM sale)
WHERE s > 310 ORDER BY day, s LIMIT 200;
SELECT length(group_concat(name, ',')) FROM item;
UPDATE item SET name = name || '-' || grp WHERE id % 3 = 0;
DELETE FROM sale WHERE day BETWEEN 100 AND 150;
CREATE VIRTUAL TABLE doc USING fts5(body);
INSERT INTO doc SELECT 'word' || (id % 50) || ' other' || (id % 77) || ' ' || name FROM item;
SELECT count(*), min(rowid) FROM doc WHERE doc MATCH 'word7 AND other9 OR word3 NEAR other3';
SELECT json_group_array(json_object('i', id, 'n', name)) FROM item WHERE id < 300;
PRAGMA integrity_check;
VACUUM;
END
sqlite3 test.db .dump >out/dump.sql
sqlite3 copy.db <out/dump.sql
sqlite3 copy.db 'SELECT count(*), sum(n) FROM sale; SELECT count(*), sum(length(name)) FROM item;'
