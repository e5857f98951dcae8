#!/bin/sh
# Installs the Debian packages of the programs in programs.toml that are not there yet, with apt.
# Their services are not started. A package that cannot be had is named and does no further harm.
set -eu

here=$(dirname -- "$(readlink -f -- "$0")")
policy=/usr/sbin/policy-rc.d

say() { printf 'programs: %s\n' "$*" >&2; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo -- "$@"
    fi
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 \
        install --no-install-recommends "$@" </dev/null >"$log" 2>&1
}

# Some packages start a server; the tests start their own.
forbid_services() {
    [ ! -e "$policy" ] || return 0
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    own_policy=yes
}

clean_up() {
    rm -f "$log"
    [ -z "$own_policy" ] || as_root rm -f "$policy"
}

install_one_by_one() {
    for package in "$@"; do
        apt_install "$package" || say "cannot be had: $package ($(tail -n 1 "$log"))"
    done
}

missing=
for package in $(python3 "$here/runner.py" --packages); do
    is_installed "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

own_policy=
log=$(mktemp)
trap clean_up EXIT
say "installing with apt:$missing"
forbid_services
as_root apt-get -qq update >"$log" 2>&1 || say "apt-get update failed: $(tail -n 1 "$log")"
# shellcheck disable=SC2086 # one word per package
apt_install $missing || install_one_by_one $missing
