"""Programs that git is told to run: the hook by which `git push` carries data, the diff of rows.

The hook is put where no hook of the user's is. It runs this program if that can be found, and
stops the push with the command to run if it cannot: a ref never goes without its data.

The attribute `diff=havasu` covers everything inside of a dataset. For git's diff command,
`diff.havasu.command`, a few lines of shell pass over most of it: this program is started for
each delta that comes or goes whole and for each column, and the texts are printed.
`diff.havasu.textconv`, which `git show` and `git log -p` use, is shell alone: it prints what a
delta adds up to.

Setting a clone of plain git up as ours are, before anything is changed in it.

`git clone` knows nothing of datasets: their internals lie in the work tree, and no hook sends
their data. Every command, and in the library whatever changes a repository or brings data
into it, calls `set_up` first, which costs a look where all is in place. A repository
without datasets is left as it is.
"""

from __future__ import annotations

import os
from pathlib import Path

from havasu_vc.errors import HavasuError
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.disk import replace_file
from havasu_vc.store.locks import exclusive_lock
from havasu_vc.store.preparation import is_prepared, prepare
from havasu_vc.store.repository import GitRepository

__all__ = [
    "DIFF_COMMAND",
    "HOOK_IS_ELSEWHERE",
    "OTHER_HOOK",
    "PRE_PUSH",
    "TEXT_CONVERSION",
    "install_hooks",
    "is_installed",
    "set_up",
]

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
HOOK_IS_ELSEWHERE = (
    "there is another pre-push hook, which sends no data: let it run "
    '`havasu-vc data push --hook "$1"` with its input, or run `havasu-vc data push` before '
    "each `git push`"
)
"""The message to a user whose hook stays."""
OTHER_HOOK = "havasu.otherHook"
"""The setting which says that a hook of the user's was seen."""
_PLAIN = "LC_ALL=C tr -d '\\000-\\010\\013-\\037\\177'"
"""Takes away what would steer a terminal."""
_ROWS = (
    "if command -v havasu-vc >/dev/null 2>&1; then "
    'havasu-vc git-diff "$1" "${3:-.}" "${6:-.}" </dev/null || :; '
    'else echo "$1: rows are not shown, as havasu-vc is not on the PATH"; fi'
)
DIFF_COMMAND = (
    'havasu() { case "$1" in '
    f"*/{HAVASU_MARKER}/files/*) "
    # Packed on one side and nothing on the other: else one took the place of another.
    'packed=$2; [ "$2" = /dev/null ] && packed=$5; '
    'if [ "$(head -c 2 "$packed" | tr -d "\\000")" = z ] && '
    '{ [ "$2" = /dev/null ] || [ "$5" = /dev/null ]; }; '
    f"then {_ROWS}; fi;; "
    f"*/{HAVASU_MARKER}/columns/names/*) ;; "
    f'*/{HAVASU_MARKER}/columns/*) [ "$3" = "$6" ] || {{ {_ROWS}; }};; '
    f'*/{HAVASU_MARKER}/dataset.json) [ -z "$8" ] || '
    f'echo "renamed: ${{1%/{HAVASU_MARKER}/*}} → ${{8%/{HAVASU_MARKER}/*}}" | {_PLAIN};; '
    f"*/{HAVASU_MARKER}/meta/title|*/{HAVASU_MARKER}/meta/description) "
    '[ "$3" = "$6" ] || '
    'for side in "-$2" "+$5"; do sign=${side%"${side#?}"}; '
    'echo "$sign$sign$sign $1"; '
    f'{_PLAIN} <"${{side#?}}" | '
    'sed "s/^/$sign/"; echo; done;; '
    "esac; }; havasu"
)
TEXT_CONVERSION = (
    'havasu() { case "$(head -c 2 "$1" | tr -d "\\000")" in '
    # The compressed part of what zlib made, with the header that gzip would have written.
    "z) { printf '\\037\\213\\010\\0\\0\\0\\0\\0\\0\\0'; tail -c +5 \"$1\"; } | "
    "gzip -dc 2>/dev/null | sed '"
    's/^.*"rows":\\(-\\{0,1\\}[0-9]*\\),"digests":{\\([^}]*\\)}.*$/rows: \\1\\n\\2/; '
    's/"\\([0-9]*\\)":"\\([0-9a-f]*\\)",\\{0,1\\}/content of column \\1: \\2\\n/g'
    "';; "
    '*) tr -d "\\000" <"$1"; echo;; esac; }; havasu'
)


def install_hooks(repository: GitRepository) -> bool:
    """Set both up; return whether data goes with `git push`, false where the user's hook decides.

    A repository that Kart made stays Kart's, and has no data files to carry.
    """
    if repository.is_kart:
        return True
    _install_diff(repository)
    if repository.config.get("core.hooksPath") is None:
        path = _path(repository)
        if _is_ours(path):
            if path.read_text("utf-8") != PRE_PUSH:
                replace_file(path, PRE_PUSH.encode())
        elif not os.path.lexists(path):
            replace_file(path, PRE_PUSH.encode())
        if _is_ours(path):
            path.chmod(0o755)
    return _sends_data(repository)


def is_installed(repository: GitRepository) -> bool:
    """Whether both were set up, as far as the user's own hook and diff let that be."""
    config, path = repository.config, _path(repository)
    if config.get("diff.havasu.command") is None:
        return False
    if config.get("core.hooksPath") is None and (_is_ours(path) or not os.path.lexists(path)):
        return _is_ours(path)
    # The user's own, perhaps since yesterday: it is looked at, and told, once.
    return config.boolean(OTHER_HOOK)


def _sends_data(repository: GitRepository) -> bool:
    """Whether the hook that git runs is ours, or one of the user's that runs what ours does."""
    path = _path(repository)
    if repository.config.get("core.hooksPath") is not None:
        place = repository.git("rev-parse", "--git-path", "hooks/pre-push").text
        path = (repository.work_tree or repository.git_directory) / place
    return _is_ours(path) or "havasu-vc data push" in _text(path)


def _is_ours(path: Path) -> bool:
    return not path.is_symlink() and MARK in _text(path)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


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


def set_up(repo: OpenRepo, *, surely: bool = False) -> None:
    """Hide internals from the work tree, and have `git push` send data, where that is lacking.

    Unless `surely`, only where HEAD has datasets, or data files have come. A hook of the
    user's stays, and what it needs is told once.
    """
    git = repo.git
    if git.is_kart or (is_prepared(git) and is_installed(git)):
        return
    if not (surely or (git.data_folder / "objects").exists() or _has_datasets(repo)):
        return
    lock = git.data_folder / "set-up-lock"
    with exclusive_lock(lock, reason="another process sets this repository up"):
        git.config.forget()
        if is_prepared(git) and is_installed(git):
            return
        prepare(git)
        if not install_hooks(git):
            repo.settings.note(HOOK_IS_ELSEWHERE)
        if not is_installed(git):
            git.config.set(OTHER_HOOK, True)


def _has_datasets(repo: OpenRepo) -> bool:
    try:
        return bool(repo.folders(repo.head()))
    except HavasuError:
        return False  # what is wrong with HEAD is told by what was asked for
