"""Old and new values of one column, for the rows of a page that have something to show there.

An update has both values where the cell changed; a deleted row has its old values, an
inserted one its new values, nulls left out. Values beyond `LONGEST` characters are cut
around the place where old and new begin to differ, and say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.sketching import UNREADABLE, geometry_labels
from havasu_vc.model import compute as pc
from havasu_vc.model.types import Field
from havasu_vc.review.geometry_tally import readable_rows
from havasu_vc.review.page.packing import Ints, Packer, sound_texts
from havasu_vc.review.page.points import OnMap, SideTexts
from havasu_vc.review.page.texts import pack_texts
from havasu_vc.writers.text import shown_text
from havasu_vc.writers.values import canonical_wkb, spelled

__all__ = ["LONGEST", "ColumnCells", "shown_values", "sound_wkb"]

LONGEST = 4000
"""Longer texts are cut."""
BEFORE = 200
"""So much of what is alike is kept before the place where two long texts differ."""
WHOLE, NULL, CUT = 0, 1, 2
"""The length of a value on the page."""

_Bools = npt.NDArray[np.bool_]


def shown_values(column: pa.Array, field: Field) -> pa.Array:
    """Return a column as people read it, null where it is null."""
    if field.geometry is not None:
        labels = geometry_labels(sound_wkb(column, field))
        return pc.if_else(pc.is_valid(column), pc.fill_null(labels, UNREADABLE), None)
    if field.raster is not None:
        return shown_text(column, field)
    return spelled(column, field)


def sound_wkb(
    column: pa.Array, field: Field, change: Callable[[pa.Array], pa.Array] = lambda part: part
) -> pa.Array:
    """Return a column, changed in some way, as canonical WKB; null what cannot be read."""
    parts = [
        pa.nulls(1, pa.binary()) if found is None else pc.cast(found, pa.binary())
        for _, found in readable_rows(column, lambda part: canonical_wkb(change(part), field))
    ]
    return pa.concat_arrays(parts) if parts else pa.nulls(0, pa.binary())


class _Side:
    """The values of one side, as they come."""

    def __init__(self) -> None:
        self.rows: list[Ints] = []
        self.states: list[npt.NDArray[np.uint8]] = []
        self.texts: list[pa.Array] = []

    def add(self, rows: Ints, texts: pa.Array, states: npt.NDArray[np.uint8]) -> int:
        sound = sound_texts(pc.fill_null(texts, ""))
        self.rows.append(rows)
        self.states.append(states)
        self.texts.append(sound)
        return int(pc.sum(pc.binary_length(sound)).as_py()) + 9 * len(rows)

    def told(self) -> SideTexts:
        texts = pa.chunked_array(self.texts, pa.large_string()).combine_chunks()
        return SideTexts(_joined(self.rows), texts)

    def pack(self, packer: Packer, told: SideTexts) -> dict[str, Any]:
        return {
            "rows": packer.differences(told.rows),
            "states": packer.raw(b"".join(part.tobytes() for part in self.states)),
        }


class ColumnCells:
    """The values of one column on a page."""

    def __init__(self) -> None:
        self._sides = (_Side(), _Side())

    def add(
        self,
        first: int,
        values: tuple[pa.Array | None, pa.Array | None],
        *,
        changed: _Bools,
        alone: _Bools,
    ) -> int:
        """Add text before and after of rows numbered from `first`; return its size in bytes.

        A side is None where the column is not there. Rows that are `changed` have both
        values, those that stand `alone` (deleted or inserted) what is not null.
        """
        texts, cut = _cut(values)
        size = 0
        for side, column in zip(self._sides, texts, strict=True):
            if column is None:
                continue
            valid = pc.is_valid(column).to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(changed | (alone & valid))
            if len(rows):
                states = np.select([~valid, cut], [NULL, CUT], WHOLE).astype(np.uint8)
                size += side.add(first + rows, pc.take(column, pa.array(rows)), states[rows])
        return size

    def pack(
        self, packer: Packer, *, geometry: bool = False, on_map: OnMap | None = None
    ) -> dict[str, Any]:
        """Lay out both sides and say where they are; `on_map` tells where the map has its points.

        Texts of a `geometry` column may be points.
        """
        told = [side.told() for side in self._sides]
        texts = pack_texts(packer, told, geometry=geometry, on_map=on_map)
        old, new = (
            {**side.pack(packer, each), **text}
            for side, each, text in zip(self._sides, told, texts, strict=True)
        )
        return {"old": old, "new": new}


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _cut(
    values: tuple[pa.Array | None, pa.Array | None],
) -> tuple[tuple[pa.Array | None, pa.Array | None], _Bools]:
    """Return the texts none too long, and in which rows some were."""
    present = [column for column in values if column is not None]
    cut = np.zeros(len(present[0]) if present else 0, np.bool_)
    for column in present:
        longer = pc.greater(pc.binary_length(column), LONGEST)
        cut |= pc.fill_null(longer, False).to_numpy(zero_copy_only=False)
    if not cut.any():
        return values, cut
    rows, mask = np.flatnonzero(cut), pa.array(cut)
    texts = [
        [None] * len(rows) if column is None else _texts(pc.take(column, pa.array(rows)))
        for column in values
    ]
    pairs = [_cut_pair(old, new) for old, new in zip(*texts, strict=True)]
    sides = [
        None
        if column is None
        else pc.replace_with_mask(
            pc.cast(column, pa.large_string()), mask, pa.array(part, pa.large_string())
        )
        for column, part in zip(values, zip(*pairs, strict=True), strict=True)
    ]
    return (sides[0], sides[1]), cut


def _texts(column: pa.Array) -> list[str | None]:
    found = pc.cast(column, pa.large_binary()).to_pylist()
    return [None if value is None else value.decode("utf-8", "replace") for value in found]


def _cut_pair(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    """Return two texts from a little before where they differ."""
    same = 0 if old is None or new is None else _common(old, new)
    start = max(0, same - BEFORE) if same > LONGEST // 2 else 0
    return _window(old, start), _window(new, start)


def _common(first: str, second: str) -> int:
    """Return how many characters two texts begin with alike."""
    least, most = 0, min(len(first), len(second))
    while least < most:
        middle = (least + most + 1) // 2
        if first[least:middle] == second[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


def _window(text: str | None, start: int) -> str | None:
    if text is None:
        return None
    end = start + LONGEST
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
