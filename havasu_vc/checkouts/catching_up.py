"""The tables of a work tree follow HEAD: after every operation of `Repo` that may move it.

So does the living working copy, which is held from before HEAD moves (`living_following`), and
Kart's of tiles, where no tile differs (`tiles_in_place`).
Where nothing is checked out this costs one look for a file. What goes wrong with the
tables is told and undoes nothing: the commit stands, and `havasu-vc checkout` brings
them along later. While HEAD may be moving a mark stands beside the state, so that the
next command finishes what one that died left undone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from havasu_vc.checkouts.living_place import behind_mark, living_place
from havasu_vc.checkouts.marks import is_left_undone, marked, unmark
from havasu_vc.errors import HavasuError, LockedError
from havasu_vc.merging import merge_waits, require_no_merge_of_kart
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.setting_up import set_up
from havasu_vc.store.repository import GitRepository

__all__ = ["catch_up", "committing", "following", "has_tiles", "has_workspace", "require_no_merge"]

_TILES = "workdir-state.db"
"""Where Kart notes of which tree the files of tiles are."""


def _folder(git: GitRepository) -> Path:
    return git.git_directory / "havasu"


def has_workspace(git: GitRepository) -> bool:
    """Whether tables are checked out in this work tree."""
    # As `workspace.state` names it, which need not be loaded for this.
    return (_folder(git) / "workspace.json").exists()


def has_tiles(git: GitRepository) -> bool:
    """Whether Kart checked out files of tiles."""
    return git.is_kart and (git.git_directory / _TILES).is_file()


def _mark(git: GitRepository) -> Path:
    return _folder(git) / "workspace-behind"


@contextmanager
def committing(repo: OpenRepo) -> Iterator[None]:
    """Refuse while a merge waits, and bring the tables along with what a block commits."""
    require_no_merge(repo)
    with following(repo):
        yield


def require_no_merge(repo: OpenRepo) -> None:
    """Raise while a merge waits for its conflicts to be resolved, as git does."""
    require_no_merge_of_kart(repo.git)
    if merge_waits(repo.git):
        from havasu_vc.merging import require_calm

        require_calm(repo)


@contextmanager
def following(repo: OpenRepo, *, discard: bool = False) -> Iterator[None]:
    """Bring the tables, if any are checked out, along with HEAD after a block that moves it.

    `discard` drops edits in tables that the new commit has otherwise.
    """
    set_up(repo)
    place = living_place(repo)
    with ExitStack() as stack:
        if place is not None and place.exists:
            from havasu_vc.checkouts.living_following import holding

            stack.enter_context(holding(repo, place, discard=discard))
        if has_tiles(repo.git):
            from havasu_vc.checkouts.tiles_in_place import tiles_following

            stack.enter_context(tiles_following(repo, repo.git.git_directory / _TILES))
        stack.enter_context(_tables_following(repo, discard=discard))
        yield


@contextmanager
def _tables_following(repo: OpenRepo, *, discard: bool) -> Iterator[None]:
    if not has_workspace(repo.git):
        yield
        return
    mark = _mark(repo.git)
    with marked(mark):
        try:
            yield
        except HavasuError:
            # Some operations move HEAD more than once, and stop on the way.
            _follow(repo, mark, discard=False)
            raise
        _follow(repo, mark, discard=discard)


def catch_up(repo: OpenRepo) -> None:
    """Do what a command that died left undone; who is at work, or holds a lock, is let be."""
    place = living_place(repo)
    if place is not None and is_left_undone(behind_mark(repo.git)) and place.exists:
        from havasu_vc.checkouts.living_following import finish

        finish(repo, place)
    mark = _mark(repo.git)
    if is_left_undone(mark) and has_workspace(repo.git):
        with suppress(LockedError):
            _follow(repo, mark, discard=False, waiting=False)


def _follow(repo: OpenRepo, mark: Path, *, discard: bool, waiting: bool = True) -> None:
    from havasu_vc.checkouts.checking_out import PATIENCE, follow

    try:
        result = follow(repo, discard=discard, patience=PATIENCE if waiting else 0)
        unmark(mark)
    except (HavasuError, OSError) as error:
        if isinstance(error, LockedError) and not waiting:
            raise
        hints = error.hints if isinstance(error, HavasuError) else ()
        hint = hints[0] if hints else "`havasu-vc checkout` brings them along"
        repo.settings.note(f"the tables stay as they were: {error}; {hint}")
        return
    for note in result.notes:
        repo.settings.note(note)
