# Groups, joins, rewrites and reduces a large document.
set -eu
awk 'BEGIN { for (i = 0; i < 30000; i++)
    printf "{\"id\":%d,\"name\":\"n%d\",\"tags\":[%d,\"t%d\",null],\"deep\":{\"x\":{\"y\":%d.5}}}\n",
        i, i * 7919 % 503, i % 9, i % 31, i % 77 }' >data
jq -s 'group_by(.name) | map({name: .[0].name, n: length, ids: [.[].id]}) | .[:200]' data
jq -c 'select(.id % 7 == 0) | .tags |= map(tostring) | .deep.x.z = (.name | ltrimstr("n"))' data
jq -n '[range(60000)] | map({key: "k\(. % 997)", value: .}) | from_entries | to_entries | length'
jq -n 'reduce range(40000) as $i ({}; .["w\($i % 100)"] += [$i]) | map_values(add) | tojson'
jq -r -s 'map(.name | test("^n[1-4]+$")) | map(select(.)) | length, @base64 "\(.)"' data | sha256sum
jq -c --stream 'select(length == 2 and .[0][0] == "deep")' data | sha256sum
