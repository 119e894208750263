#!/usr/bin/env bash
# Install what the tests need of the system: scripts/system.sh PROGRAM...
# Where we may not, or it cannot be had, a line says what is missing; its tests are skipped then.
# Everything else, the S3 and LFS servers of the tests included, comes with `make setup`.
set -euo pipefail

# What a program is for, and the packages that have it on Debian and Ubuntu.
about() {
    case $1 in
        git-lfs) echo "Git LFS|git-lfs" ;;
        sshd) echo "data on a server of SSH|openssh-server" ;;
        postgis) echo "a working copy in PostGIS|postgresql-15 postgresql-15-postgis-3" ;;
        chromium) echo "pages in a browser|chromium fonts-dejavu-core" ;;
        qgis) echo "the plugin in QGIS|qgis python3-qgis fonts-dejavu-core" ;;
        *) echo "system: nothing is known of '$1'" >&2; exit 2 ;;
    esac
}

there() {
    [ "$1" = postgis ] && { ls /usr/share/postgresql/*/extension/postgis.control >/dev/null 2>&1; return; }
    command -v "$1" >/dev/null || { [ "$1" = sshd ] && [ -x /usr/sbin/sshd ]; } || { [ "$1" = chromium ] && command -v google-chrome >/dev/null; }
}

wanted=()
for program in "$@"; do
    about "$program" >/dev/null
    there "$program" || wanted+=("$program")
done
[ ${#wanted[@]} -eq 0 ] && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    apt-get update -qq </dev/null >/dev/null || true
    for program in "${wanted[@]}"; do
        found=$(about "$program")
        # shellcheck disable=SC2086  # several packages
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            ${found#*|} </dev/null >/dev/null || true
    done
fi
for program in "${wanted[@]}"; do
    found=$(about "$program")
    there "$program" ||
        echo "There is no $program: tests of ${found%|*} are skipped (Debian, Ubuntu: apt install ${found#*|})."
done
