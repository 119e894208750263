"""Which small files a commit takes up into one.

Deltas are the small data files that edits leave behind. Up to 32 of them may stand;
beyond that the smallest are merged, as many as are of about one size, so that a row
is rewritten a number of times that grows with the logarithm of the commits.
"""

from __future__ import annotations

from collections.abc import Iterable

from havasu_vc.formats.havasu.entry import Entry, Origin

__all__ = ["files_to_fold", "is_small"]

MOST_DELTAS = 32
SMALL_FILE = 8 * 1024 * 1024
_TIER = 4


def is_small(entry: Entry) -> bool:
    """Whether a file is small enough to be merged with others."""
    return entry.size < SMALL_FILE


def files_to_fold(entries: Iterable[Entry], *, coming: int = 0) -> set[str]:
    """Return the data files to merge when `coming` more are about to be added."""
    deltas = sorted(
        (e for e in entries if e.origin is not Origin.IMPORT and is_small(e)),
        key=lambda entry: (entry.size, entry.file),
    )
    if len(deltas) + coming <= MOST_DELTAS:
        return set()
    chosen: list[Entry] = []
    size = 0
    for entry in deltas:
        # The next tier starts where a file outweighs much of what is merged already.
        if len(chosen) > MOST_DELTAS // 2 and entry.size * _TIER > size:
            break
        chosen.append(entry)
        size += entry.size
    return {entry.file for entry in chosen}
