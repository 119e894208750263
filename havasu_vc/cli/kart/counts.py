"""Numbers of changed rows in Kart's order.

Kart's JSON has the kinds of changes in the order in which they first come among the rows, which
it sorts by their keys as texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.records import dataclass
from havasu_vc.writers.rows import side_of
from havasu_vc.writers.values import key_labels

__all__ = ["RowsSeen", "in_karts_order", "rows_seen", "several_kinds"]

_KINDS = ("inserts", "updates", "deletes")


def several_kinds(counts: ChangeCounts) -> bool:
    """Whether there is an order to speak of."""
    return sum(bool(getattr(counts, kind)) for kind in _KINDS) > 1


@dataclass(frozen=True, slots=True)
class RowsSeen:
    """The changes of a dataset's rows, as one reading of them tells."""

    counts: ChangeCounts
    """How many there are."""
    first: Mapping[str, str]
    """The least key of each kind of change, as text."""


def rows_seen(diff: DatasetDiff) -> RowsSeen:
    """Return what the changes of a diff are, which are read once."""
    counts, first = ChangeCounts(), dict[str, str]()
    for batch in diff.changes:
        counts += batch.counts
        for kind, label in _least(batch, diff):
            first[kind] = min(label, first.get(kind, label))
    return RowsSeen(counts, first)


def in_karts_order(
    summary: Mapping[str, Mapping[str, Mapping[str, Any]]], seen: Mapping[str, RowsSeen]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return numbers by dataset in Kart's order, as far as their changes were seen."""
    found = {path: {kind: dict(each) for kind, each in of.items()} for path, of in summary.items()}
    for path, rows in seen.items():
        counts = found.get(path, {}).get("feature")
        if counts is None:
            continue
        order = sorted(rows.first, key=rows.first.__getitem__)
        ordered = {kind: counts.pop(kind) for kind in order}
        found[path]["feature"] = ordered | counts
    return found


def _least(batch: ChangeBatch, diff: DatasetDiff) -> Iterable[tuple[str, str]]:
    has_old, has_new = pc.is_valid(batch.old), pc.is_valid(batch.new)
    for kind, rows, new in (
        ("inserts", pc.and_not(has_new, has_old), True),
        ("updates", pc.and_(has_new, has_old), True),
        ("deletes", pc.and_not(has_old, has_new), False),
    ):
        side = pc.filter(batch.new if new else batch.old, rows)
        if len(side):
            labels = key_labels(side, side_of(diff, new=new).schema)
            yield kind, str(pc.min(labels).as_py())
