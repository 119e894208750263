"""A changed row as a person reads it: which cells, from what, to what, and where."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import CrsError, GeometryError
from havasu_vc.geo.sketching import UNREADABLE, geometry_words
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch, ChangeKind
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive, is_number
from havasu_vc.records import dataclass
from havasu_vc.review.report import Cell, ColumnReview, NumberShift, Sample, Transition
from havasu_vc.writers.protocol import Reproject
from havasu_vc.writers.rasters import words_of_changes
from havasu_vc.writers.rows import side_of
from havasu_vc.writers.terminal import shortened
from havasu_vc.writers.text import shown_text
from havasu_vc.writers.values import canonical_wkb, equal_cells, key_labels, side_columns, spelled

__all__ = ["ColumnTally", "Kept", "SampleMaker", "Sampler", "format_distance"]


LONGEST = 1000
"""Texts longer than this are cut."""
LONGEST_LABEL = 80
"""Names of rows longer than this are cut."""
NAMING = ("name", "title", "label", "address", "appellation", "description")
"""Columns of these names tell what people call a row, the first of them best."""


def label_fields(schema: Schema) -> Sequence[Field]:
    """Return the columns that may tell what people call a row, the likeliest first.

    A column that is called a name, or whose name ends so, is alone. A key of text is a name.
    """
    keys = set(schema.identifier_ids)
    texts = [each for each in schema.fields if each.type is Primitive.STRING]
    others = [each for each in texts if each.id not in keys]
    for fits in (str.__eq__, str.endswith):
        for name in NAMING:
            for field in others:
                if fits(field.name.lower(), name):
                    return [field]
    return others if len(others) == len(texts) else []


class SampleMaker:
    """Turns changed rows of one dataset into samples."""

    def __init__(
        self, diff: DatasetDiff, reproject: Reproject | None, show: Reproject | None = None
    ) -> None:
        """Put geometries on maps with `reproject`, and tell their coordinates with `show`."""
        self._diff = diff
        self._reproject = reproject
        self._show = show
        self._label_id: int | None = None

    def key(self, kept: Kept) -> str:
        """Return what a row is called."""
        new = bool(kept.change.new[0].is_valid)
        side = kept.change.new if new else kept.change.old
        return str(key_labels(side, side_of(self._diff, new=new).schema)[0].as_py())

    def samples(self, chosen: Sequence[tuple[str, Kept]], unit: str) -> tuple[Sample, ...]:
        """Return rows as samples, each for its reason; one that has a score says it.

        All rows are looked at together: each call of Arrow, numpy and PROJ takes as long for one.
        """
        if not chosen:
            return ()
        rows = [kept for _, kept in chosen]
        self._find_label(rows)
        change = ChangeBatch(pa.concat_batches([kept.change.data for kept in rows]))
        cells = self._cells(change)
        before = self._places(change.old, side_of(self._diff, new=False))
        after = self._places(change.new, side_of(self._diff, new=True))
        return tuple(
            Sample(
                _kind(kept.change),
                self.key(kept),
                f"{reason} {format_distance(kept.score, unit)}" if kept.score else reason,
                cells[row],
                before[row],
                after[row],
                self._label(kept.change),
            )
            for row, (reason, kept) in enumerate(chosen)
        )

    def _find_label(self, rows: Sequence[Kept]) -> None:
        """Find the column that tells these rows apart, whose text each sample gets."""
        fields = label_fields(self._diff.header.schema)
        found = []
        for field in fields:
            self._label_id = field.id
            texts = {self._label(kept.change) for kept in rows}
            if len(fields) == 1 or 2 * len(texts) > len(rows):
                found.append((len(texts), field.id))
        self._label_id = max(found, key=lambda each: each[0])[1] if found else None

    def _label(self, change: ChangeBatch) -> str | None:
        """Return what people call a row: now, or before where it is gone or has lost that."""
        for new, side in ((True, change.new), (False, change.old)):
            field = side_of(self._diff, new=new).schema.by_id.get(self._label_id or -1)
            if field is None or side.null_count:
                continue
            text = _text(field, pc.struct_field(side, field.name))
            if text:
                return shortened(text, LONGEST_LABEL)
        return None

    def _cells(self, change: ChangeBatch) -> list[tuple[Cell, ...]]:
        """Return the cells of each row that changed, came or went."""
        old, new = (
            {field.id: (field, column) for field, column in side_columns(side, schema)}
            for side, schema in (
                (change.old, side_of(self._diff, new=False).schema),
                (change.new, side_of(self._diff, new=True).schema),
            )
        )
        there = [
            pc.is_valid(side).to_numpy(zero_copy_only=False) for side in (change.old, change.new)
        ]
        both = there[0] & there[1]
        found: list[list[Cell]] = [[] for _ in range(len(change))]
        for number in {**old, **new}:
            before, after = old.get(number), new.get(number)
            wanted = ~both
            if before is None or after is None:
                wanted |= both & (not self._lacks(number))
            elif both.any():
                wanted |= both & ~equal_cells(before, after).to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(wanted).tolist():
                ends = [
                    (each[0], each[1].slice(row, 1)) if each is not None and here[row] else None
                    for each, here in zip((before, after), there, strict=True)
                ]
                cell = self._cell(ends[0], ends[1])
                if cell is not None:
                    found[row].append(cell)
        return [tuple(each) for each in found]

    def _cell(
        self, before: tuple[Field, pa.Array] | None, after: tuple[Field, pa.Array] | None
    ) -> Cell | None:
        """Return one cell of one row; None where there is nothing on either side."""
        either = after or before
        if either is None:
            return None
        field = either[0]
        texts = [
            None if each is None else self._text(*each, new=new)
            for new, each in ((False, before), (True, after))
        ]
        if before is not None and after is not None and field.raster is not None:
            texts[1] = words_of_changes(before[1], after[1])[0].as_py()
        return None if texts == [None, None] else Cell(field.name, texts[0], texts[1])

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

    def _places(self, side: pa.StructArray, header: DatasetHeader) -> list[bytes | None]:
        """Return the shape of each row as a map has it; None where it has none or it cannot be."""
        field = next(iter(header.schema.geometries), None)
        if field is None or side.null_count == len(side) or self._reproject is None:
            return [None] * len(side)
        column = pc.struct_field(side, field.name)
        try:
            shapes = canonical_wkb(self._reproject(column, field, header), field)
        except (CrsError, GeometryError):
            if len(side) == 1:
                return [None]
            single = (side.slice(row, 1) for row in range(len(side)))
            return [place for row in single for place in self._places(row, header)]
        return list(shapes.to_pylist())


def _kind(change: ChangeBatch) -> ChangeKind:
    """Return what became of the row of a batch of one."""
    if change.old.null_count:
        return ChangeKind.INSERT
    return ChangeKind.DELETE if change.new.null_count else ChangeKind.UPDATE


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
    return shortened(text, LONGEST)


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


# Which changed rows are worth seeing: a few of each reason, kept while the stream goes by.
#
# Reasons are ranked by the one who asks; a reason keeps its first rows, or those with the
# highest scores. What is kept is bounded by the number of reasons, never by the change.

_Rows = npt.NDArray[np.int64]
_Scores = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Kept:
    """One changed row."""

    change: ChangeBatch
    """A batch of this one row."""
    order: int
    """Which change of the stream it is."""
    score: float = 0.0
    """How telling it is, among those of its reason."""


class Sampler:
    """Keeps up to `room` rows for each reason."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._kept: dict[str, list[Kept]] = {}

    def offer(
        self,
        reason: str,
        batch: ChangeBatch,
        rows: _Rows,
        *,
        start: int,
        scores: _Scores | None = None,
    ) -> None:
        """Look at some rows of a batch, which begins with change number `start`."""
        kept = self._kept.setdefault(reason, [])
        if scores is None:
            chosen = rows[: max(self._room - len(kept), 0)]
            kept += self._taken(batch, chosen, start, np.zeros(len(chosen)))
            return
        least = kept[-1].score if len(kept) >= self._room else -np.inf
        better = scores > least
        rows, scores = rows[better], scores[better]
        best = np.argsort(-scores, kind="stable")[: self._room]
        if len(best):
            kept += self._taken(batch, rows[best], start, scores[best])
            kept.sort(key=lambda each: (-each.score, each.order))
            del kept[self._room :]

    @staticmethod
    def _taken(batch: ChangeBatch, rows: _Rows, start: int, scores: _Scores) -> Iterator[Kept]:
        if not len(rows):
            return
        # Taken, not sliced: a slice would keep the whole batch in memory.
        piece = pc.take(batch.data, pa.array(rows))
        for index, (row, score) in enumerate(zip(rows.tolist(), scores.tolist(), strict=True)):
            yield Kept(ChangeBatch(piece.slice(index, 1)), start + row, score)

    def of(self, reason: str) -> list[Kept]:
        """Return what is kept for a reason, the most telling first."""
        return self._kept.get(reason, [])

    def chosen(self, reasons: Iterable[str], limit: int) -> list[tuple[str, Kept]]:
        """Return up to `limit` rows, each once, dealt out so that every reason is heard.

        Reasons come in order of their rank; each gives a row in turn.
        """
        ranked = [(reason, iter(self.of(reason))) for reason in reasons]
        seen: set[int] = set()
        found: list[tuple[int, str, Kept]] = []
        while ranked and len(found) < limit:
            left = []
            for rank, (reason, rest) in enumerate(ranked):
                kept = next((each for each in rest if each.order not in seen), None)
                if kept is None:
                    continue
                left.append((reason, rest))
                if len(found) < limit:
                    seen.add(kept.order)
                    found.append((rank, reason, kept))
            ranked = left
        order = {reason: rank for rank, reason in enumerate(dict.fromkeys(r for _, r, _ in found))}
        found.sort(key=lambda each: order[each[1]])
        return [(reason, kept) for _, reason, kept in found]


# The changes of one column over all updates: how often, from what, to what.


FEW_VALUES = 200
"""A column with more different changes than this is not one of categories."""
FEW_CHANGES = 3
"""So few different changes are shown even where each is the only one of its kind."""
SHOWN = 5
LONGEST_TALLIED = 60
_CATEGORIES = (Primitive.STRING, Primitive.BOOLEAN, Primitive.INT, Primitive.LONG)


class ColumnTally:
    """Counts the changes of one column that both versions have."""

    def __init__(self, old: Field, new: Field) -> None:
        self.old, self.new = old, new
        self.changed = self.filled = self.emptied = 0
        self.geometry = new.geometry is not None
        self._numbers = is_number(old.type) and is_number(new.type)
        self._sums, self._counts = [0.0, 0.0], [0, 0]
        self.least: float | None = None
        self.greatest: float | None = None
        wanted = old.type in _CATEGORIES and new.type in _CATEGORIES and not self.geometry
        self._transitions: Counter[tuple[str | None, str | None]] | None = (
            Counter() if wanted else None
        )

    def add(self, old: pa.Array, new: pa.Array) -> None:
        """Count cells that changed, and no others."""
        self.changed += len(new)
        self.filled += int(old.null_count)
        self.emptied += int(new.null_count)
        if self._numbers:
            self._add_numbers(old, new)
        if self._transitions is not None:
            self._add_transitions(old, new)

    def _add_numbers(self, old: pa.Array, new: pa.Array) -> None:
        for index, column in enumerate((old, new)):
            values = pc.drop_null(column).to_numpy(zero_copy_only=False).astype(np.float64)
            values = values[np.isfinite(values)]
            self._sums[index] += float(values.sum())
            self._counts[index] += len(values)
            if index and len(values):
                least, greatest = float(values.min()), float(values.max())
                self.least = least if self.least is None else min(self.least, least)
                self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def _add_transitions(self, old: pa.Array, new: pa.Array) -> None:
        assert self._transitions is not None
        # Numbers for pairs of texts; `group_by` would load what plans queries.
        before = pc.dictionary_encode(spelled(old, self.old))
        after = pc.dictionary_encode(spelled(new, self.new))
        places = [pc.fill_null(side.indices, -1).to_numpy() for side in (before, after)]
        width = len(after.dictionary) + 1
        pairs, counts = np.unique(
            (places[0].astype(np.int64) + 1) * width + places[1] + 1, return_counts=True
        )
        if len(pairs) + len(self._transitions) > FEW_VALUES:
            self._transitions = None
            return
        olds, news = ([None, *side.dictionary.to_pylist()] for side in (before, after))
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            self._transitions[olds[pair // width], news[pair % width]] += count

    def review(self) -> ColumnReview:
        """Return what was counted."""
        return ColumnReview(
            self.new.name,
            self.changed,
            self.filled,
            self.emptied,
            self._shift() if self._numbers else None,
            self._commonest(),
        )

    def _shift(self) -> NumberShift:
        means = [
            total / count if count else None
            for total, count in zip(self._sums, self._counts, strict=True)
        ]
        return NumberShift(means[0], means[1], self.least, self.greatest)

    def _commonest(self) -> tuple[Transition, ...]:
        """Return changes that came more than once or are few, if they make up much of the whole."""
        if self._transitions is None:
            return ()
        ranked = sorted(
            self._transitions.items(), key=lambda item: (-item[1], str(item[0][0]), str(item[0][1]))
        )
        few = len(ranked) <= FEW_CHANGES
        shown = [(pair, count) for pair, count in ranked[:SHOWN] if few or count > 1]
        if sum(count for _, count in shown) * 4 < self.changed:
            return ()
        return tuple(Transition(_cut(old), _cut(new), count) for (old, new), count in shown)


def _cut(text: str | None) -> str | None:
    return text if text is None else shortened(text, LONGEST_TALLIED)
