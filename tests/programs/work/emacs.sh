# Batch Lisp: buffers, hash tables, regular expressions, byte compilation and text indenting.
set -eu
sh "$WORK/lib/sample.sh" 12000 >text
cat >job.el <<'END'
;;; -*- lexical-binding: t -*-
(require 'cl-lib)
(defun job-count ()
  "Count the words of the buffer."
  (let ((table (make-hash-table :test 'equal)) result)
    (goto-char (point-min))
    (while (re-search-forward "\\bword\\([0-9]+\\)\\b" nil t)
      (cl-incf (gethash (match-string 1) table 0)))
    (maphash (lambda (k v) (push (cons k v) result)) table)
    (sort result (lambda (a b) (string< (car a) (car b))))))
(with-temp-buffer
  (insert-file-contents "text")
  (let ((counts (job-count)))
    (princ (format "%d %S\n" (length counts) (cl-subseq counts 0 50))))
  (goto-char (point-min))
  (while (re-search-forward "\\([0-9]+\\) word" nil t) (replace-match "<\\1>" t))
  (sort-lines nil (point-min) (point-max))
  (fill-region (point-min) (min (point-max) 60000))
  (write-region nil nil "out/text" nil 'quiet))
(with-temp-buffer
  (emacs-lisp-mode)
  (dotimes (i 150)
    (insert (format "(defun f%d (x)\n(let ((y (* x %d)))\n(if (> y 3)\n(list y x)\n(vector x))))\n" i i)))
  (indent-region (point-min) (point-max))
  (font-lock-ensure)
  (write-region nil nil "out/f.el" nil 'quiet))
(byte-compile-file "out/f.el")
(garbage-collect)
(princ (secure-hash 'sha256 (mapconcat #'number-to-string (number-sequence 1 90000) ",")))
END
emacs -Q --batch -l job.el 2>&1
sed '/^;/d' out/f.elc >out/f.elc.text
rm out/f.elc
