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
from havasu_vc.writers.rows import side_of
from havasu_vc.writers.values import key_labels

__all__ = ["in_karts_order", "several_kinds"]

_KINDS = ("inserts", "updates", "deletes")


def several_kinds(counts: ChangeCounts) -> bool:
    """Whether there is an order to speak of."""
    return sum(bool(getattr(counts, kind)) for kind in _KINDS) > 1


def in_karts_order(
    summary: Mapping[str, Mapping[str, Mapping[str, Any]]], diffs: Iterable[DatasetDiff]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return numbers by dataset in Kart's order; `diffs` are those of datasets to look at."""
    found = {path: {kind: dict(each) for kind, each in of.items()} for path, of in summary.items()}
    for diff in diffs:
        counts = found.get(diff.path, {}).get("feature")
        if counts is None:
            continue
        order = _first_keys(diff)
        ordered = {kind: counts.pop(kind) for kind in sorted(order, key=order.__getitem__)}
        found[diff.path]["feature"] = ordered | counts
    return found


def _first_keys(diff: DatasetDiff) -> dict[str, str]:
    """Return the least key of each kind of change, as text."""
    first: dict[str, str] = {}
    for batch in diff.changes:
        for kind, label in _least(batch, diff):
            first[kind] = min(label, first.get(kind, label))
    return first


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
