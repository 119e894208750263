#!/usr/bin/env bash
# Install a server of Azure's API to test with, which npm has: scripts/azurite.sh FOLDER
# Where npm or its registry cannot be had, a line says so; the tests with it are skipped then.
set -euo pipefail

folder=$1
[ ! -e "$folder/.ready" ] || exit 0
mkdir -p "$folder"
if npm install --silent --no-audit --no-fund --no-save --prefix "$folder" azurite@3 </dev/null; then
    touch "$folder/.ready"
else
    echo "There is no server of Azure's API in $folder: tests with it are skipped."
fi
