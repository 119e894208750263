"""Points of a column told by numbers, from which a browser makes the texts that stood there.

A text such as `POINT (174.77 -41.29)` says in 40 bytes what two numbers do, of which the map
has all but the last digits. What is kept is how far each number is from the one that the map
has, and of a row that moved how much that distance became another. Numbers of few decimals
are counted in these, others in steps from one float to the next, so that none is rounded.
A text that these rules would not spell again stays a text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.model import compute as pc
from havasu_vc.records import dataclass
from havasu_vc.review.page.packing import Ints, Packer, text_parts

__all__ = [
    "MOST",
    "USUAL",
    "OnMap",
    "SideTexts",
    "bits",
    "earlier",
    "filled",
    "followed",
    "others",
    "pack_points",
]

_NUMBER = r"0|-?[1-9]\d*|-?(?:0|[1-9]\d*)\.\d*[1-9]"
_POINT = rf"^POINT \((?P<x>{_NUMBER}) (?P<y>{_NUMBER})\)$"
MOST_DIGITS = 9
"""Decimals that are counted; numbers of more are floats."""
_Floats = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]

OnMap: TypeAlias = Callable[[Ints, bool], _Floats]
"""From rows, and whether the newer side is meant, to the map's x and y, or 0 without a place."""


@dataclass(frozen=True, slots=True)
class _Read:
    """Numbers that are read from texts."""

    xy: _Floats
    digits: Ints
    """Decimals of each point."""
    plain: _Bools
    """Which texts are points."""


def pack_points(
    packer: Packer, sides: Sequence[SideTexts], on_map: OnMap | None
) -> list[dict[str, Any]] | None:
    """Lay out the sides of a column and say where they are; None where texts are shorter."""
    read = [_read(side.texts) for side in sides]
    count = sum(int(each.plain.sum()) for each in read)
    if not count or count < USUAL * filled(sides):
        return None
    digits = _digits(read)
    kept = [each.plain if digits is None else each.plain & (each.digits <= digits) for each in read]
    exact = [
        np.where(there[:, None], _counted(each.xy, digits), 0)
        for each, there in zip(read, kept, strict=True)
    ]
    near = exact
    if on_map is not None:
        maps = [on_map(side.rows, bool(new)) for new, side in enumerate(sides)]
        if all(_is_counted(each, digits) for each in maps):
            near = [
                np.where(there[:, None], values - _counted(each, digits), 0)
                for each, values, there in zip(maps, exact, kept, strict=True)
            ]
    mapped = bits(near) < bits(exact)
    found = near if mapped else exact
    follows = followed(sides, found)
    if moved := bits([follows]) < bits([found[1]]):
        found = [found[0], follows]
    return [
        {
            "points": {
                "digits": digits,
                "map": mapped,
                "moved": bool(new) and moved,
                "x": packer.wide(values[:, 0]),
                "y": packer.wide(values[:, 1]),
                "others": others(packer, side.texts, ~there),
            }
        }
        for new, (side, values, there) in enumerate(zip(sides, found, kept, strict=True))
    ]


def _read(texts: pa.Array) -> _Read:
    parts = pc.extract_regex(texts, _POINT)
    plain = pc.is_valid(parts).to_numpy(zero_copy_only=False)
    xy, digits = [], []
    for name in ("x", "y"):
        part = pc.fill_null(pc.struct_field(parts, name), "0")
        xy.append(pc.cast(part, pa.float64()).to_numpy())
        point = pc.find_substring(part, ".").to_numpy()
        digits.append(np.where(point < 0, 0, pc.binary_length(part).to_numpy() - point - 1))
    return _Read(np.stack(xy, axis=1), np.maximum(*digits).astype(np.int64), plain)


def _digits(read: Sequence[_Read]) -> int | None:
    """Return how many decimals do for nearly all; None where floats are to be told as such."""
    plain = np.concatenate([each.plain for each in read])
    digits = np.concatenate([each.digits for each in read])[plain]
    values = np.concatenate([each.xy for each in read])[plain]
    found = int(np.quantile(digits, USUAL, method="higher"))
    return found if found <= MOST_DIGITS and _is_counted(values, found) else None


def _is_counted(values: _Floats, digits: int | None) -> bool:
    """Whether numbers can be told as counts of the last decimal, or of floats."""
    return digits is None or bool(np.abs(values).max(initial=0) * 10.0**digits < MOST)


def _counted(values: _Floats, digits: int | None) -> npt.NDArray[np.int64]:
    """Return numbers as counts of the last decimal, or of floats."""
    if digits is None:
        return np.ascontiguousarray(values).view(np.int64)
    return np.floor(values * 10.0**digits + 0.5).astype(np.int64)


# Texts of a column by rows, and what numbers that tell them have in common.


MOST = 2.0**49
"""Counts beyond are no whole numbers of a float."""
USUAL = 0.98
"""So many of all points are told by numbers; the others may stay texts."""


@dataclass(frozen=True, slots=True)
class SideTexts:
    """The texts of one side of a column."""

    rows: Ints
    """The row of each text, growing."""
    texts: pa.Array
    """The texts, none of them null."""


def filled(sides: Sequence[SideTexts]) -> int:
    """Return how many texts there are that are not empty, as those of null are."""
    return sum(int(np.count_nonzero(pc.binary_length(side.texts))) for side in sides)


def followed(sides: Sequence[SideTexts], counts: Sequence[Ints]) -> Ints:
    """Return what is new as its difference from what was old in the same row."""
    found = counts[1].copy()
    at, same = earlier(sides)
    found[same] -= counts[0][at]
    return found


def earlier(sides: Sequence[SideTexts]) -> tuple[Ints, Ints]:
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
    content, lengths = text_parts(pc.take(texts, pa.array(rows)))
    return {
        "at": packer.differences(rows),
        "lengths": packer.numbers(lengths),
        "text": packer.text([content]),
    }
