"""Setting a clone of plain git up as ours are, before anything is changed in it.

`git clone` knows nothing of datasets: their internals lie in the work tree, and no hook sends
their data. Every command, and in the library whatever changes a repository or brings data
into it, calls `set_up` first, which costs a look where all is in place. A repository
without datasets is left as it is.
"""

from __future__ import annotations

from havasu_vc.errors import HavasuError
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.locks import exclusive_lock
from havasu_vc.store.preparation import (
    HOOK_IS_ELSEWHERE,
    OTHER_HOOK,
    install_hooks,
    is_installed,
    is_prepared,
    prepare,
)

__all__ = ["set_up"]


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
