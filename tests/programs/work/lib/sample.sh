#!/bin/sh
# sample.sh LINES: writes text that compresses like prose does, the same one every time.
awk -v lines="$1" 'BEGIN {
    x = 7
    for (l = 0; l < lines; l++) {
        text = ""
        for (w = 0; w < 12; w++) {
            x = (x * 16807) % 2147483647
            text = text " word" int(x / 1000) % (w % 3 ? 40 : 9000)
        }
        print l text
    }
}'
