#!/bin/sh
# Sees to it that Spark has a Java 17 or newer: installs one through apt-get when allowed to, else says what to install.
set -eu

# The major version of the Java that Spark would start, 0 when there is none.
java_major() {
    java=java
    [ -n "${JAVA_HOME:-}" ] && java="$JAVA_HOME/bin/java"
    version=$("$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1)
    echo "${version:-0}"
}

[ "$(java_major)" -ge 17 ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "setup: installing a Java for Spark through apt-get"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -q >/dev/null || true
    apt-get install -q -y --no-install-recommends openjdk-17-jre-headless >/dev/null 2>&1 ||
        apt-get install -q -y --no-install-recommends default-jre-headless >/dev/null || true
fi

if [ "$(java_major)" -lt 17 ]; then
    echo "setup: Spark needs Java 17 or newer, and none was found${JAVA_HOME:+ in JAVA_HOME ($JAVA_HOME)}." >&2
    echo "setup: install one (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17)" >&2
    echo "setup: or point JAVA_HOME at it, then run make setup again. The matcher and the demo work without." >&2
    exit 1
fi
