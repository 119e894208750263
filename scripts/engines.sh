#!/usr/bin/env bash
# Install engines that read and write through the catalog, and dbt, beside havasu-vc: scripts/engines.sh FOLDER
# They have an environment of their own, as Daft wants an older Arrow, and DuckDB's extensions fit one
# DuckDB. Where they cannot be had, a line says so; their tests are skipped then.
set -euo pipefail

venv=$1
python=${PYTHON:-python3}
packages=(
    "duckdb==1.5.5" "duckdb-extension-avro==1.5.5" "duckdb-extension-httpfs==1.5.5"
    "duckdb-extension-iceberg==1.5.5" "duckdb-extension-spatial==1.5.5" "daft>=0.6" "pyiceberg>=0.12,<0.13"
    # From dbt 1.11 on a part of it is fetched from elsewhere while it is installed.
    "dbt-core>=1.10,<1.11" "dbt-duckdb>=1.10,<1.11"
)

cd "$(dirname "$0")/.."
wanted="${packages[*]}"
[ "$(cat "$venv/.ready" 2>/dev/null || true)" != "$wanted" ] || exit 0
echo "Making $venv with engines to test with."
if "$python" -m venv "$venv" &&
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" </dev/null; then
    echo "$wanted" >"$venv/.ready"
else
    echo "There are no engines in $venv: tests of the catalog with DuckDB, Daft and dbt are skipped."
fi
