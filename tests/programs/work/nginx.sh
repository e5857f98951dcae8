# Two workers serve files, compressed ones, ranges and listings to parallel requests.
set -eu
. "$WORK/lib/server.sh"
mkdir www
i=0
while [ "$i" -lt 40 ]; do
    seq "$((i * i * 60 + 1))" >"www/file$i.txt"
    i=$((i + 1))
done
cat >nginx.conf <<END
daemon off;
worker_processes 2;
pid $PWD/nginx.pid;
error_log stderr;
$(if [ "$(id -u)" -eq 0 ]; then echo 'user root;'; fi)
events { worker_connections 256; }
http {
    access_log $PWD/access.log;
    client_body_temp_path $PWD/tmp;
    proxy_temp_path $PWD/tmp;
    fastcgi_temp_path $PWD/tmp;
    uwsgi_temp_path $PWD/tmp;
    scgi_temp_path $PWD/tmp;
    server {
        listen unix:$PWD/socket;
        root $PWD/www;
        location / { autoindex on; autoindex_format json; }
        location /zip/ { alias $PWD/www/; gzip on; gzip_types *; gzip_min_length 1; }
        location /proxy/ { proxy_pass http://unix:$PWD/socket:/; }
    }
}
END
start nginx -p "$PWD" -c "$PWD/nginx.conf" -e stderr
get() {
    curl -sS --no-progress-meter --fail --unix-socket socket "$@"
}
wait_until get http://localhost/file0.txt
keep_maps nginx "$server"
keep_maps worker "$(cut -d' ' -f1 "/proc/$server/task/$server/children")"
get -Z --parallel-max 8 'http://localhost/file[0-39].txt' -o 'out/plain#1'
get -Z --parallel-max 8 --compressed 'http://localhost/zip/file[0-39].txt' -o 'out/zip#1'
get -Z --parallel-max 8 'http://localhost/proxy/file[0-39].txt' -o 'out/proxy#1'
get -r 1000-2000,5000-5010 http://localhost/file30.txt | grep -v '^--\|boundary' | sha256sum
get http://localhost/ | sed 's/"mtime":"[^"]*"//'
curl -sS --unix-socket socket http://localhost/absent
i=0
while [ "$i" -lt 20 ]; do
    get 'http://localhost/file[0-39].txt?'$i | sha256sum
    i=$((i + 1))
done
stop QUIT
wc -l <access.log
