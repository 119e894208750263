"""How much ground the shapes cover that go, and those that come.

Where a parcel is split, what is deleted and what is inserted cover the same; where they do
not, something is lost. Only polygons in metres are summed, and only a few thousand: of a
change of more rows nobody asks for this.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.measuring import Measure, total_area
from havasu_vc.model.types import Field
from havasu_vc.review.readable_rows import readable_rows
from havasu_vc.writers.values import canonical_wkb

__all__ = ["SizeTally"]

MOST_ROWS = 20_000
"""Rows that are looked at; with more, nothing is said."""


class SizeTally:
    """Sums areas of one geometry column, of deleted and of inserted rows."""

    def __init__(self, measure: Measure) -> None:
        self._scale = measure.scale**2
        self._left = MOST_ROWS if measure.unit == "m" and not measure.on_sphere else -1
        self._sums = [0.0, 0.0]

    def add(
        self, side: pa.StructArray, field: Field | None, rows: npt.NDArray[np.bool_], *, new: bool
    ) -> None:
        """Look at rows of the old side that are deleted, or of the new one that are inserted."""
        chosen = np.flatnonzero(rows)
        self._left -= len(chosen)
        if self._left < 0 or field is None or not len(chosen):
            return
        column = side.flatten()[side.type.get_field_index(field.name)].take(pa.array(chosen))
        for _, wkb in readable_rows(column, lambda part: canonical_wkb(part, field)):
            if wkb is not None:
                self._sums[new] += total_area(wkb) * self._scale

    @property
    def sums(self) -> tuple[float, float] | None:
        """Square metres that go and that come; None where there are not both."""
        gone, come = self._sums
        return (gone, come) if self._left >= 0 and gone and come else None
