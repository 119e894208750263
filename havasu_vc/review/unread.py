"""Rows that a review could not read, and its words for them.

A data file may not be here, be damaged, or be of a format that this version does not know,
and a dataset that git merged as text is none that anybody could vouch for. None of these
stops a review: what is known without the rows is told, with the flag `unverified` and the
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import (
    CorruptionError,
    DataFileNotFoundError,
    GeometryError,
    HavasuError,
    MissingProgramError,
    StorageError,
)
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import ChangeCounts
from havasu_vc.model.names import TABLES
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.soundness import defect_of
from havasu_vc.review.entry_facts import entry_words
from havasu_vc.review.report import DatasetReview, Flag, FlagKind
from havasu_vc.store.revisions import Revision, RevisionRange
from havasu_vc.store.trees import DatasetFolder

__all__ = ["ReadableRows", "Unverified", "broken_datasets", "unread_review"]


@dataclass(slots=True)
class Unverified:
    """Hears notes about datasets, keeps those on rows that were not compared, passes others on."""

    pass_on: Callable[[str], None]
    """Hears the others."""
    notes: list[str] = field(default_factory=list)
    """Notes on rows that are shown as a commit claims them."""

    def __call__(self, note: str) -> None:
        """Take a note."""
        if " unverified" in note:
            self.notes.append(note)
        else:
            self.pass_on(note)

    def flags(self, path: str) -> tuple[Flag, ...]:
        """Return what was said of one dataset as flags."""
        start = f"{path}: "
        said = [each.removeprefix(start) for each in self.notes if each.startswith(start)]
        return tuple(Flag(FlagKind.UNVERIFIED, _plain(text)) for text in said)


class ReadableRows:
    """Yields changes until one cannot be read, and keeps why."""

    def __init__(self, changes: Iterator[ChangeBatch]) -> None:
        self._changes = changes
        self.missing: str | None = None
        """Why not all could be read; None where all were."""

    def __iter__(self) -> Iterator[ChangeBatch]:
        try:
            yield from self._changes
        except DataFileNotFoundError as error:
            self.missing = f"data file `{error.file[:16]}` is not here"
        except (StorageError, MissingProgramError) as error:
            self.missing = f"data files cannot be brought (`{_plain(str(error))}`)"
        except (CorruptionError, GeometryError) as error:
            self.missing = f"data files cannot be read (`{_plain(str(error))}`)"


def unread_review(
    each: DatasetReview, missing: str, old: Dataset | None, new: Dataset | None
) -> DatasetReview:
    """Return a review that says that, and why, its rows were not all read."""
    some = f", and only {each.counts.total:,} changes could be read" if each.counts.total else ""
    text = f"{missing}{some}; {entry_words(old, new)}"
    return _flagged(each, text)


def _flagged(each: DatasetReview, text: str) -> DatasetReview:
    flag = Flag(FlagKind.UNVERIFIED, f"rows are not shown: {text}")
    return replace(each, unread=text, flags=(flag, *each.flags))


def broken_datasets(repo: OpenRepo, ends: RevisionRange) -> dict[str, DatasetReview]:
    """Return what can be said of datasets that differ and of which one side cannot be opened."""
    before, after = repo.folders(ends.old), repo.folders(ends.new)
    found: dict[str, DatasetReview] = {}
    for path in sorted(before.keys() | after.keys()):
        first, second = before.get(path), after.get(path)
        if first is not None and second is not None and first.internals == second.internals:
            continue
        sides = {"before": (first, ends.old), "after": (second, ends.new)}
        reasons = {name: _reason(repo, *side) for name, side in sides.items()}
        if any(reasons.values()):
            found[path] = _broken(repo, path, sides, reasons)
    return found


def _reason(repo: OpenRepo, folder: DatasetFolder | None, revision: Revision) -> str | None:
    if folder is None:
        return None
    if folder.marker not in TABLES:
        return _plain(f"it is a dataset of another kind ({folder.marker})")
    error = defect_of(repo.view(folder, revision.name))
    return None if error is None else _plain(str(error))


def _broken(
    repo: OpenRepo,
    path: str,
    sides: Mapping[str, tuple[DatasetFolder | None, Revision]],
    reasons: Mapping[str, str | None],
) -> DatasetReview:
    there = [folder is not None for folder, _ in sides.values()]
    state = "changed" if all(there) else "added" if there[1] else "removed"
    rows = [_rows(repo, *side) for side in sides.values()]
    said = [f"the version {name} cannot be read (`{why}`)" for name, why in reasons.items() if why]
    each = DatasetReview(path, None, state, rows[0], rows[1], ChangeCounts())
    return _flagged(each, " and ".join(said))


def _rows(repo: OpenRepo, folder: DatasetFolder | None, revision: Revision) -> int:
    """Return how many rows a version says that it has, true or not."""
    if folder is not None:
        with suppress(HavasuError):
            return repo.view(folder, revision.name).rows
    return 0


def _plain(text: str) -> str:
    """Return the first line of a text, fit to stand between backticks."""
    return text.replace("`", "'").splitlines()[0][:200]
