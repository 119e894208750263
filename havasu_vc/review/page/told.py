"""Texts of a column by rows, and what numbers that tell them have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.records import dataclass
from havasu_vc.review.page.packing import Ints, Packer, text_parts

__all__ = ["MOST", "USUAL", "Told", "bits", "earlier", "filled", "followed", "others"]

MOST = 2.0**49
"""Counts beyond are no whole numbers of a float."""
USUAL = 0.98
"""So many of all points are told by numbers; the others may stay texts."""


@dataclass(frozen=True, slots=True)
class Told:
    """The texts of one side of a column."""

    rows: Ints
    """The row of each text, growing."""
    texts: pa.Array
    """The texts, none of them null."""


def filled(sides: Sequence[Told]) -> int:
    """Return how many texts there are that are not empty, as those of null are."""
    return sum(int(np.count_nonzero(pc.binary_length(side.texts))) for side in sides)


def followed(sides: Sequence[Told], counts: Sequence[Ints]) -> Ints:
    """Return what is new as its difference from what was old in the same row."""
    found = counts[1].copy()
    at, same = earlier(sides)
    found[same] -= counts[0][at]
    return found


def earlier(sides: Sequence[Told]) -> tuple[Ints, Ints]:
    """Return the old texts and the new texts of the rows that have both."""
    _, old, new = np.intersect1d(
        sides[0].rows, sides[1].rows, assume_unique=True, return_indices=True
    )
    return old, new


def bits(counts: Sequence[Ints]) -> float:
    """Return about how many bits there are in numbers."""
    return sum(float(np.log2(np.abs(each.astype(np.float64)) + 1).sum()) for each in counts)


def others(packer: Packer, texts: pa.Array, there: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Lay out the texts that are not told by numbers, and say where they are."""
    rows = np.flatnonzero(there)
    content, lengths = text_parts(texts.take(pa.array(rows)))
    return {
        "at": packer.differences(rows),
        "lengths": packer.numbers(lengths),
        "text": packer.text([content]),
    }
