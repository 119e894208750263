"""Collecting garbage: data files and what was derived from them, once nothing reaches them.

While it runs no commit can begin or end (`store.locks`), so what it finds unreached
stays so. What is young is spared all the same: it may belong to something that git
does not know of yet. Key caches go with their files; they can be rebuilt.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

from havasu_vc.records import dataclass
from havasu_vc.store.durability import reporting_storage_errors
from havasu_vc.store.files import STALE_SECONDS, DataFileStore, LinkedFiles
from havasu_vc.store.locks import exclusive_lock
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.room import make_room
from havasu_vc.store.sound import forget_complete
from havasu_vc.upkeep.roots import collect_roots, reachable_files

__all__ = ["Garbage", "collect_garbage", "delete_unreached"]

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
    with exclusive_lock(folder / "lock"):
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
