#!/usr/bin/env bash
# Fetch Iceberg's compatibility kit for REST catalogs, tests in Java: scripts/catalog-kit.sh FOLDER
# Where Maven or its central repository cannot be had, a line says so; the test that runs the kit is skipped then.
set -euo pipefail

folder=$1
cd "$(dirname "$0")/.."
[ ! -e "$folder/.ready" ] || exit 0
mkdir -p "$folder"
if mvn --quiet --batch-mode --file tests/serving/kit.xml \
    dependency:copy-dependencies "-DoutputDirectory=$(realpath "$folder")" </dev/null; then
    touch "$folder/.ready"
else
    echo "There is no compatibility kit in $folder: the test of the catalog with it is skipped."
fi
