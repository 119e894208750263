#!/usr/bin/env bash
# The main job from end to end, in a scratch folder, showing each command before it runs.
set -euo pipefail

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
export GIT_AUTHOR_NAME="A. Surveyor" GIT_AUTHOR_EMAIL="surveyor@example.com"
export GIT_COMMITTER_NAME="$GIT_AUTHOR_NAME" GIT_COMMITTER_EMAIL="$GIT_AUTHOR_EMAIL"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '\033[36m$ %s\033[0m\n' "$*"; "$@"; }
has_java() { "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version >/dev/null 2>&1; }

say "havasu-vc is version control for tables that hold geometries and rasters."
run havasu-vc version

if ! has_java; then
    say "There is no JDK here, so the part with Spark is left out; install a JDK 17 to see it."
fi
