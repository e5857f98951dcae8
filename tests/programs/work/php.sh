# Arrays, strings, regular expressions, JSON and serialising; the allocator of PHP itself is off.
set -eu
export USE_ZEND_ALLOC=0
cat >main.php <<'END'
<?php
mt_srand(9);
$rows = [];
for ($i = 0; $i < 60000; $i++) {
    $rows[] = ['id' => $i, 'name' => 'n' . mt_rand(0, 5000), 'tags' => [mt_rand(0, 9), $i % 7]];
}
$text = json_encode($rows);
$back = unserialize(serialize(json_decode($text, true)));
usort($back, fn($a, $b) => [$a['name'], $a['id']] <=> [$b['name'], $b['id']]);
echo hash('sha256', json_encode($back)), "\n";
preg_match_all('/"name":"(n\d+)"/', $text, $found);
$counts = array_count_values($found[1]);
arsort($counts);
ksort($counts);
echo count($counts), ' ', md5(implode(',', $counts)), "\n";
function generate(int $n) {
    for ($i = 0; $i < $n; $i++) {
        yield str_repeat(chr(97 + $i % 26), $i % 500) => new ArrayObject(range(0, $i % 40));
    }
}
$total = 0;
foreach (generate(20000) as $key => $object) {
    $total += strlen($key) * count($object);
}
echo $total, ' ', strlen(str_replace('a', 'bcd', str_repeat('xaz', 400000))), "\n";
copy('/proc/self/maps', 'mapped/php');
END
php -n main.php
