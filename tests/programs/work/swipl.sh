# Logic programs: queens, a parser, assertions, findall, tabling, big integers and threads.
set -eu
cat >job.pl <<'END'
:- use_module(library(lists)).
:- use_module(library(assoc)).
:- use_module(library(thread)).
:- table path/2.
path(X, Y) :- edge(X, Y).
path(X, Y) :- path(X, Z), edge(Z, Y).
edge(X, Y) :- between(1, 90, X), Y is X * 7 mod 91.
queens(N, Qs) :- numlist(1, N, Ns), select_all(Ns, [], Qs).
select_all([], Qs, Qs).
select_all(Ns, Safe, Qs) :- select(Q, Ns, Rest), \+ attack(Q, 1, Safe), select_all(Rest, [Q | Safe], Qs).
attack(X, N, [Y | _]) :- (X is Y + N ; X is Y - N), !.
attack(X, N, [_ | Ys]) :- N1 is N + 1, attack(X, N1, Ys).
:- dynamic fact/2.
job(N, Sum) :- numlist(1, 20000, L), foldl([X, S0, S]>>(S is S0 + X * N mod 7), L, 0, Sum).
main :-
    queens(14, Qs), print(Qs), nl,
    findall(Q, queens(7, Q), All), length(All, Count), print(Count), nl,
    forall(between(1, 40000, I), (H is I * 7919 mod 5003, assertz(fact(H, I)))),
    aggregate_all(count, fact(42, _), C), print(C), nl,
    retractall(fact(_, _)),
    findall(X-Y, path(X, Y), Ps), length(Ps, P), print(P), nl,
    numlist(1, 20000, Ns), findall(N-v(N), member(N, Ns), Pairs), list_to_assoc(Pairs, A),
    get_assoc(777, A, V), print(V), nl,
    concurrent_maplist(job, [1, 2, 3, 4, 5], Sums), print(Sums), nl,
    B is 7 ** 3000 mod 10 ** 40, print(B), nl,
    atom_codes(Atom, Qs), atom_length(Atom, L), print(L), nl.
:- initialization((main, halt)).
END
swipl -q -f job.pl
