# Ten thousand processes pass messages, binaries and terms; the allocators of the runtime are off.
set -eu
cat >job.erl <<'END'
-module(job).
-export([main/0]).

worker(Parent, N) ->
    Words = [integer_to_binary(I * N rem 997) || I <- lists:seq(1, 60)],
    Map = lists:foldl(fun(W, M) -> maps:update_with(W, fun(C) -> C + 1 end, 1, M) end, #{}, Words),
    Big = binary:copy(<<N:32>>, 40 + N rem 500),
    Parent ! {N, maps:size(Map), erlang:crc32(Big), Big}.

main() ->
    Self = self(),
    Count = 10000,
    [spawn(fun() -> worker(Self, N) end) || N <- lists:seq(1, Count)],
    Results = [receive {N, S, C, B} -> {S, C, byte_size(B)} end || N <- lists:seq(1, Count)],
    io:format("~p~n", [erlang:phash2(Results)]),
    Table = ets:new(table, [ordered_set]),
    [ets:insert(Table, {I * 7919 rem 100003, integer_to_list(I)}) || I <- lists:seq(1, 80000)],
    io:format("~p ~p~n", [ets:info(Table, size), erlang:phash2(ets:tab2list(Table))]),
    Text = iolist_to_binary([[integer_to_list(I), $\s] || I <- lists:seq(1, 100000)]),
    Packed = zlib:gzip(Text),
    io:format("~p ~p~n", [length(binary:split(Text, <<"7 ">>, [global])), zlib:gunzip(Packed) =:= Text]),
    {ok, Maps} = file:read_file("/proc/self/maps"),
    ok = file:write_file("mapped/erlang", Maps),
    halt().
END
erlc job.erl
erl +Mea min -noshell -s job main
