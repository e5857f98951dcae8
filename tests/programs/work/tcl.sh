# Lists, dictionaries, strings, regular expressions, coroutines and slave interpreters.
set -eu
cat >job.tcl <<'END'
set x 42
proc rnd {n} { global x; set x [expr {($x * 1103515245 + 12345) % 2147483648}]; expr {$x / 65536 % $n} }
set rows {}
for {set i 0} {$i < 60000} {incr i} {
    set word "w[rnd 3000]"
    dict incr counts $word
    dict lappend groups [rnd 50] $word
    lappend rows [list $i $word [rnd 9]]
}
puts [lrange [lsort -index 1 [lsort -integer -index 2 $rows]] 0 40]
puts "[dict size $counts] [string length [dict get $groups 7]]"
set text [join [dict values $groups]]
puts "[string length $text] [regsub -all {w(\d)\d*} $text {<\1>} out] [string range $out 0 80]"
coroutine next apply {{} { yield; for {set i 0} {1} {incr i} { yield [string repeat ab [expr {$i % 50}]] } }}
set n 0
for {set i 0} {$i < 20000} {incr i} { incr n [string length [next]] }
puts $n
for {set i 0} {$i < 30} {incr i} {
    set slave [interp create]
    append sums [$slave eval {set s 0; foreach v [lrepeat 2000 3] {incr s $v}; set s}] " "
    interp delete $slave
}
puts "$sums [expr {3 ** 3000 % 1000000007}]"
file copy /proc/self/maps mapped/tcl
END
tclsh job.tcl
