# For workloads with a server, in the foreground and on a unix socket, so that no port can be taken.
# shellcheck shell=sh

server=

# start COMMAND...: starts it in the background; its output goes to server.log.
start() {
    "$@" >server.log 2>&1 &
    server=$!
    trap 'kill "$server" 2>/dev/null || :' EXIT
}

# wait_until COMMAND...: returns once COMMAND succeeds; gives up when the server has ended.
wait_until() {
    until "$@" >/dev/null 2>&1; do
        kill -0 "$server" || return 1
        sleep 0.1
    done
}

# keep_maps NAME PID: keeps what the process has mapped, for the runner to look at.
keep_maps() {
    cat "/proc/$2/maps" >"mapped/$1"
}

# stop SIGNAL: asks the server to end and waits for it; its status is the result. What the shell itself
# says of a job that a signal ended depends on when it looks, and is not wanted.
stop() {
    trap - EXIT
    {
        kill -s "$1" "$server"
        wait "$server"
    } 2>/dev/null
}
