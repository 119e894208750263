"""Conflicts of a merge of two commits, foreseen without merging them.

Git is asked as a host asks it. Where it does not merge by itself, the merge is gone through row
by row and a few conflicts of each kind are kept; what is needed on the way is put into a folder
that goes again, and nothing into the repository.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from havasu_vc.history.conflicts import DatasetConflicts
from havasu_vc.history.glances import Glance
from havasu_vc.merging.bases import base_tree, merge_bases
from havasu_vc.merging.state import MergeState
from havasu_vc.merging.trees import MergeRules, clashing_files, merge_trees, root_tree
from havasu_vc.merging.views import viewed_conflicts
from havasu_vc.model.conflicts import ConflictedDataset
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.drafts import Draft
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.repository import GitRepository

__all__ = ["Foreseen", "foreseen", "git_merges"]


@dataclass(frozen=True, slots=True)
class Foreseen:
    """The conflicts of a merge that was not made."""

    rows: Mapping[str, int]
    """How many rows, by dataset that has any."""
    datasets: tuple[tuple[DatasetConflicts, ConflictedDataset], ...]
    """Conflicts by path, of rows the first of each kind; and their meta items to look at."""
    files: tuple[str, ...]
    """Files beside the datasets that git cannot merge."""


def git_merges(git: GitRepository, ours: str, theirs: str) -> bool | None:
    """Whether git merges two commits by itself, as hosts have it do; nothing of it is kept.

    None where it cannot say, as one before 2.38.
    """
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as folder:
        places = {
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(git.common_directory / "objects"),
        }
        ask = ("merge-tree", "--write-tree", "--name-only", ours, theirs)
        code = git.git(*ask, check=False, environment=places).code
    return code == 0 if code in (0, 1) else None


def foreseen(repo: OpenRepo, ours: str, theirs: str, *, most: int) -> Foreseen:
    """Return what a merge of two commits would leave in conflict, with so many rows of a kind."""
    glance = Glance(most)
    with tempfile.TemporaryDirectory(prefix="havasu-vc-") as folder:
        staging = DataFileStore(Path(folder))
        storage = replace(repo.storage, staging=staging, sink=Draft(repo.git.objects))
        sides = [root_tree(repo, repo.resolve(commit)) for commit in (ours, theirs)]
        base = base_tree(repo, storage, merge_bases(repo, ours, theirs, theirs))
        trees = (base.tree, sides[0].tree, sides[1].tree)
        files = tuple(clashing_files(repo, *trees, source=base.source))
        rules = MergeRules(glance=glance)
        merged = merge_trees(repo, storage, (base, sides[0], sides[1]), rules)
        found = [each.conflicts for each in merged.values() if each.conflicts is not None]
        state = MergeState(ours, theirs, theirs, "", conflicts=tuple(found))
        datasets = tuple(
            (each, viewed_conflicts(repo, state, replace(each, rows=None)))
            for each in sorted(found, key=lambda each: each.path)
        )
    return Foreseen(glance.rows, datasets, files)
