"""The trees that git still reaches, from which a data file may be wanted.

Asked of git itself, in one walk: all refs (tags, remote branches, the stash), every
work tree's HEAD, all reflogs, and what operations that stopped half-way have noted in
the git directories (a merge's other side, a rebase's rest). An index names files of
its own, which need be in no tree yet. Replaced commits count with what they replace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.records import dataclass
from havasu_vc.store.objects import ObjectId, ObjectSource
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import TREE, read_entries

__all__ = ["Roots", "collect_roots", "reachable_files"]

_ID = re.compile(rb"\b[0-9a-f]{40}\b")
_FILE = re.compile(r"([0-9a-f]{64})(?:\.json)?")
_HEADS = re.compile(r"[A-Z_]*HEAD|AUTO_MERGE")
_OPERATIONS = ("rebase-merge", "rebase-apply", "sequencer", "havasu/merge")
_MOST_BYTES = 16 * 1024 * 1024
_MARKER = HAVASU_MARKER.encode()


@dataclass(frozen=True, slots=True)
class Roots:
    """Where a walk begins that finds all data files in use."""

    trees: frozenset[ObjectId]
    """Root trees of all commits, and trees that stand on their own."""
    files: frozenset[str]
    """Data files that an index names."""


def collect_roots(repository: GitRepository) -> Roots:
    """Return what the refs, reflogs, indexes and unfinished operations of a repository reach."""
    noted = sorted(set(_noted_ids(repository)))
    answer = repository.git(
        "rev-list",
        "--all",
        "--reflog",
        "--ignore-missing",
        "--format=%T",
        "--stdin",
        stdin="".join(f"{number}\n" for number in noted).encode(),
        environment={"GIT_NO_REPLACE_OBJECTS": "1"},
    )
    trees = {line for line in answer.lines if not line.startswith("commit ")}
    trees.update(_lone_trees(repository, noted))
    return Roots(frozenset(trees), frozenset(_indexed_files(repository)))


def _git_directories(repository: GitRepository) -> list[Path]:
    """Return the common git directory and those of linked work trees, gone ones included."""
    linked = repository.common_directory / "worktrees"
    found = [repository.common_directory, repository.git_directory]
    if linked.is_dir():
        found += [folder for folder in sorted(linked.iterdir()) if folder.is_dir()]
    return list(dict.fromkeys(found))


def _noted_ids(repository: GitRepository) -> Iterator[ObjectId]:
    """Yield the ids in MERGE_HEAD and the like, in the notes of rebases, and of checkouts."""
    for directory in _git_directories(repository):
        files = [path for path in directory.iterdir() if _HEADS.fullmatch(path.name)]
        for name in _OPERATIONS:
            folder = directory / name
            files += list(folder.iterdir()) if folder.is_dir() else []
        # Tables with edits may be of a commit that nothing else reaches.
        files.append(directory / "havasu" / "workspace.json")
        for path in files:
            if path.is_file() and path.stat().st_size <= _MOST_BYTES:
                for found in _ID.findall(path.read_bytes()):
                    yield found.decode()


def _lone_trees(repository: GitRepository, noted: Iterable[ObjectId]) -> Iterator[ObjectId]:
    """Yield trees that a ref or a note names directly, without a commit."""
    form = "%(objecttype) %(objectname) %(*objecttype) %(*objectname)"
    for line in repository.git("for-each-ref", f"--format={form}").lines:
        words = line.split()
        for kind, identity in zip(words[::2], words[1::2], strict=True):
            if kind == "tree":
                yield identity
    for identity in noted:
        try:
            kind, _ = repository.objects.read(identity)
        except CorruptDatasetError:
            continue  # noted once, pruned since
        if kind == "tree":
            yield identity


def _indexed_files(repository: GitRepository) -> Iterator[str]:
    if repository.is_kart:
        return  # Kart locks the index against git, and nothing of ours is in it
    for directory in _git_directories(repository):
        index = directory / "index"
        if not index.is_file():
            continue
        answer = repository.git(
            "ls-files", "--stage", "-z", environment={"GIT_INDEX_FILE": str(index)}
        )
        for line in answer.output.split(b"\0"):
            _, _, path = line.partition(b"\t")
            if _MARKER in path.split(b"/"):
                match = _FILE.fullmatch(path.rpartition(b"/")[2].decode("utf-8", "replace"))
                if match:
                    yield match[1]


def reachable_files(source: ObjectSource, trees: Iterable[ObjectId]) -> set[str]:
    """Return the data files that the datasets in some trees name.

    Each tree is read once, however many commits have it, so the cost follows what
    commits changed. A tree that cannot be read is an error: nothing may be deleted then.
    """
    files: set[str] = set()
    seen: set[tuple[bytes, bool]] = set()
    waiting = [(bytes.fromhex(tree), False) for tree in trees]
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        tree, inside = place
        for mode, name, identity in read_entries(source, tree.hex()):
            if mode == TREE:
                waiting.append((identity, inside or name == _MARKER))
            elif inside:
                match = _FILE.fullmatch(name.decode("utf-8", "replace"))
                if match:
                    files.add(match[1])
    return files
