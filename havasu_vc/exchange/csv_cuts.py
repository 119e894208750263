"""Places at which a CSV file may be cut, so that several tasks read it: ends of its rows.

Whether a line break ends a row or stands inside a value is told by the quotes before it. That holds
where each quote that begins a value stands at its beginning and each that ends one at its end. A
file in which one stands elsewhere is not cut, nor one whose lines end with a carriage return alone.
"""

from __future__ import annotations

import codecs
import io
from dataclasses import field
from typing import IO

import numpy as np
import numpy.typing as npt

from havasu_vc.records import dataclass

__all__ = ["RowCuts", "Span", "Watched", "can_be_cut"]

_QUOTE, _FEED, _RETURN = b'"\n\r'
_MARK = codecs.BOM_UTF8
_Places = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """Whole rows of a file."""

    start: int
    """The place of the first byte; that of the file's header is 0."""
    end: int
    """The place behind the last byte."""
    first_row: int
    """The number of the first row; that of the file is 1."""


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
class RowCuts:
    """Looks through the bytes of a file, in order, for places to cut it at."""

    delimiter: int
    """The byte between values."""
    step: int
    """How many bytes a span has at the least."""
    spoiled: bool = False
    """Whether quotes stand where they do not tell values apart."""
    _seen: int = 0
    _before: bytes = b"\n\n"
    """The two bytes before those that wait."""
    _waiting: bytes = b""
    _inside: bool = False
    _rows: int = 0
    _cuts: list[tuple[int, int]] = field(default_factory=list)
    """Places, and how many lines are before."""

    def look(self, data: bytes) -> None:
        """Look at the next bytes."""
        if self._seen == 0 and not self._waiting:
            # What marks the encoding is no part of the first value.
            if data[:3] == _MARK:
                self._seen, data = 3, data[3:]
        # Of the last byte is not known yet what follows.
        data = self._waiting + data
        self._waiting = data[-1:]
        self._take(data[:-1], self._waiting)

    def spans(self, rows: int) -> list[Span]:
        """Return the spans of a file that was looked at to its end and has so many rows.

        None where it cannot be cut.
        """
        last, self._waiting = self._waiting, b""
        self._take(last, b"\n")
        size = self._seen
        if last and last[0] != _FEED:
            self._rows += 1
        if self.spoiled or self._inside or self._rows - 1 != rows:
            return []
        places = [0, *(place for place, _ in self._cuts)]
        befores = [1, *(lines for _, lines in self._cuts)]
        ends = [*places[1:], size]
        # Behind the last cut there may be nothing but blank lines.
        if len(ends) > 1 and befores[-1] == self._rows:
            places, befores, ends = places[:-1], befores[:-1], [*ends[:-2], size]
        return [Span(*span) for span in zip(places, ends, befores, strict=True)]

    def _take(self, data: bytes, following: bytes) -> None:
        """Look at bytes of which is known what stands before and behind them."""
        if self.spoiled or not data:
            self._seen += len(data)
            return
        around = np.frombuffer(self._before + data + following, np.uint8)
        body = around[2 : 2 + len(data)]
        quotes = np.flatnonzero(body == _QUOTE)
        self._check(around, quotes)
        ends = self._outside(np.flatnonzero(body == _FEED), quotes)
        returns = self._outside(np.flatnonzero(body == _RETURN), quotes)
        self.spoiled = self.spoiled or bool((around[returns + 3] != _FEED).any())
        before = around[ends + 1]
        blank = (before == _FEED) | ((before == _RETURN) & (around[ends] == _FEED))
        lines = self._rows + np.cumsum(~blank)
        cut = self._cuts[-1][0] if self._cuts else 0
        while len(ends):
            place = int(np.searchsorted(ends, cut + self.step - self._seen - 1))
            # A span has a row at the least; the first has the header besides.
            least = self._cuts[-1][1] if self._cuts else 1
            place = max(place, int(np.searchsorted(lines, least + 1)))
            if place >= len(ends):
                break
            cut = self._seen + int(ends[place]) + 1
            self._cuts.append((cut, int(lines[place])))
        if len(ends):
            self._rows = int(lines[-1])
        self._inside ^= bool(len(quotes) % 2)
        self._seen += len(data)
        self._before = (self._before + data)[-2:]

    def _check(self, around: npt.NDArray[np.uint8], quotes: _Places) -> None:
        """See that quotes stand at the beginning and at the end of values, or are two for one."""
        borders = np.zeros(256, bool)
        borders[[self.delimiter, _FEED, _RETURN, _QUOTE]] = True
        opening = quotes[int(self._inside) :: 2]
        closing = quotes[1 - int(self._inside) :: 2]
        fits = borders[around[opening + 1]].all() and borders[around[closing + 3]].all()
        self.spoiled = self.spoiled or not fits

    def _outside(self, places: _Places, quotes: _Places) -> _Places:
        """Return those of some places that are inside no value with quotes around it."""
        before = np.searchsorted(quotes, places) + int(self._inside)
        outside: _Places = places[before % 2 == 0]
        return outside


class Watched(io.RawIOBase):
    """The bytes of a file, which something else looks at as they are read."""

    def __init__(self, file: IO[bytes], cuts: RowCuts) -> None:
        self._file, self._cuts = file, cuts

    def readable(self) -> bool:
        """Say that it is there to be read."""
        return True

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes."""
        data = self._file.read(size)
        if data:
            self._cuts.look(data)
        return data

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
