"""Kart's working copy of tiles: its files are Kart's, and say of which tree they are.

A commit by which no tile came, changed or went leaves each file as it is to be, so what they are
said to be of moves along: else Kart takes the files for those of another commit, and refuses
whatever looks at them. Where tiles differ that is told, and Kart brings the files along.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from havasu_vc.checkouts.living_edits import goal_of
from havasu_vc.checkouts.living_place import left_out
from havasu_vc.datasets.tile_sets import is_tile_set, tile_changes
from havasu_vc.exchange.ogr_formats import read_only
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.objects import EMPTY_TREE
from havasu_vc.store.revisions import Revision

__all__ = ["tiles_following"]

_READ = "SELECT value FROM kart_state WHERE table_name = '*' AND key = 'tree'"
_WRITE = "UPDATE kart_state SET value = ? WHERE table_name = '*' AND key = 'tree'"


@contextmanager
def tiles_following(repo: OpenRepo, file: Path) -> Iterator[None]:
    """Let a working copy of tiles be of HEAD after a block that moves it, where no tile differs."""
    try:
        yield
    finally:
        # Some operations move HEAD more than once, and stop on the way.
        try:
            _follow(repo, file)
        except sqlite3.Error as error:
            repo.settings.note(f"{file.name} stays as it was, and with it the tiles: {error}")


def _follow(repo: OpenRepo, file: Path) -> None:
    goal = goal_of(repo)
    with closing(sqlite3.connect(read_only(str(file)), uri=True)) as database:
        found = database.execute(_READ).fetchone()
    tree = str(found[0]) if found is not None else ""
    if tree in ("", goal.tree) or not repo.git.objects.has(tree):
        return
    differing = _differing(repo, Revision(f"tree {tree[:10]}", None, tree), goal)
    for path in differing:
        repo.settings.note(
            f"{path}: the tiles in the working copy stay as they were; `kart reset "
            "--discard-changes` of Kart itself brings them along"
        )
    if not differing:
        with closing(sqlite3.connect(file)) as database, database:
            database.execute(_WRITE, [goal.tree])


def _differing(repo: OpenRepo, old: Revision, new: Revision) -> list[str]:
    """Return the paths of sets of tiles of which two versions have other tiles."""
    before = repo.folders(old) if old.tree != EMPTY_TREE else {}
    after = repo.folders(new)
    found = []
    for path in sorted((before.keys() | after.keys()) - set(left_out(repo.git))):
        was, now = before.get(path), after.get(path)
        first, second = was if is_tile_set(was) else None, now if is_tile_set(now) else None
        if tile_changes(repo.git.objects, first, second).total:
            found.append(path)
    return found
