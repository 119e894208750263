"""Packing git's objects anew, each as what it differs in from one that is like it.

A commit adds its objects at once and with what it knows: trees as differences from those of
the commit before. After some hundreds of commits a pack is half as large in which git has
looked for likeness everywhere. That takes time for each object, so it is done where all are
few, as those of Havasu datasets are; large packs are joined as they are.

    <data folder>/packed    the packs that this left; where they are all there are, it is done
"""

from __future__ import annotations

from contextlib import suppress

from havasu_vc.store.durability import replace_file
from havasu_vc.store.locks import exclusive_lock, without_git_gc
from havasu_vc.store.repository import GitRepository

__all__ = ["pack_anew"]

FEW = 64 << 20
"""Bytes of packs up to which git compares all objects anew."""
LOOSE = 200
"""So many loose objects are worth being packed."""


def pack_anew(repository: GitRepository) -> int:
    """Make one pack of all objects; return the bytes that git needs less now.

    What no ref reaches stays in it: tables and merges that wait are of commits that git does
    not know to be needed. `git gc` drops what has been so for its own grace period.
    """
    before = _counted(repository)
    folder = repository.data_folder
    done = folder / "packed"
    with suppress(OSError):
        if before["count"] < LOOSE and done.read_text("utf-8") == _packs(repository):
            return 0
    size = 1024 * before["size-pack"]
    anew = ("-f", "--window=50", "--depth=50") if size <= FEW else ()
    folder.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(folder / "lock"), without_git_gc(repository.common_directory):
        repository.git("repack", "-a", "-k", "-d", "-l", "-q", *anew)
        repository.git("prune-packed", "-q")
        replace_file(done, _packs(repository).encode())
    after = _counted(repository)
    return 1024 * sum(before[name] - after[name] for name in ("size", "size-pack"))


def _packs(repository: GitRepository) -> str:
    """Return the names of the packs, a line each."""
    found = (repository.common_directory / "objects" / "pack").glob("pack-*.pack")
    return "".join(f"{name}\n" for name in sorted(path.name for path in found))


def _counted(repository: GitRepository) -> dict[str, int]:
    """Return what git counts of its objects: loose ones, packs, and their kilobytes."""
    lines = repository.git("count-objects", "-v").lines
    pairs = (line.split(": ", 1) for line in lines if ": " in line)
    return {name: int(value) for name, value in pairs if value.isdigit()}
