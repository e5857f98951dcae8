# Counts, indexes and rewrites the words of a text; prints what must not depend on the allocator.
use strict;
use warnings;

my ($path, $rounds) = @ARGV;
open my $input, '<', $path or die "$path: $!\n";
my @lines = <$input>;
for my $round (1 .. $rounds) {
    my (%count, %where, @long);
    for my $number (0 .. $#lines) {
        my @words = split /\W+/, $lines[$number];
        for my $word (@words) {
            $count{$word}++;
            push @{ $where{$word} }, $number if $number % 3 == $round % 3;
        }
        push @long, join '-', map { ucfirst } reverse @words;
    }
    my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
    my $places = 0;
    $places += @{$_} for values %where;
    my $text = join "\n", sort @long;
    my $changed = $text =~ s/(\w)\1/<$1>/g;
    print join(' ', $round, scalar(@top), $top[0], $places, length $text, $changed), "\n";
}
