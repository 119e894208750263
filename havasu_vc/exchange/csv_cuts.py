"""Places at which a CSV file may be cut, so that several tasks read it: ends of its rows.

Whether a line break ends a row or stands inside a value is told by the quotes before it, all of
them. So whoever looks at a stretch of the file alone says what holds of it either way, where it
begins inside a value and where it does not, and how many quotes it has; put in a row, these tell
which way it is. That holds where each quote that begins a value stands at its beginning and each
that ends one at its end. A file in which one stands elsewhere is not cut, nor one whose lines end
with a carriage return alone.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from havasu_vc.records import dataclass

__all__ = ["MARK", "Span", "Stretch", "Way", "can_be_cut", "look_at", "spans_of"]

MARK = codecs.BOM_UTF8
"""The bytes that some files of UTF-8 begin with."""
_QUOTE, _FEED, _RETURN = b'"\n\r'
_BLOCK = 4 << 20
"""Bytes that are looked at in one go."""
_AROUND = (2, 3)
"""How many bytes before and behind some others are looked at with them."""
_Places = npt.NDArray[np.int64]


class Seekable(Protocol):
    """A file that is open to be read at any place."""

    def seek(self, position: int, /) -> object:
        """Go to a place."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""


@dataclass(frozen=True, slots=True)
class Span:
    """Whole rows of a file."""

    start: int
    """The place of the first byte; that of the file's header is 0."""
    end: int
    """The place behind the last byte."""
    first_row: int
    """The number of the first row; that of the file is 1."""
    rows: int
    """How many rows, the header not counted."""


def can_be_cut(encoding: str, delimiter: str) -> bool:
    """Whether quotes, line ends and delimiters of text are always the bytes of ASCII."""
    if not delimiter.isascii():
        return False
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        return False
    return name in ("utf-8", "utf-8-sig", "ascii") or name.startswith(("iso8859", "cp125"))


@dataclass(slots=True)
class Way:
    """The facts of a stretch if it begins inside of a value with quotes, or if it does not."""

    lines: int = 0
    """How many of its line ends end a row; blank lines are none."""
    cut: tuple[int, int] | None = None
    """The first place behind a line end, and how many rows of the stretch end before it."""
    spoiled: bool = False
    """Whether quotes stand where they do not tell values apart."""


@dataclass(slots=True)
class Stretch:
    """The facts of some bytes of a file, wherever they begin."""

    outside: Way
    """Where they begin between rows, or in a value without quotes."""
    inside: Way
    """Where they begin inside of a value with quotes."""
    flips: bool = False
    """Whether they end on the other side of a quote."""
    is_open: bool = False
    """Whether the last byte is no line end."""


def look_at(file: Seekable, start: int, end: int, delimiter: int, *, first: bool) -> Stretch:
    """Return what is known of the bytes from `start` to `end`.

    `first` where they are the first of the file, but for what marks its encoding.
    """
    found = Stretch(Way(), Way())
    before, behind = _AROUND
    for at in range(start, end, _BLOCK):
        until = min(at + _BLOCK, end)
        known = 0 if first and at == start else min(before, at)
        file.seek(at - known)
        data = file.read(until - at + known + behind)
        if len(data) < until - at + known:
            # The file has become shorter.
            found.outside.spoiled = found.inside.spoiled = True
            return found
        around = b"\n" * (before - known) + data
        around += b"\n" * (until - at + before + behind - len(around))
        _take(found, np.frombuffer(around, np.uint8), at, delimiter)
    return found


def _take(found: Stretch, around: npt.NDArray[np.uint8], start: int, delimiter: int) -> None:
    """Take the next bytes into account, of which is known what stands before and behind them."""
    before, behind = _AROUND
    body = around[before:-behind]
    quotes = np.flatnonzero(body == _QUOTE)
    feeds = np.flatnonzero(body == _FEED)
    returns = np.flatnonzero(body == _RETURN)
    sides = _sides(feeds, quotes), _sides(returns, quotes)
    borders = np.zeros(256, bool)
    borders[[delimiter, _FEED, _RETURN, _QUOTE]] = True
    for inside, way in enumerate((found.outside, found.inside)):
        here = int(inside ^ found.flips)
        if not way.spoiled:
            opening, closing = quotes[here::2], quotes[1 - here :: 2]
            fits = borders[around[opening + before - 1]].all()
            fits = fits and borders[around[closing + before + 1]].all()
            alone = around[returns[sides[1] == here] + before + 1] != _FEED
            way.spoiled = bool(not fits or alone.any())
        _count(way, around, feeds[sides[0] == here], start)
    found.flips ^= bool(len(quotes) % 2)
    found.is_open = bool(len(body)) and int(body[-1]) != _FEED


def _count(way: Way, around: npt.NDArray[np.uint8], ends: _Places, start: int) -> None:
    """Count rows that end at some line ends, and find the first place to cut at."""
    if not len(ends):
        return
    before = _AROUND[0]
    last = around[ends + before - 1]
    blank = (last == _FEED) | ((last == _RETURN) & (around[ends + before - 2] == _FEED))
    lines = way.lines + np.cumsum(~blank)
    if way.cut is None:
        # Whoever reads from there would take such bytes for the mark of an encoding.
        marks = np.ones(len(ends), bool)
        for place, byte in enumerate(MARK, before + 1):
            marks &= around[ends + place] == byte
        good = np.flatnonzero(~marks)
        if len(good):
            way.cut = (start + int(ends[good[0]]) + 1, int(lines[good[0]]))
    way.lines = int(lines[-1])


def _sides(places: _Places, quotes: _Places) -> _Places:
    """Return for each place whether the number of quotes before it is odd."""
    sides: _Places = np.searchsorted(quotes, places) & 1
    return sides


def spans_of(stretches: Sequence[Stretch], size: int) -> list[Span]:
    """Return the spans of a file, given all its stretches in order; none where it cannot be cut.

    Each begins with the first row that begins in a stretch.
    """
    places, befores = [0], [1]
    rows, inside = 0, False
    for number, stretch in enumerate(stretches):
        way = stretch.inside if inside else stretch.outside
        if way.spoiled:
            return []
        # A span has a row at the least; the first has the header besides.
        if number and way.cut is not None and rows + way.cut[1] > befores[-1]:
            places.append(way.cut[0])
            befores.append(rows + way.cut[1])
        rows += way.lines
        inside ^= stretch.flips
    if inside or not stretches:
        return []
    rows += stretches[-1].is_open
    # Behind the last cut there may be nothing but blank lines.
    if len(places) > 1 and befores[-1] == rows:
        del places[-1], befores[-1]
    ends, afters = [*places[1:], size], [*befores[1:], rows]
    return [
        Span(start, end, first, after - first)
        for start, end, first, after in zip(places, ends, befores, afters, strict=True)
    ]
