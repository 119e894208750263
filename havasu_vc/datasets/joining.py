"""Files of a dataset of which two sides changed others: they come together as they are."""

from __future__ import annotations

from collections.abc import Iterable

from havasu_vc.datasets.folder import Folder
from havasu_vc.store.trees import Change, Existing

__all__ = ["joined_files"]


def joined_files(base: Folder, ours: Folder, theirs: Folder) -> dict[str, Change] | str:
    """Return the files of theirs that ours takes, or the name of one that both sides changed.

    So did both where a file of one side is in the place of a folder of the other.
    """
    mine = {name: after for name, _, after in base.difference(ours, "")}
    other = {name: after for name, _, after in base.difference(theirs, "")}
    for name, after in other.items():
        if name in mine and mine[name] != after:
            return name
    come = [{name for name, after in side.items() if after is not None} for side in (mine, other)]
    if clash := come[0] & _folders(come[1]) or come[1] & _folders(come[0]):
        return min(clash)
    return {
        name: None if after is None else Existing(after)
        for name, after in sorted(other.items(), key=lambda each: (each[1] is not None, each[0]))
        # A file in the place of a folder takes all of it away.
        if name not in mine and (after is not None or not _above(name) & come[1])
    }


def _above(name: str) -> set[str]:
    parts = name.split("/")
    return {"/".join(parts[:count]) for count in range(1, len(parts))}


def _folders(names: Iterable[str]) -> set[str]:
    """Return every folder above some files."""
    found: set[str] = set()
    for name in names:
        folder = name.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found
