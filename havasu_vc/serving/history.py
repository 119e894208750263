"""The versions of a dataset that a catalog shows: what its branch brought, commit by commit.

First parents only, so that what stands on a branch is one line, as snapshots of a table are. A
version is the commit that gave the dataset the tree that it has. The number of a version counts
the commits of its line up to there, so it grows from version to version wherever it is counted.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from havasu_vc.model.names import TABLES
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.trees import find_entry

__all__ = ["MOST", "Version", "VersionHistory"]

MOST = 10
"""So many versions are shown."""
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Version:
    """A dataset as one commit made it."""

    commit: Commit
    """The commit."""
    marker: str
    """The name of the folder of internals, which tells the kind."""
    tree: str
    """The tree of the internals."""
    number: int
    """The place of the commit in its line, from 1."""


class VersionHistory:
    """Finds versions, and remembers those that it found."""

    def __init__(self) -> None:
        self._versions: OrderedDict[tuple[str, str], tuple[Version, ...]] = OrderedDict()
        self._numbers: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def versions(self, repo: OpenRepo, commit: str, path: str) -> tuple[Version, ...]:
        """Return the newest versions of a dataset, newest first; none where there is none.

        One more than are shown: the oldest is what the one before it is compared with.
        """
        known = self._known(commit, path)
        if known is not None:
            return known
        runs: list[tuple[Commit, tuple[str, str]]] = []
        rest: tuple[Version, ...] = ()
        at: str | None = commit
        while at is not None and len(runs) <= MOST + 1:
            seen = self._known(at, path)
            if seen is not None:
                rest = seen
                break
            here = read_commit(repo.git.objects, at)
            inside = _internals(repo, here, path)
            if inside is None or (runs and inside[0] != runs[-1][1][0]):
                break
            if runs and runs[-1][1] == inside:
                runs.pop()  # the older commit gave it this tree
            runs.append((here, inside))
            at = _parent(repo, here)
        if runs and rest and runs[-1][1] == (rest[0].marker, rest[0].tree):
            runs.pop()
        found = [Version(each, *inside, self._number(repo, each.id)) for each, inside in runs]
        versions = (*found, *rest)[: MOST + 1]
        with self._lock:
            self._versions[commit, path] = versions
            while len(self._versions) > _REMEMBERED:
                self._versions.popitem(last=False)
        return versions

    def _known(self, commit: str, path: str) -> tuple[Version, ...] | None:
        with self._lock:
            found = self._versions.get((commit, path))
            if found is not None:
                self._versions.move_to_end((commit, path))
            return found

    def _number(self, repo: OpenRepo, commit: str) -> int:
        """Return how many commits a line has up to one."""
        line: list[str] = []
        at: str | None = commit
        with self._lock:
            while at is not None and at not in self._numbers:
                line.append(at)
                at = _parent(repo, read_commit(repo.git.objects, at))
            number = 0 if at is None else self._numbers[at]
            for each in reversed(line):
                number += 1
                self._numbers[each] = number
            while len(self._numbers) > 100 * _REMEMBERED:
                self._numbers.popitem(last=False)
            return number


def _internals(repo: OpenRepo, commit: Commit, path: str) -> tuple[str, str] | None:
    """Return the marker and tree of a dataset in a commit."""
    folder = find_entry(repo.git.objects, commit.tree, path)
    if folder is None or not folder.is_tree:
        return None
    for marker in TABLES:
        inside = find_entry(repo.git.objects, folder.id, marker)
        if inside is not None and inside.is_tree:
            return marker, inside.id
    return None


def _parent(repo: OpenRepo, commit: Commit) -> str | None:
    """Return the first parent of a commit; None where there is none, as where a clone ends."""
    parents = commit.parents
    return parents[0] if parents and repo.git.objects.has(parents[0]) else None
