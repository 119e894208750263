#!/usr/bin/env bash
# Build the wheel, install it without extras into an environment of its own, and use it there:
# what the package lacks (a module, the files of the page, a dependency) shows here.
set -euo pipefail

cd "$(dirname "$0")/.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"${PYTHON:-python3}" -m venv "$scratch/venv"
"$scratch/venv/bin/pip" wheel --quiet --no-deps --wheel-dir "$scratch" .
"$scratch/venv/bin/pip" install --quiet "$scratch"/havasu_vc-*.whl
export PATH="$scratch/venv/bin:$PATH" GIT_CONFIG_GLOBAL=/dev/null
export GIT_AUTHOR_NAME=Tester GIT_AUTHOR_EMAIL=tester@example.com
export GIT_COMMITTER_NAME="$GIT_AUTHOR_NAME" GIT_COMMITTER_EMAIL="$GIT_AUTHOR_EMAIL"

cd "$scratch"
havasu-vc --help >help.txt
havasu-vc version --all
printf 'id,owner,lon,lat\n1,Ann,174.76,-36.85\n2,Ben,174.77,-36.86\n' >parcels.csv
havasu-vc init survey
cd survey
havasu-vc import ../parcels.csv --primary-key id --crs EPSG:4326
sed -i.old s/Ben/Bea/ ../parcels.csv
havasu-vc import ../parcels.csv --replace --crs EPSG:4326 -m "Release of September"
havasu-vc review HEAD^...HEAD
havasu-vc review HEAD^...HEAD -o html --output ../review.html
[ "$(wc -c <../review.html)" -gt 100000 ] # with its script, style and map of the world
havasu-vc export parcels ../parcels.gpkg
havasu-vc checkout
havasu-vc fsck --full
