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
    is_our_hook,
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
        is_news = surely and not git.is_bare and repo.head().commit is not None
        is_news = is_news and not is_prepared(git) and not _has_datasets(repo)
        was_sparse = git.config.boolean("core.sparseCheckout")
        prepare(git)
        if not install_hooks(git):
            repo.settings.note(HOOK_IS_ELSEWHERE)
        if is_news:
            repo.settings.note(_news(is_ours=is_our_hook(git), was_sparse=was_sparse))
        if not is_installed(git):
            git.config.set(OTHER_HOOK, True)


def _news(*, is_ours: bool, was_sparse: bool) -> str:
    """Return what a repository of other files is told when the first dataset comes into it."""
    hook = ", a hook pre-push" if is_ours else ""
    steps = ["git reset --keep HEAD^"]
    # Patterns of the user's own stay; ours, behind them, hide nothing once no tables are there.
    steps += [] if was_sparse else ["git sparse-checkout disable"]
    steps += ["rm .git/hooks/pre-push"] if is_ours else []
    steps += ["git config --remove-section diff.havasu"]
    return (
        f"this repository holds tables from now on: a sparse checkout hides their inner "
        f"files{hook} and `diff.havasu` serve git; your files and hooks stay. "
        f"To undo: {', '.join(f'`{step}`' for step in steps)}"
    )


def _has_datasets(repo: OpenRepo) -> bool:
    try:
        return bool(repo.folders(repo.head()))
    except HavasuError:
        return False  # what is wrong with HEAD is told by what was asked for
