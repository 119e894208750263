#!/usr/bin/env bash
# Fetch other versions of git, to test with: scripts/gits.sh FOLDER
# They are those of later releases of Debian, each with the C library that it was built with, and run
# from FOLDER/<suite>/git, beside the system's own. CI does not run it: without them their tests are
# skipped.
set -euo pipefail

folder=$1
suites=${SUITES:-trixie sid}
[ ! -e "$folder/.ready" ] || exit 0
command -v apt-get >/dev/null || { echo "this needs Debian's apt-get" >&2; exit 1; }
mkdir -p "$folder"
folder=$(realpath "$folder")
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' |
    awk '$2 !~ /-/ {print $1; exit}')

for suite in $suites; do
    root=$folder/$suite
    rm -rf "$root"
    mkdir -p "$root"/{lists/partial,cache/archives/partial,system}
    touch "$root/status"
    options=(
        -o "Dir::Etc::SourceList=$root/sources" -o Dir::Etc::SourceParts=-
        -o "Dir::State::Lists=$root/lists" -o "Dir::State::Status=$root/status"
        -o "Dir::Cache=$root/cache" -o APT::Sandbox::User=root
    )
    echo "deb $mirror $suite main" >"$root/sources"
    apt-get --quiet=2 "${options[@]}" update
    (cd "$root/cache" && apt-get --quiet=2 "${options[@]}" download git libc6 libpcre2-8-0 zlib1g)
    for each in "$root"/cache/*.deb; do
        dpkg-deb --extract "$each" "$root/system"
    done
    loader=$(find "$root/system" -name 'ld-linux*.so*' | head -1)
    libraries=$(find "$root/system" -name 'libc.so.6' -printf '%h\n' -o -name 'libz.so.1' -printf '%h\n' \
        -o -name 'libpcre2-8.so.0' -printf '%h\n' | sort --unique | paste --serial --delimiters=:)
    # Under every name that git has for itself stands what runs it with its own libraries.
    core=$root/system/usr/lib/git-core
    mv "$root/system/usr/bin/git" "$root/system/git"
    cat >"$root/git" <<EOF
#!/bin/sh
export GIT_EXEC_PATH=$core GIT_TEMPLATE_DIR=$root/system/usr/share/git-core/templates
exec "$loader" --argv0 "\${0##*/}" --library-path "$libraries" "$root/system/git" "\$@"
EOF
    chmod +x "$root/git"
    ln --symbolic --force "$root/git" "$core/git"
    for each in upload-pack receive-pack upload-archive; do
        ln --symbolic --force "$root/git" "$core/git-$each"
    done
    rm -rf "$root/cache" "$root/lists" "$root/status" "$root/sources"
    echo "$suite: $("$root/git" --version)"
done
touch "$folder/.ready"
