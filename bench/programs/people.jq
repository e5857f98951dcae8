# Groups, flattens and rewrites an array of records.
(group_by(.owner.name) | map({owner: .[0].owner.name, n: length,
    notes: (map(.history | length) | add), tags: (map(.tags) | add | unique | length)})),
(map(select(.owner.active) | .name | ascii_upcase | split(" ") | reverse | join("_")) | sort | .[:50]),
(map(.history[] | .note | length) | add),
(map(.position | map(floor)) | unique | length),
(map(tojson | length) | add)
