#!/bin/sh
# Sees to it that the broker benchmark finds its peers: installs them through apt-get when allowed to, else says what to install.
# The benchmark starts and stops them itself: none may run as a service.
set -eu

# The Debian packages that are missing, each after a space.
missing() {
    command -v nats-server >/dev/null 2>&1 || [ -x /usr/sbin/nats-server ] || printf ' nats-server'
    [ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || printf ' rabbitmq-server'
    [ -e /usr/share/activemq/bin/activemq.jar ] || printf ' activemq'
}

packages=$(missing)
[ -z "$packages" ] && exit 0

# Debian asks this script, where there is one, whether a package may start its service.
policy=/usr/sbin/policy-rc.d

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "peers: installing$packages through apt-get"
    export DEBIAN_FRONTEND=noninteractive
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    apt-get update -q >/dev/null || true
    # One by one: a system that has only some of them can measure those.
    for package in $packages; do
        apt-get install -q -y --no-install-recommends "$package" >/dev/null 2>&1 || true
    done
    packages=$(missing)
fi

if [ -n "$packages" ]; then
    echo "peers: the benchmark will report as not installed:$packages (Debian: apt install$packages)" >&2
fi
