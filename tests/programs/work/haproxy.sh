# A proxy with two threads in front of itself: rewritten headers, rules, Lua and its own answers.
set -eu
. "$WORK/lib/server.sh"
cat >service.lua <<'END'
core.register_service("answer", "http", function(applet)
    local parts = {}
    local n = tonumber(applet.path:match("%d+")) or 1
    for i = 1, n * 30 do parts[#parts + 1] = applet.path .. "-" .. i end
    local body = table.concat(parts, "\n")
    applet:set_status(200)
    applet:add_header("content-length", #body)
    applet:start_response()
    applet:send(body)
end)
END
cat >haproxy.cfg <<END
global
    nbthread 2
    lua-load $PWD/service.lua
defaults
    mode http
    timeout client 60s
    timeout server 60s
    timeout connect 60s
frontend front
    bind unix@$PWD/socket
    http-request set-header X-Part %[path,field(2,/),regsub([a-z],x,g)]
    http-request deny deny_status 403 if { path -m sub teapot }
    http-response set-header X-Hash %[res.hdr(content-length),sha2(256),hex]
    compression algo gzip
    compression type text/plain
    default_backend back
backend back
    balance roundrobin
    server one unix@$PWD/inner
    server two unix@$PWD/inner
frontend inner
    bind unix@$PWD/inner
    http-request use-service lua.answer
END
start haproxy -db -f haproxy.cfg
get() {
    curl -sS --no-progress-meter --unix-socket socket "$@"
}
wait_until get --fail http://localhost/1
keep_maps haproxy "$server"
get -Z --parallel-max 8 'http://localhost/path[1-150]' -o 'out/#1'
get -D - 'http://localhost/abc/7' -o /dev/null
get 'http://localhost/teapot'
get --compressed 'http://localhost/[1-200]' | sha256sum
stop TERM || test "$?" -eq 143
