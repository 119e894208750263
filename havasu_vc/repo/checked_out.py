"""Which data files the checked-out tables of a repository use, in any of its work trees."""

from __future__ import annotations

from havasu_vc.store.repository import GitRepository
from havasu_vc.workspace.state import read_state

__all__ = ["checked_out_files"]


def checked_out_files(git: GitRepository) -> set[str]:
    """Return the data files of the tables that are checked out in any work tree."""
    common = git.common_directory
    found: set[str] = set()
    for directory in (common, *sorted(common.glob("worktrees/*"))):
        state = read_state(directory)
        for table in () if state is None else state.tables.values():
            found.update(table.files)
            found.update(source for batch in table.deletes for source in batch.sources)
    return found
