#!/bin/sh
# Makes .venv with Sluice and every pinned dependency in it.
# PYTHON=... chooses the interpreter; otherwise the first of python3, python3.13, 3.12, 3.11 that is new enough.
set -eu
cd "$(dirname "$0")/.."

fail() {
    printf 'setup: %s\n' "$1" >&2
    exit 1
}

new_enough() {
    command -v "$1" >/dev/null 2>&1 && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

# Prints the interpreter to use, or nothing.
find_python() {
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if new_enough "$candidate"; then
            echo "$candidate"
            return
        fi
    done
}

# On Debian and its kin the venv module is a package of its own.
install_venv_package() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    echo "setup: installing the venv module through apt-get"
    minor=$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    apt-get update -q >/dev/null || return 1
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "python$minor-venv" >/dev/null 2>&1 ||
        DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends python3-venv >/dev/null
}

make_venv() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null || install_venv_package "$1" ||
        fail "this Python has no venv module; install it (Debian, Ubuntu: apt install python3-venv) and try again"
    "$1" -m venv --clear .venv || fail "could not make .venv with $1"
}

if ! { [ -x .venv/bin/python ] && new_enough .venv/bin/python && .venv/bin/python -m pip --version >/dev/null 2>&1; }; then
    python=$(find_python)
    if [ -z "$python" ]; then
        found=$("${PYTHON:-python3}" --version 2>/dev/null) || found="no ${PYTHON:-python3}"
        fail "Python 3.11 or newer is needed, found $found; install one, or name it: make setup PYTHON=python3.12"
    fi
    echo "setup: making .venv with $("$python" --version)"
    make_venv "$python"
fi

echo "setup: installing the pinned packages (a few minutes the first time)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check \
    --constraint tools/constraints.txt --editable '.[spark,bench,dev]'

echo "setup: done, try .venv/bin/sluice --help"
