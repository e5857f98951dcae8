# Lists, vectors, hash tables, big numbers, strings and continuations.
set -eu
cat >job.scm <<'END'
(use-modules (rnrs bytevectors))
(use-modules (srfi srfi-1) (ice-9 regex) (ice-9 format) (ice-9 textual-ports))
(define (count-words n)
  (let ((table (make-hash-table)))
    (do ((i 0 (+ i 1))) ((= i n))
      (let ((w (format #f "w~a" (modulo (* i 7919) 503))))
        (hash-set! table w (+ 1 (hash-ref table w 0)))))
    (sort (hash-map->list cons table) (lambda (a b) (string<? (car a) (car b))))))
(display (take (count-words 60000) 20)) (newline)
(display (fold + 0 (map (lambda (x) (* x x)) (iota 50000)))) (newline)
(display (modulo (expt 7 20000) (- (expt 2 127) 1))) (newline)
(display (string-length (number->string (fold * 1 (iota 2000 1))))) (newline)
(define text (string-join (map number->string (iota 20000)) " "))
(display (length (fold-matches "[0-9]*77[0-9]*" text '() cons))) (newline)
(define (generate) (call/cc (lambda (k) (for-each (lambda (i) (if (> i 500) (k i))) (iota 1000)))))
(display (generate)) (newline)
(let ((v (make-vector 100000 '())))
  (do ((i 0 (+ i 1))) ((= i 100000)) (vector-set! v i (make-bytevector (modulo i 97) 1)))
  (display (vector-length v)))
(gc)
(call-with-output-file "mapped/guile"
  (lambda (out) (put-string out (call-with-input-file "/proc/self/maps" get-string-all))))
END
guile --no-auto-compile job.scm
