#!/bin/sh
# make_c.sh FIRST LAST: writes a C file of many functions, switches, tables and loops to stdout.
set -eu
printf '#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\n'
printf 'struct node { struct node *next; char name[24]; double weight; unsigned tags[6]; };\n'
i=$1
while [ "$i" -le "$2" ]; do
    cat <<END
static const unsigned table_${i}[] = { $i, $((i * 7)), $((i * 13)), $((i * 31)), $((i * 61)), 5, 9, 77 };
static struct node *push_${i}(struct node *head, unsigned key) {
    struct node *n = malloc(sizeof *n);
    if (!n) abort();
    n->next = head;
    snprintf(n->name, sizeof n->name, "node-%u", key * ${i}u);
    n->weight = key / ($i.5 + key);
    for (unsigned k = 0; k < 6; k++) n->tags[k] = table_${i}[(key + k) & 7] ^ (key << k);
    return n;
}
static unsigned classify_${i}(const struct node *n) {
    switch ((n->tags[0] + n->tags[3]) % 9) {
    case 0: return n->tags[1] * 3;
    case 1: case 2: return n->tags[2] + (unsigned)strlen(n->name);
    case 3: return n->weight > 0.5 ? 17 : n->tags[4];
    case 7: return n->tags[5] >> 2;
    default: return (unsigned)(n->weight * 1000.0) ^ n->tags[0];
    }
}
unsigned work_${i}(unsigned rounds) {
    struct node *head = NULL;
    unsigned sum = $i;
    for (unsigned r = 0; r < rounds; r++) {
        head = push_${i}(head, r * 2654435761u + sum);
        for (struct node *n = head; n && (n->tags[1] & 3); n = n->next) sum += classify_${i}(n);
        sum = (sum << 5) | (sum >> 27);
    }
    while (head) { struct node *next = head->next; free(head); head = next; }
    return sum;
}
END
    i=$((i + 1))
done
