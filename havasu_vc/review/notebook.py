"""A review as notebooks show it: what happened in words, rows worth seeing, and where they are.

It is made of the review alone, which is small whatever the size of the change; what is beyond
a few datasets and a few rows of each is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from havasu_vc.model.changes import ChangeKind
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.review.colours import COLOURS
from havasu_vc.review.words import counts_words
from havasu_vc.writers.notebook import MapLayer, map_picture, shown, shown_note, shown_table

if TYPE_CHECKING:
    from havasu_vc.review.report import DatasetReview, Review, Sample

__all__ = ["review_html"]

DATASETS = 10
"""Datasets that are shown; of others it is said how many there are."""
ROWS = 12
"""Changed rows of a dataset that are shown."""
CELLS = 8
"""Cells of a changed row that are shown."""
SENTENCES = 8
"""Oddities and changes of the schema that are told, of each."""


def review_html(review: Review) -> str:
    """Return a review as HTML."""
    count = len(review.datasets)
    parts = [
        f"<div><b>{shown(review.range)}</b>: {_counted(review.counts)}"
        f" in {count:,} dataset{'' if count == 1 else 's'}</div>",
        *(_sentence(finding.message) for finding in review.findings[:SENTENCES]),
        *(_dataset(each) for each in review.datasets[:DATASETS]),
    ]
    if count > DATASETS:
        parts.append(shown_note(f"and {count - DATASETS:,} more datasets"))
    return f"<div>{''.join(parts)}</div>"


def _counted(counts: ChangeCounts) -> str:
    return counts_words(counts) if counts.total else "no row changed"


def _sentence(text: str, mark: str = "⚠ ") -> str:
    return f"<div>{mark}{shown(text, 400)}</div>"


def _dataset(review: DatasetReview) -> str:
    state = "" if review.state == "changed" else f" ({review.state})"
    # What is made of a diff alone does not know how many rows there are.
    known = review.rows_before or review.rows_after
    rows = f", {review.rows_before:,} → {review.rows_after:,} rows" if known else ""
    parts = [
        f'<div style="margin-top:.8em"><b>{shown(review.path)}</b>{state}: '
        f"{_counted(review.counts)}{rows}</div>",
        *(_sentence(flag.message) for flag in review.flags[:SENTENCES]),
        *(_sentence(words, "") for words in review.words[:SENTENCES]),
    ]
    samples = review.samples[:ROWS]
    if samples:
        parts.append(shown_table(["row", "change", "cells"], map(_row, samples)))
    if review.counts.total > len(samples):
        parts.append(shown_note(f"{len(samples)} of {review.counts.total:,} changed rows"))
    if review.unread is not None:
        parts.append(_sentence(review.unread))
    layers = list(_layers(review.samples))
    parts.append(map_picture(layers, f"A map of changed rows of {review.path}", globe=True))
    return "".join(parts)


def _row(sample: Sample) -> tuple[str, str, str]:
    cells = [f"{cell.column}: {_change(sample, cell.old, cell.new)}" for cell in sample.cells]
    if len(cells) > CELLS:
        cells[CELLS:] = [f"{len(cells) - CELLS} more"]
    called = sample.key if sample.label in (None, sample.key) else f"{sample.key} {sample.label}"
    return called, sample.kind.value, "; ".join(cells)


def _change(sample: Sample, old: str | None, new: str | None) -> str:
    if sample.kind is ChangeKind.UPDATE:
        return f"{_short(old)} → {_short(new)}"
    return _short(new if sample.kind is ChangeKind.INSERT else old)


def _short(text: str | None) -> str:
    if text is None:
        return "∅"
    return text if len(text) <= 40 else text[:39] + "…"


def _layers(samples: tuple[Sample, ...]) -> Iterator[MapLayer]:
    """Yield the places of rows by what became of them, those that stand still under the others."""
    shapes: dict[str, list[bytes]] = {label: [] for label in ("before", *COLOURS)}
    for each in samples:
        old, new = each.old_geometry, each.new_geometry
        updated = each.kind is ChangeKind.UPDATE
        if old is not None and old != new:
            shapes["before" if updated else "deleted"].append(old)
        if new is not None:
            shapes["after" if updated else "inserted"].append(new)
    for label, found in shapes.items():
        if found:
            yield MapLayer(label, COLOURS[label], found)
