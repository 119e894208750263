"""Collecting garbage: data files and what was derived from them, once nothing reaches them.

While it runs no commit can begin or end (`store.locks`), so what it finds unreached
stays so. What is young is spared all the same: it may belong to something that git
does not know of yet. Key caches go with their files; they can be rebuilt.

The trees that git still reaches, from which a data file may be wanted.

Asked of git itself, in one walk: all refs (tags, remote branches, the stash), every
work tree's HEAD, all reflogs, and what operations that stopped half-way have noted in
the git directories (a merge's other side, a rebase's rest). An index names files of
its own, which need be in no tree yet. Replaced commits count with what they replace.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import time
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reporting_storage_errors
from havasu_vc.store.files import STALE_SECONDS, DataFileStore, LinkedFiles
from havasu_vc.store.locks import exclusive_lock
from havasu_vc.store.objects import ObjectId, ObjectSource
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.room import make_room
from havasu_vc.store.sound import forget_complete
from havasu_vc.store.trees import TREE, read_entries

__all__ = [
    "Garbage",
    "Roots",
    "collect_garbage",
    "collect_roots",
    "delete_unreached",
    "reachable_files",
    "waits_for_objects",
]

GRACE_SECONDS = 14 * 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class Garbage:
    """The files that were removed, or would be."""

    files: int
    """Data files."""
    size: int
    """Bytes of all that was removed."""
    kept_young: int = 0
    """Unreached data files that are younger than the grace period."""


def collect_garbage(
    repository: GitRepository,
    *,
    keep: Iterable[str] = (),
    grace_seconds: float = GRACE_SECONDS,
    dry_run: bool = False,
) -> Garbage:
    """Delete what nothing in a repository reaches and is older than the grace period.

    `keep` are data files that something outside of git uses, such as a checkout.
    """
    folder = repository.data_folder
    if not folder.is_dir():
        return Garbage(0, 0)
    with exclusive_lock(folder / "lock", dry_run=dry_run):
        roots = collect_roots(repository)
        reached = reachable_files(repository.objects, roots.trees)
        reached |= roots.files
        reached.update(keep)
        return delete_unreached(folder, reached, grace_seconds=grace_seconds, dry_run=dry_run)


def delete_unreached(
    folder: Path, reached: Container[str], *, grace_seconds: float, dry_run: bool = False
) -> Garbage:
    """Delete what is old below a repository's data folder and not among `reached`.

    The caller holds the lock exclusively, since before it found out what is reached.
    """
    store = DataFileStore(folder, folder.parent / "lfs")
    oldest = time.time() - grace_seconds
    if not dry_run:
        # A commit that nothing reaches now may come back by a fetch, without its files.
        forget_complete(folder)
    count = size = young = 0
    gone: set[str] = set()
    for file in list(store.iter()):
        if file in reached:
            continue
        status = store.location(file).lstat()
        if status.st_mtime > oldest:
            young += 1
            continue
        count += 1
        size += status.st_size
        gone.add(file)
        if not dry_run:
            store.delete(file)
    if not dry_run:
        _forget_links(folder, reached, oldest)
    stale = time.time() - min(grace_seconds, STALE_SECONDS)
    derived, sent = _derived(folder / "keys", reached, gone, stale), _sent(folder, oldest)
    for path in (*derived, *_abandoned(folder, stale), *sent):
        size += _size(path)
        if not dry_run:
            _remove(path)
    # What the catalog derives is made again when somebody asks for it.
    size += make_room(folder / "catalog", 0, seconds=grace_seconds, dry_run=dry_run)
    return Garbage(count, size, young)


def _forget_links(folder: Path, reached: Container[str], oldest: float) -> None:
    """Remove links to files that nothing reaches; the files belong to others and stay."""
    linked = LinkedFiles(folder / "linked")
    for file in list(linked.iter()):
        # Its time is the file's, so the change of the link itself tells its age.
        if file not in reached and linked.place(file).lstat().st_ctime <= oldest:
            linked.forget(file)


def _derived(
    keys: Path, reached: Container[str], gone: Container[str], stale: float
) -> Iterator[Path]:
    """Yield key caches and marks of files that are gone, and unfinished ones."""
    for path in _inside(keys):
        file, dash, _ = path.name.partition("-")
        if path.name.startswith(".tmp-"):
            if _newest(path) <= stale:
                yield path
        elif dash and (file in gone or (file not in reached and _newest(path) <= stale)):
            yield path


def _abandoned(folder: Path, stale: float) -> Iterator[Path]:
    """Yield what crashes left: files in the making, and commits' staging folders."""
    inside = [*_inside(folder / "temporary"), *_inside(folder / "staging")]
    # Objects that libgit2 was writing: git does not know the name, and removes none of them.
    inside += (folder.parent / "objects").glob("tmp_object_git2_*")
    # Packs of ours: git knows the name, but removes what is left when it prunes, which it may not.
    inside += (folder.parent / "objects" / "pack").glob("tmp_*_havasu_*")
    for path in inside:
        if _newest(path) <= stale:
            yield path


def _sent(folder: Path, oldest: float) -> Iterator[Path]:
    """Yield what clients of the catalog wrote: what they committed is in the store besides.

    DuckDB puts the positions of rows that it deletes beside the data file.
    """
    found = [*(folder / "catalog" / "staging").glob("*/*/*")]
    found += (folder / "objects").glob("??/??/*-deletes.parquet")
    for path in found:
        if _newest(path) <= oldest:
            yield path


def _inside(folder: Path) -> list[Path]:
    with reporting_storage_errors(folder), contextlib.suppress(FileNotFoundError):
        return sorted(folder.iterdir())
    return []


def _newest(path: Path) -> float:
    """Return when anything at or below a path was last written."""
    times = [0.0]
    with contextlib.suppress(FileNotFoundError):
        times.append(path.lstat().st_mtime)
        if path.is_dir() and not path.is_symlink():
            times += [_newest(inner) for inner in path.iterdir()]
    return max(times)


def _size(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            return sum(_size(inner) for inner in path.iterdir())
        return path.lstat().st_size
    return 0


def _remove(path: Path) -> None:
    with reporting_storage_errors(path), contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


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


def waits_for_objects(repository: GitRepository) -> bool:
    """Whether anything noted here, such as a merge that waits, has objects that no ref reaches."""
    if repository.kart_merge is not None:
        return True
    noted = [each for each in sorted(set(_noted_ids(repository))) if _is_there(repository, each)]
    if not noted:
        return False
    reached = ("--not", "--all", "--reflog")
    return bool(repository.git("rev-list", "--max-count=1", "--objects", *noted, *reached).text)


def _is_there(repository: GitRepository, identity: ObjectId) -> bool:
    try:
        repository.objects.read(identity)
    except CorruptDatasetError:
        return False  # noted once, pruned since
    return True


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
