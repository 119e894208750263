"""What git is told to run: the hook by which `git push` carries data, and the diff of rows.

The hook is put where no hook of the user's is. It runs this program if that can be found, and
stops the push with the command to run if it cannot: a ref never goes without its data.
"""

from __future__ import annotations

from pathlib import Path

from havasu_vc.store.durability import replace_file
from havasu_vc.store.repository import GitRepository

__all__ = ["PRE_PUSH", "has_hook", "install_hooks"]

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


def install_hooks(repository: GitRepository) -> bool:
    """Set both up; return whether the hook is there, false where the user has another.

    A repository that Kart made stays Kart's, and has no data files to carry.
    """
    if repository.is_kart:
        return True
    from havasu_vc.repo.git_diff import install_diff

    install_diff(repository)
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
