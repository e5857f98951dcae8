# Stacks, registers, macros and big powers.
set -eu
dc <<'END'
400k 2v p
[la 1 - sa lb la * sb la 1 <l] sl 600 sa 600 sb llx lb p
0k 3 4000 ^ p 2 3217 ^ 1 - 16o p
[li p 1 + d si 900 >r] sr 1 si lrx
17 5000 10 40 ^ 7 + | p
END
