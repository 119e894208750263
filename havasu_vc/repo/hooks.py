"""What git is told to run: the hook by which `git push` carries data, and the diff of rows.

The hook is put where no hook of the user's is. It runs this program if that can be found, and
stops the push with the command to run if it cannot: a ref never goes without its data.

The attribute `diff=havasu` covers everything inside of a dataset. For git's diff command,
`diff.havasu.command`, a few lines of shell pass over all of it but `snapshot.json`, which
changes whenever rows or columns do, and the texts that no snapshot covers; so git starts
this program once for a dataset and not once for a file. `diff.havasu.textconv`, which
`git show` and `git log -p` use, is shell alone: it prints the sums of a snapshot.
"""

from __future__ import annotations

from pathlib import Path

from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.store.durability import replace_file
from havasu_vc.store.repository import GitRepository

__all__ = [
    "DIFF_COMMAND",
    "PRE_PUSH",
    "SNAPSHOT",
    "TEXT_CONVERSION",
    "has_hook",
    "install_hooks",
]

SNAPSHOT = f"/{HAVASU_MARKER}/snapshot.json"
"""How the path of every snapshot ends."""

MARK = "# havasu-vc: data files go before the refs that name them"
PRE_PUSH = f"""#!/bin/sh
{MARK}
[ -n "$HAVASU_VC_DATA_SENT" ] && exit 0
if command -v havasu-vc >/dev/null 2>&1; then
    exec havasu-vc data push --hook "$1"
fi
echo "havasu-vc is not on the PATH, and this push may name data files: run 'havasu-vc push'," >&2
echo "or 'git push --no-verify' if the data is there already" >&2
exit 1
"""
DIFF_COMMAND = (
    'havasu() { case "$1" in '
    f"*{SNAPSHOT}) "
    "if command -v havasu-vc >/dev/null 2>&1; then "
    'havasu-vc git-diff "$1" "${3:-.}" "${6:-.}" ${8:+"$8"} </dev/null || :; '
    'else echo "$1: rows are not shown, as havasu-vc is not on the PATH"; fi;; '
    f"*/{HAVASU_MARKER}/meta/title|*/{HAVASU_MARKER}/meta/description) "
    'for side in "-$2" "+$5"; do sign=${side%"${side#?}"}; '
    'echo "$sign$sign$sign $1"; '
    "LC_ALL=C tr -d '\\000-\\010\\013-\\037\\177' <\"${side#?}\" | "
    'sed "s/^/$sign/"; echo; done;; '
    "esac; }; havasu"
)
TEXT_CONVERSION = (
    'havasu() { case "$(head -c 10 "$1" | tr -d "\\000")" in '
    '"{\\"guard\\": "*) sed -n "'
    's/^ *\\"\\(rows\\|deleted-rows\\|bytes\\)\\": \\([0-9]*\\).*/\\1: \\2/p; '
    's/^ *\\"\\([0-9]*\\)\\": \\"\\([0-9a-f]*\\)\\".*/content of column \\1: \\2/p'
    '" "$1";; *\\"conten) sed -n '
    '"s/^ \\"\\(content\\|rows\\|size\\)\\": \\"*\\([a-z0-9]*\\).*/\\1: \\2/p" '
    '"$1";; *) cat "$1";; esac; }; havasu'
)


def install_hooks(repository: GitRepository) -> bool:
    """Set both up; return whether the hook is there, false where the user has another.

    A repository that Kart made stays Kart's, and has no data files to carry.
    """
    if repository.is_kart:
        return True
    _install_diff(repository)
    path = _path(repository)
    if repository.config.get("core.hooksPath") is not None:
        return False
    if path.is_symlink() or (path.exists() and MARK not in path.read_text("utf-8", "replace")):
        return False
    if not path.exists() or path.read_text("utf-8") != PRE_PUSH:
        replace_file(path, PRE_PUSH.encode())
    path.chmod(0o755)
    return True


def has_hook(repository: GitRepository) -> bool:
    """Whether there is any hook, ours or the user's: git's own clones begin without.

    So the first commit of data sets it up there, before a plain `git push` can take it along.
    """
    elsewhere = repository.config.get("core.hooksPath") is not None
    return repository.is_kart or elsewhere or _path(repository).exists()


def _path(repository: GitRepository) -> Path:
    return repository.common_directory / "hooks" / "pre-push"


def _install_diff(repository: GitRepository) -> None:
    """Tell git how to show rows, where the user has not told it otherwise."""
    config = repository.config
    ours = {"command": DIFF_COMMAND, "textconv": TEXT_CONVERSION}
    known = {name: config.get(f"diff.havasu.{name}") for name in ours}
    for name, text in known.items():
        if text != ours[name] and (text is None or text.startswith("havasu() {")):
            config.set(f"diff.havasu.{name}", ours[name])
