# PHP with its extensions, each of which it opens with RTLD_DEEPBIND: XML, strings of many alphabets, SQLite, archives; and what they
# give each other. Its own allocator is off, so that blocks cross as often as can be.
set -eu
export USE_ZEND_ALLOC=0
cat >main.php <<'PHP'
<?php
$document = new DOMDocument();
$root = $document->appendChild($document->createElement('list'));
for ($i = 0; $i < 3000; $i++) {
    $item = $document->createElement('item', "Größe $i");
    $item->setAttribute('kind', (string)($i % 13));
    $root->appendChild($item);
}
$text = $document->saveXML();
$again = simplexml_import_dom((new DOMXPath($document))->query('/list')->item(0));
$kinds = [];
foreach ($again->item as $item) {
    $kinds[(string)$item['kind']][] = mb_strtoupper((string)$item);
}
echo md5($text), ' ', count($kinds), ' ', mb_strlen(implode('', $kinds['7'])), "\n";
$base = new PDO('sqlite::memory:');
$base->setAttribute(PDO::ATTR_ERRMODE, PDO::ERRMODE_EXCEPTION);
$base->exec('create table t (kind int, name text)');
$insert = $base->prepare('insert into t values (?, ?)');
$base->beginTransaction();
foreach ($kinds as $kind => $names) {
    foreach ($names as $name) {
        $insert->execute([$kind, $name]);
    }
}
$base->commit();
foreach ($base->query('select kind, count(*), max(name) from t group by kind order by kind') as $row) {
    echo implode(' ', [$row[0], $row[1], mb_convert_case($row[2], MB_CASE_LOWER)]), "\n";
}
$archive = new PharData('out.tar');
$archive->addFromString('list.xml', $text);
echo strlen($archive['list.xml']->getContent()), "\n";
unset($archive);
unlink('out.tar');
$reader = XMLReader::XML($text);
for ($read = 0; $reader->read(); $read++) {
}
echo $read, "\n";
copy('/proc/self/maps', 'mapped/php');
PHP
php main.php
php -v >/dev/null
