"""Texts of a column as few bytes: as they are, or, where that is less, as what they spell.

What is less is tried on the first rows. A browser makes the same texts from each form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.geo.buffers import ranges
from havasu_vc.model import compute as pc
from havasu_vc.review.page.packing import Ints, Packer, text_parts
from havasu_vc.review.page.points import (
    MOST,
    USUAL,
    OnMap,
    SideTexts,
    bits,
    earlier,
    filled,
    followed,
    others,
    pack_points,
)

__all__ = ["pack_texts"]

SAMPLE = 8192
"""Rows on which forms are tried."""
PIECE = 1 << 20
"""Bytes that are compared at once."""
MOST_DIGITS = 12
"""Decimals of numbers that are told as such."""
_NUMBER = r"^(?P<sign>-?)(?:0|[1-9]\d*)(?P<rest>(?:\.\d+)?)$"

_Bools = npt.NDArray[np.bool_]
_Form: TypeAlias = Callable[[Packer, Sequence[SideTexts]], list[dict[str, Any]] | None]


def pack_texts(
    packer: Packer,
    sides: Sequence[SideTexts],
    *,
    geometry: bool = False,
    on_map: OnMap | None = None,
) -> list[dict[str, Any]]:
    """Lay out the texts of one side, or of old and new, and say where they are.

    Those of a `geometry` column may be points; `on_map` tells where the map has them.
    """
    if geometry and (found := pack_points(packer, sides, on_map)):
        return found
    some = [_first(side, sides) for side in sides]
    sizes = [(size, number) for number, form in enumerate(_FORMS) if (size := _size(form, some))]
    return _FORMS[min(sizes)[1]](packer, sides) or _plain(packer, sides)


def _first(side: SideTexts, sides: Sequence[SideTexts]) -> SideTexts:
    end = max((each.rows[:SAMPLE].max(initial=0) for each in sides), default=0)
    count = int(np.searchsorted(side.rows, end, side="right"))
    return SideTexts(side.rows[:count], side.texts.slice(0, count))


def _size(form: _Form, sides: Sequence[SideTexts]) -> int | None:
    trial = Packer()
    return None if form(trial, sides) is None else len(trial.finish())


def _plain(packer: Packer, sides: Sequence[SideTexts]) -> list[dict[str, Any]]:
    found = []
    for side in sides:
        content, lengths = text_parts(side.texts)
        found.append({"lengths": packer.numbers(lengths), "text": packer.text([content])})
    return found


def _numbers(packer: Packer, sides: Sequence[SideTexts]) -> list[dict[str, Any]] | None:
    """Lay out texts as whole numbers of a decimal, of which each may be told from another."""
    read = [_read(side.texts) for side in sides]
    plain, decimals, needed = (np.concatenate(parts) for parts in zip(*read, strict=True))
    fewest = USUAL * filled(sides)
    if not plain.any() or plain.sum() < fewest:
        return None
    digits = int(np.quantile(decimals[plain], USUAL, method="higher"))
    fit = {
        least: plain & (decimals <= digits) & (decimals == np.maximum(needed, least))
        for least in sorted({0, min(1, digits), digits})
    }
    least = max(fit, key=lambda each: int(fit[each].sum()))
    ends = np.cumsum([len(side.rows) for side in sides])[:-1]
    kept, counts = [], []
    for side, there in zip(sides, np.split(fit[least], ends), strict=True):
        texts = pc.cast(pc.if_else(pa.array(there), side.texts, "0"), pa.float64())
        values = texts.to_numpy() * 10.0**digits
        there &= (np.abs(values) < MOST) & ((values != 0) | ~np.signbit(values))
        kept.append(there)
        counts.append(np.where(there, np.rint(values), 0).astype(np.int64))
    if sum(int(each.sum()) for each in kept) < fewest:
        return None
    found = []
    for new, (side, values, there) in enumerate(zip(sides, counts, kept, strict=True)):
        ways = {"none": values, "last": np.diff(values, prepend=0)}
        if new:
            ways["old"] = followed(sides, counts)
        way = min(ways, key=lambda each: bits([ways[each]]))
        form = {"digits": digits, "least": least, "of": way, "counts": packer.wide(ways[way])}
        found.append({"numbers": {**form, "others": others(packer, side.texts, ~there)}})
    return found


def _read(texts: pa.Array) -> tuple[_Bools, Ints, Ints]:
    """Return which texts are numbers, how many decimals they have, and how many they need."""
    parts = pc.extract_regex(texts, _NUMBER)
    rest = pc.fill_null(pc.struct_field(parts, "rest"), "")
    decimals, needed = (
        np.maximum(pc.binary_length(each).to_numpy() - 1, 0).astype(np.int64)
        for each in (rest, pc.utf8_rtrim(rest, "0"))
    )
    plain = pc.is_valid(parts).to_numpy(zero_copy_only=False)
    return plain & (decimals <= MOST_DIGITS), decimals, needed


def _changed(packer: Packer, sides: Sequence[SideTexts]) -> list[dict[str, Any]] | None:
    """Lay out what is old, and of what is new what stands between what is as it was."""
    if len(sides) < 2:
        return None
    was, now = (_Bytes(side.texts) for side in sides)
    old, new = earlier(sides)
    most = np.minimum(was.sizes[old], now.sizes[new])
    start = _alike(was, was.starts[old], now, now.starts[new], most, step=1)
    for _ in range(3):
        start -= now.is_inside(now.starts[new] + start) & (start < now.sizes[new]) & (start > 0)
    left = most - start
    end = _alike(was, was.ends[old] - 1, now, now.ends[new] - 1, left, step=-1)
    for _ in range(3):
        end -= now.is_inside(now.ends[new] - end) & (end > 0)
    starts, ends = now.starts.copy(), now.ends.copy()
    starts[new] += start
    ends[new] -= end
    form = {
        "start": packer.numbers(now.units(now.starts, starts)),
        "end": packer.numbers(now.units(ends, now.ends)),
        "lengths": packer.numbers(now.units(starts, ends)),
        "text": packer.text([now.data[ranges(starts, ends - starts, 1)].tobytes()]),
    }
    return [*_plain(packer, sides[:1]), {"changed": form}]


class _Bytes:
    """The bytes of texts one after another."""

    def __init__(self, texts: pa.Array) -> None:
        content, _ = text_parts(texts)
        self.data = np.frombuffer(content, np.uint8)
        self.sizes = pc.binary_length(texts).to_numpy().astype(np.int64)
        self.ends = np.cumsum(self.sizes)
        self.starts = self.ends - self.sizes
        self._inside = np.append((self.data & 0xC0) == 0x80, False)
        units = (~self._inside[:-1]).astype(np.int64) + (self.data >= 0xF0)
        self._units = np.cumsum(np.insert(units, 0, 0))

    def is_inside(self, places: Ints) -> _Bools:
        """Return which places are inside of a character."""
        return np.asarray(self._inside[places])

    def units(self, starts: Ints, ends: Ints) -> Ints:
        """Return how many units of UTF-16 there are between places."""
        return np.asarray(self._units[ends] - self._units[starts])


def _alike(first: _Bytes, one: Ints, second: _Bytes, two: Ints, most: Ints, *, step: int) -> Ints:
    """Return how many bytes from some places on are the same, going forward or back."""
    found = most.copy()
    ends = np.cumsum(most)
    rows, total = np.arange(len(most)), int(ends[-1]) if len(most) else 0
    for piece in np.split(rows, np.searchsorted(ends, np.arange(PIECE, total, PIECE))):
        counts = most[piece]
        along = ranges(np.zeros(len(piece), np.int64), counts, 1)
        owner = np.repeat(piece, counts)
        same = first.data[one[owner] + step * along] == second.data[two[owner] + step * along]
        other = np.flatnonzero(~same)
        differing, at = np.unique(owner[other], return_index=True)
        found[differing] = along[other[at]]
    return found


_FORMS: tuple[_Form, ...] = (_plain, _numbers, _changed)
"""The ways to lay out texts; of equal ones the first is taken."""
