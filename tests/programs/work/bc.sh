# Digits of pi and e, square roots and big factorials.
set -eu
bc -l <<'END'
scale = 700
4 * a(1)
e(1)
sqrt(2)
l(10)
scale = 0
define f(n) { if (n < 2) return (1); return (n * f(n - 1)); }
f(900)
define p(b, e, m) { auto r; r = 1; while (e > 0) { if (e % 2) r = r * b % m; b = b * b % m; e /= 2; }; return (r); }
p(3, 2 ^ 521 - 2, 2 ^ 521 - 1)
for (i = 0; i < 3000; i++) x[i % 100] = x[(i * 7) % 100] * 3 + i
x[42]
obase = 16
2 ^ 3000 - 1
END
