-- A shop's tables in memory: bulk load, indexes, joins, windows, full text, JSON, updates, deletes.
CREATE TABLE item(id INTEGER PRIMARY KEY, grp INTEGER, name TEXT, price INTEGER);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER REFERENCES item, day INTEGER, n INTEGER);
BEGIN;
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 30000)
INSERT INTO item SELECT x, x % 97, printf('item-%05d-%s', x * 7919 % 20011, hex(x * x)), x % 1000 FROM c;
WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < $sales)
INSERT INTO sale SELECT x, x * 7907 % 30000 + 1, x % 365, x % 13 FROM c;
COMMIT;
CREATE INDEX item_name ON item(name);
CREATE INDEX sale_item ON sale(item, day);
SELECT grp, count(*), sum(price * n), max(name) FROM item JOIN sale ON sale.item = item.id
GROUP BY grp ORDER BY 3 DESC, grp LIMIT 20;
SELECT sum(s), max(s) FROM (SELECT sum(n) OVER (ORDER BY day, id ROWS 50 PRECEDING) AS s FROM sale);
SELECT length(group_concat(name, ',')) FROM (SELECT name FROM item ORDER BY id);
UPDATE item SET name = name || '-' || grp WHERE id % 3 = 0;
DELETE FROM sale WHERE day BETWEEN 100 AND 150;
CREATE VIRTUAL TABLE doc USING fts5(body);
INSERT INTO doc SELECT 'word' || (id % 50) || ' other' || (id % 77) || ' ' || name FROM item;
SELECT count(*), min(rowid) FROM doc WHERE doc MATCH 'word7 AND other9 OR word3 AND other3';
SELECT sum(length(text)) FROM (SELECT json_group_array(json_object('i', id, 'n', name, 'p', price)) AS text
FROM item GROUP BY grp);
SELECT count(DISTINCT upper(substr(name, 1, 9)) || ':' || replace(name, '-', '_')) FROM item;
SELECT count(*), sum(n) FROM sale;
PRAGMA integrity_check;
