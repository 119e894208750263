"""Which data files the checked-out tables of a repository use, in any of its work trees."""

from __future__ import annotations

from collections.abc import Iterator

from havasu_vc.store.repository import GitRepository
from havasu_vc.workspace.state import TableState, read_state

__all__ = ["checked_out_files", "checked_out_trees", "clustered_trees"]


def checked_out_files(git: GitRepository) -> set[str]:
    """Return the data files of the tables that are checked out in any work tree."""
    found: set[str] = set()
    for table in _tables(git):
        found.update(table.files)
        found.update(source for batch in table.deletes for source in batch.sources)
    return found


def checked_out_trees(git: GitRepository) -> set[str]:
    """Return the trees of internals that the tables of any work tree are of."""
    return {table.tree for table in _tables(git)}


def clustered_trees(git: GitRepository) -> set[str]:
    """Return the trees of the clustered versions that tables of any work tree show."""
    return {table.clustered for table in _tables(git) if table.clustered is not None}


def _tables(git: GitRepository) -> Iterator[TableState]:
    common = git.common_directory
    for directory in (common, *sorted(common.glob("worktrees/*"))):
        state = read_state(directory)
        yield from () if state is None else state.tables.values()
