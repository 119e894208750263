#!/usr/bin/env bash
# Install what finds barriers on a page, axe-core, which npm has: scripts/axe.sh FOLDER
# Where npm or its registry cannot be had, a line says so; the tests with it are skipped then.
set -euo pipefail

folder=$1
[ ! -e "$folder/.ready" ] || exit 0
mkdir -p "$folder"
if npm install --silent --no-audit --no-fund --no-save --prefix "$folder" axe-core@4 </dev/null; then
    touch "$folder/.ready"
else
    echo "There is no axe-core in $folder: tests with it are skipped."
fi
