# Arrays, string operations, subshells, pipes, process substitution and background jobs.
set -euo pipefail
declare -A count
declare -a list
for ((i = 0; i < 12000; i++)); do
    word="w$((i * 7919 % 503))"
    count[$word]=$((${count[$word]:-0} + 1))
    list+=("${word^^}-${word//[0-4]/x}")
done
for word in "${!count[@]}"; do
    echo "$word ${count[$word]}"
done | sort
text=$(printf '%s ' "${list[@]}")
echo "${#text}" "${text:1000:60}" "${text//x/<>}" | sha256sum
mapfile -t lines < <(seq 30000)
echo "${#lines[@]}" "${lines[@]: -3}"
pids=()
for n in 1 2 3 4; do
    (for ((k = 0; k < 60; k++)); do echo "$n $(echo "$k" | tr 0-9 a-j)"; done >"out/job$n") &
    pids+=("$!")
done
wait "${pids[@]}"
recurse() { (($1 == 0)) && echo end || { local x="$1$1"; recurse $(($1 - 1)) && echo "$x"; }; }
recurse 300
[[ "$text" =~ (W[0-9]+)-(wx+) ]] && echo "${BASH_REMATCH[@]}"
cat <<END | while read -r a b; do echo "$b $a"; done
$(paste -d ' ' <(seq 200) <(seq 200 -1 1))
END
cat "/proc/$$/maps" >mapped/bash
