"""A changed row as a person reads it: which cells, from what, to what, and where."""

from __future__ import annotations

import math
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import CrsError, GeometryError
from havasu_vc.geo.sketching import UNREADABLE, geometry_words
from havasu_vc.model.changes import ChangeBatch, ChangeKind
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.types import Field
from havasu_vc.review.report import Cell, Sample
from havasu_vc.review.sampling import Kept
from havasu_vc.writers.protocol import Reproject
from havasu_vc.writers.rasters import words_of_changes
from havasu_vc.writers.rows import side_of
from havasu_vc.writers.text import shown_text
from havasu_vc.writers.values import canonical_wkb, equal_cells, key_labels, side_columns, spelled

__all__ = ["SampleMaker", "format_distance"]

LONGEST = 1000
"""Texts longer than this are cut."""


class SampleMaker:
    """Turns changed rows of one dataset into samples."""

    def __init__(
        self, diff: DatasetDiff, reproject: Reproject | None, show: Reproject | None = None
    ) -> None:
        """Put geometries on maps with `reproject`, and tell their coordinates with `show`."""
        self._diff = diff
        self._reproject = reproject
        self._show = show

    def key(self, kept: Kept) -> str:
        """Return what a row is called."""
        new = bool(kept.change.new.is_valid()[0].as_py())
        side = kept.change.new if new else kept.change.old
        return str(key_labels(side, side_of(self._diff, new=new).schema)[0].as_py())

    def sample(self, kept: Kept, reason: str, unit: str) -> Sample:
        """Return a row as a sample; a reason that has a score says it."""
        change = kept.change
        counts = change.counts
        kind = (
            ChangeKind.INSERT
            if counts.inserts
            else ChangeKind.DELETE
            if counts.deletes
            else ChangeKind.UPDATE
        )
        if kept.score:
            reason = f"{reason} {format_distance(kept.score, unit)}"
        return Sample(
            kind,
            self.key(kept),
            reason,
            self._cells(change, kind),
            self._place(change.old, side_of(self._diff, new=False)),
            self._place(change.new, side_of(self._diff, new=True)),
        )

    def _cells(self, change: ChangeBatch, kind: ChangeKind) -> tuple[Cell, ...]:
        sides = [
            {}
            if side.null_count
            else {
                field.id: (field, column)
                for field, column in side_columns(side, side_of(self._diff, new=new).schema)
            }
            for new, side in ((False, change.old), (True, change.new))
        ]
        old, new = sides
        found = []
        for number in {**old, **new}:
            before, after = old.get(number), new.get(number)
            if before is not None and after is not None:
                if equal_cells(before, after)[0].as_py():
                    continue
            elif kind is ChangeKind.UPDATE and self._lacks(number):
                continue
            field = (after or before or (None,))[0]
            if field is None:
                continue
            texts = [
                None if each is None else self._text(*each, new=new)
                for new, each in ((False, before), (True, after))
            ]
            if before is not None and after is not None and field.raster is not None:
                texts[1] = words_of_changes(before[1], after[1])[0].as_py()
            if texts != [None, None]:
                found.append(Cell(field.name, texts[0], texts[1]))
        return tuple(found)

    def _text(self, field: Field, column: pa.Array, *, new: bool) -> str | None:
        if self._show is not None and field.geometry is not None:
            with suppress(CrsError, GeometryError):
                column = self._show(column, field, side_of(self._diff, new=new))
        return _text(field, column)

    def _lacks(self, number: int) -> bool:
        """Whether a column came or went as a whole, which the schema's change says."""
        old, new = self._diff.old, self._diff.new
        return (
            old is not None
            and new is not None
            and ((number in old.schema.by_id) != (number in new.schema.by_id))
        )

    def _place(self, side: pa.StructArray, header: DatasetHeader) -> bytes | None:
        field = next(iter(header.schema.geometries), None)
        if field is None or side.null_count or self._reproject is None:
            return None
        column = pc.struct_field(side, field.name)
        try:
            wkb = canonical_wkb(self._reproject(column, field, header), field)[0].as_py()
        except (CrsError, GeometryError):
            return None
        return None if wkb is None else bytes(wkb)


def _text(field: Field, column: pa.Array) -> str | None:
    if not column[0].is_valid:
        return None
    if field.geometry is not None:
        try:
            return geometry_words(bytes(canonical_wkb(column, field)[0].as_py()))
        except GeometryError:
            return UNREADABLE
    if field.raster is not None:
        return str(shown_text(column, field)[0].as_py())
    text = str(spelled(column, field)[0].as_py())
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def format_distance(distance: float, unit: str) -> str:
    """Return a distance with three digits that count.

    >>> format_distance(12345.6, "m"), format_distance(0.01234, "units")
    ('12.3 km', '0.0123 units')
    """
    if unit == "m" and distance >= 1000:
        distance, unit = distance / 1000, "km"
    if distance == 0 or not math.isfinite(distance):
        return f"{distance:g} {unit}"
    digits = max(0, 2 - math.floor(math.log10(abs(distance))))
    return f"{distance:,.{min(digits, 12)}f} {unit}"
