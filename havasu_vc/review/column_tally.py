"""The changes of one column over all updates: how often, from what, to what."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from havasu_vc.model.types import Field, Primitive, is_number
from havasu_vc.review.report import ColumnReview, NumberShift, Transition
from havasu_vc.writers.values import spelled

__all__ = ["ColumnTally"]

FEW_VALUES = 200
"""A column with more different changes than this is not one of categories."""
FEW_CHANGES = 3
"""So few different changes are shown even where each is the only one of its kind."""
SHOWN = 5
LONGEST = 60
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
            values = column.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
            values = values[np.isfinite(values)]
            self._sums[index] += float(values.sum())
            self._counts[index] += len(values)
            if index and len(values):
                least, greatest = float(values.min()), float(values.max())
                self.least = least if self.least is None else min(self.least, least)
                self.greatest = greatest if self.greatest is None else max(self.greatest, greatest)

    def _add_transitions(self, old: pa.Array, new: pa.Array) -> None:
        assert self._transitions is not None
        pairs = pa.table({"old": spelled(old, self.old), "new": spelled(new, self.new)})
        counted = pairs.group_by(["old", "new"]).aggregate([([], "count_all")])
        if len(counted) + len(self._transitions) > FEW_VALUES:
            self._transitions = None
            return
        for row in counted.to_pylist():
            self._transitions[row["old"], row["new"]] += row["count_all"]

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
    return text if text is None or len(text) <= LONGEST else text[: LONGEST - 1] + "…"
