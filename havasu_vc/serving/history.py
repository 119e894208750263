"""The versions of a dataset that a catalog shows: what its branch brought, commit by commit.

First parents only, so that what stands on a branch is one line, as snapshots of a table are. A
version is the commit that gave the dataset the tree that it has. The number of a version counts
the commits of its line up to there, so it grows from version to version wherever it is counted.

The steps of a dataset along its branch: the commits that changed it, each with what was before.

A snapshot for every commit would be too many, and with snapshots of the last hundred commits
one would go with each that comes. So snapshots begin where some commit says so by its own name,
one of 128 on average, with 128 or more after it: whoever derives them finds the same beginning,
and it moves once in a while, by many commits. What was before is divided into stretches, at
every commit that says so.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from havasu_vc.model.names import TABLES
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.remembering import Remembered
from havasu_vc.store.commits import Commit, read_commit
from havasu_vc.store.objects import StoredObjects
from havasu_vc.store.trees import find_entry

__all__ = ["MOST", "Step", "Steps", "Version", "VersionHistory"]

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


LEAST = 128
"""So many steps are shown where there are as many."""
BEGINNINGS = 128
"""One of so many commits may be a beginning."""
_MOST_KNOWN = 100_000


@dataclass(frozen=True, slots=True)
class Step:
    """One commit of a dataset's branch."""

    version: Version
    """The version that it made of the dataset."""
    before: Version | None
    """The version before; None where there was none."""


class Steps:
    """Finds the steps of datasets, and remembers those that it found."""

    def __init__(self, history: VersionHistory) -> None:
        self._history = history
        self._lines: Remembered[tuple[str, str], tuple[Version, ...]] = Remembered(_MOST_KNOWN, len)

    def find(self, repo: OpenRepo, commit: str, path: str) -> tuple[Step, ...]:
        """Return the steps that snapshots of a dataset's feed show, oldest first."""
        newest = self._history.versions(repo, commit, path)
        if not newest:
            return ()
        line = self._lines.made(
            (newest[0].commit.id, path), lambda: self._line(repo, newest[0].commit.id, path)
        )
        steps = [Step(*pair) for pair in pairwise(line)]
        last = line[-1]
        # Where a clone was cut off, or snapshots begin, of the oldest version no step is shown.
        if _beginning(line) is None and not _cut_off(repo.git.objects, last):
            steps.append(Step(last, None))
        return tuple(reversed(steps))

    def stretch(self, repo: OpenRepo, commit: str, path: str) -> tuple[Step, ...]:
        """Return the steps from a version back to where the next stretch begins, oldest first."""
        line: list[Version] = []
        for version in self._walk(repo, commit, path):
            line.append(version)
            if len(line) > 1 and _divides(version):
                break
        steps = [Step(*pair) for pair in pairwise(line)]
        if line and (len(line) == 1 or not _divides(line[-1])):
            if not _cut_off(repo.git.objects, line[-1]):
                steps.append(Step(line[-1], None))
        return tuple(reversed(steps))

    def _walk(self, repo: OpenRepo, commit: str, path: str) -> Iterator[Version]:
        """Yield the versions of a line, newest first."""
        at: str | None = commit
        while at is not None:
            versions = self._history.versions(repo, at, path)
            yield from versions
            at = None
            if versions and versions[-1].commit.parents:
                cut_off = _cut_off(repo.git.objects, versions[-1])
                at = None if cut_off else versions[-1].commit.parents[0]

    def _line(self, repo: OpenRepo, commit: str, path: str) -> tuple[Version, ...]:
        """Return versions, newest first, back to the beginning of the feed."""
        found: list[Version] = []
        at: str | None = commit
        while at is not None and _beginning(found) is None:
            at = self._go_back(repo, at, path, found)
        beginning = _beginning(found)
        return tuple(found if beginning is None else found[: beginning + 1])

    def _go_back(self, repo: OpenRepo, at: str, path: str, found: list[Version]) -> str | None:
        """Add the next versions to what was found, and return the commit to go on at."""
        versions = self._history.versions(repo, at, path)
        for version in versions:
            known = self._lines.get((version.commit.id, path))
            if known is not None:
                found += known
                return None
            found.append(version)
        if not versions or not versions[-1].commit.parents:
            return None
        return None if _cut_off(repo.git.objects, found[-1]) else found[-1].commit.parents[0]


def _beginning(line: Sequence[Version]) -> int | None:
    """Return the place of the version that snapshots begin after; None where a line has none."""
    for place in range(LEAST, len(line)):
        if _divides(line[place]):
            return place
    return None


def _divides(version: Version) -> bool:
    """Whether a stretch ends with a version."""
    return int(version.commit.id[:8], 16) % BEGINNINGS == 0


def _cut_off(objects: StoredObjects, version: Version) -> bool:
    """Whether it is not known what was before a version, as where a clone ends."""
    parents = version.commit.parents
    return bool(parents) and not objects.has(parents[0])
