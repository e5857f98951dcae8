# Solves puzzles over integers, bit vectors, arrays and quantifiers; models and proofs are compared.
set -eu
awk 'BEGIN {
    n = 10
    print "(set-logic QF_LIA)"
    for (i = 1; i <= n; i++) printf "(declare-const q%d Int)(assert (and (>= q%d 1) (<= q%d %d)))\n", i, i, i, n
    for (i = 1; i <= n; i++) for (j = i + 1; j <= n; j++) {
        printf "(assert (distinct q%d q%d))", i, j
        printf "(assert (and (not (= (- q%d q%d) %d)) (not (= (- q%d q%d) %d))))\n", i, j, j - i, j, i, j - i
    }
    print "(check-sat)(get-model)"
}' >queens.smt2
cat >bits.smt2 <<'END'
(set-logic QF_ABV)
(declare-const x (_ BitVec 14))
(declare-const y (_ BitVec 14))
(declare-const m (Array (_ BitVec 8) (_ BitVec 14)))
(assert (= (bvmul x y) #b01101011010111))
(assert (bvugt x #b00000000000001))
(assert (bvult x y))
(assert (= (select (store m #x07 x) ((_ extract 7 0) y)) (bvadd x y)))
(check-sat)
(get-value (x y))
(assert (= (bvand x #b00000000000001) #b00000000000000))
(check-sat)
END
cat >groups.smt2 <<'END'
(set-option :produce-proofs true)
(declare-sort G)
(declare-fun op (G G) G)
(declare-fun inv (G) G)
(declare-const e G)
(declare-const a G)
(declare-const b G)
(assert (forall ((x G) (y G) (z G)) (= (op (op x y) z) (op x (op y z)))))
(assert (forall ((x G)) (= (op e x) x)))
(assert (forall ((x G)) (= (op (inv x) x) e)))
(assert (forall ((x G)) (= (op x x) e)))
(assert (not (= (op a b) (op b a))))
(check-sat)
(get-proof)
END
for file in queens bits groups; do
    z3 -smt2 sat.random_seed=1 smt.random_seed=1 "$file.smt2"
done
