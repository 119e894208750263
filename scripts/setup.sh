#!/usr/bin/env bash
# Make the virtual environment that `make` works with: scripts/setup.sh FOLDER
# PYTHON names the interpreter to make it from (python3 unless told).
set -euo pipefail

venv=$1
python=${PYTHON:-python3}

fail() {
    echo "setup: $1" >&2
    exit 1
}

cd "$(dirname "$0")/.."
command -v "$python" >/dev/null ||
    fail "there is no '$python'; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$("$python" --version) is too old; havasu-vc needs Python 3.11 or newer: make PYTHON=/path/to/python"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "'$python' cannot make virtual environments; install its venv module (Debian, Ubuntu: apt install python3-venv)"
command -v git >/dev/null ||
    fail "there is no 'git'; install it first"

echo "Making $venv and installing havasu-vc into it; the first time takes a few minutes."
# An environment of another Python is made anew, the same one is brought up to date.
[ "$("$venv/bin/python" --version 2>/dev/null || true)" = "$("$python" --version)" ] || rm -rf "$venv"
"$python" -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev]' </dev/null
command -v java >/dev/null || [ -x "${JAVA_HOME:-}/bin/java" ] ||
    echo "There is no Java: all works but Spark, for which install a JDK 17."
# The tests of Git LFS need the real client.
scripts/system.sh git-lfs
