#!/usr/bin/env bash
# Fetch Iceberg's compatibility kit for REST catalogs, tests in Java: scripts/catalog-kit.sh FOLDER
# Where Maven or its central repository cannot be had, a line says so; the test that runs the kit is skipped then.
set -euo pipefail

folder=$1
cd "$(dirname "$0")/.."
[ ! -e "$folder/.ready" ] || exit 0
mkdir -p "$folder"
folder=$(realpath "$folder")
# A repository of its own: in the user's, Maven leaves descriptions without their jars, and
# Spark, which looks there for its packages, would find these and stop.
if mvn --quiet --batch-mode --file tests/serving/kit.xml "-Dmaven.repo.local=$folder/maven" \
    dependency:copy-dependencies "-DoutputDirectory=$folder" </dev/null; then
    rm -rf "$folder/maven"
    touch "$folder/.ready"
else
    echo "There is no compatibility kit in $folder: the test of the catalog with it is skipped."
fi
