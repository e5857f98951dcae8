# Hashes, regular expressions, closures, sorting and string building.
set -eu
perl -e '
    use strict; use warnings;
    use File::Copy; use Storable qw(freeze thaw); use List::Util qw(sum shuffle); use threads;
    my ($x, %count, @rows) = (12345);
    sub rnd { $x = ($x * 1103515245 + 12345) & 0x7fffffff; return $x % shift }
    for my $i (1 .. 150000) {
        my $word = join "", map { chr(97 + rnd(26)) } 1 .. 1 + rnd(5);
        $count{$word}++;
        push @rows, { id => $i, word => $word, list => [map { rnd(9) } 0 .. 3] } if $i % 3 == 0;
    }
    print "$_ $count{$_}\n" for grep { $count{$_} > 9 } sort keys %count;
    my $copy = thaw(freeze(\@rows));
    print sum(map { $_->{list}[2] } @$copy), "\n";
    my $text = join " ", map { $_->{word} } @$copy;
    (my $swapped = $text) =~ s/(\w+) (\w+)/$2-\U$1\E/g;
    my %seen; $seen{lc $1}++ while $swapped =~ /\b([a-z]{2})[a-z]*/gi;
    print join(",", map { "$_=$seen{$_}" } sort keys %seen), "\n";
    my @threads = map { my $n = $_; threads->create(sub { my %h; $h{$_ * $n} = "v$_" for 1 .. 4000;
        return scalar(grep { $h{$_} =~ /7$/ } keys %h) }) } 1 .. 4;
    print join(" ", map { $_->join } @threads), "\n";
    copy("/proc/self/maps", "mapped/perl");
'
