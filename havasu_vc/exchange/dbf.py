"""Attributes of a shapefile as its .dbf file has them, where GDAL guesses.

GDAL makes 0 of letters in a column of numbers, 1970-01-01 of what is no date and false of a blank
that stands for no value. So the file itself is looked at, in pieces, before.
"""

from __future__ import annotations

import codecs
import datetime
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, InvalidFileError
from havasu_vc.records import dataclass

__all__ = [
    "WantedColumn",
    "check_attributes",
    "long_numbers",
    "refuse_long_rows",
    "text_encoding",
]

WantedColumn = tuple[str, int, pa.DataType]
"""The name of a column, its place in the file and the type that GDAL gives it."""

_PIECE = 1 << 16
_MOST_LOOKED_AT = 10_000
_LONG = 16
_VIRTUAL = "/vsizip/"
_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(rb"[+-]?\d+(\.0*)?")
_TRUE_OR_FALSE = b"TtYyFfNn"
_NONE = b" \0?"
_TRUTH, _DATE = "true or false", "a date such as 20261231"
_BLANK = b" \0\t"


@dataclass(frozen=True, slots=True)
class Attributes:
    """The rows of a .dbf file, and where its columns stand in them."""

    rows: np.ndarray
    """A row of bytes for each, deleted ones too."""
    columns: tuple[tuple[str, int, int], ...]
    """Of each column its letter, `W` of whole numbers, and the bytes where it begins and ends."""
    names: tuple[bytes, ...]
    """The names of the columns."""

    def pieces(self) -> Iterator[np.ndarray]:
        """Yield rows that are not deleted, some at a time."""
        for start in range(0, len(self.rows), _PIECE):
            piece = self.rows[start : start + _PIECE]
            yield piece[piece[:, 0] != ord("*")]

    def blanks(self, column: int) -> np.ndarray:
        """Return which rows have no value in a column of true and false."""
        _, start, _ = self.columns[column]
        parts = [np.isin(piece[:, start], list(_NONE)) for piece in self.pieces()]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=bool)


def _attributes_of(path: str) -> Attributes | None:
    """Return the attributes of the shapefile at a path; None where they are not as any known."""
    data = _data(path)
    if data is None or len(data) < 32:
        return None
    count = int.from_bytes(data[4:8].tobytes(), "little")
    begin = int.from_bytes(data[8:10].tobytes(), "little")
    length = int.from_bytes(data[10:12].tobytes(), "little")
    if length < 1 or begin < 32 or begin + count * length > len(data):
        return None
    head = data[:begin].tobytes()
    columns, names, at = [], [], 1
    for place in range(32, begin - 31, 32):
        if head[place] == 0x0D:
            break
        letter, size = chr(head[place + 11]), head[place + 16]
        if letter == "C":
            size += head[place + 17] << 8
        elif letter == "N" and not head[place + 17]:
            letter = "W"
        columns.append((letter, at, at + size))
        names.append(head[place : place + 11].split(b"\0")[0])
        at += size
    if at > length:
        return None
    rows = data[begin : begin + count * length].reshape(count, length)
    return Attributes(rows, tuple(columns), tuple(names))


def refuse_long_rows(path: str) -> None:
    """Refuse a .dbf that GDAL wrote with rows longer than their length can be said in its head."""
    with Path(path).with_suffix(".dbf").open("rb") as file:
        data = file.read(1 << 16)
    length, begin = int.from_bytes(data[10:12], "little"), int.from_bytes(data[8:10], "little")
    total = 1
    for place in range(32, begin - 31, 32):
        if data[place] == 0x0D:
            break
        total += data[place + 16]
        if data[place + 11 : place + 12] == b"C":
            total += data[place + 17] << 8
    if total != length:
        raise InvalidArgumentError(
            f"a shapefile has rows of 65,535 bytes at most, and these have {total:,}",
            hints=("leave columns out with --columns, or export to .gpkg or .parquet",),
        )


def _attributes_with(path: str, wanted: Sequence[WantedColumn]) -> Attributes | None:
    """Return the attributes of a shapefile where it has all of some columns."""
    found = _attributes_of(path) if wanted else None
    if found is None or max(place for _, place, _ in wanted) >= len(found.columns):
        return None
    return found


def long_numbers(path: str, wanted: Sequence[WantedColumn]) -> list[str]:
    """Return the columns of whole numbers that GDAL rounds, having more digits than it keeps."""
    attributes = _attributes_with(path, wanted)
    if attributes is None:
        return []
    found = []
    for name, place, type_ in wanted:
        letter, start, end = attributes.columns[place]
        if letter != "W" or end - start < _LONG or not pa.types.is_floating(type_):
            continue
        for piece in attributes.pieces():
            values = piece[:, start:end]
            digits = ((values >= ord("0")) & (values <= ord("9"))).sum(axis=1)
            if (digits >= _LONG).any():
                found.append(name)
                break
    return found


def text_encoding(path: str) -> str | None:
    """Return how texts of the shapefile at a path are encoded, where the file itself says nothing.

    They are UTF-8 where the names of columns and the first values that are not ASCII are; else
    what Windows had in the west, in which most such files were written.
    """
    attributes = _attributes_of(path)
    if attributes is None:
        return None
    texts = list(attributes.names)
    spans = [(start, end) for letter, start, end in attributes.columns if letter == "C"]
    for piece in attributes.pieces():
        for start, end in spans:
            values = piece[:, start:end]
            odd = values[(values > 0x7F).any(axis=1)][: _MOST_LOOKED_AT - len(texts)]
            texts += [value.tobytes() for value in odd]
        if len(texts) >= _MOST_LOOKED_AT:
            break
    return "UTF-8" if all(map(_is_utf8, texts)) else "CP1252"


def _is_utf8(value: bytes) -> bool:
    """Whether a value is UTF-8, whose last character may be cut off as it did not fit."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(value)
    except UnicodeDecodeError:
        return False
    return True


def _data(path: str) -> np.ndarray | None:
    if path.startswith(_VIRTUAL):
        return _archived(path)
    for end in (".dbf", ".DBF"):
        file = Path(path).with_suffix(end)
        if file.exists() and file.stat().st_size:
            return np.memmap(file, dtype=np.uint8, mode="r")
    return None


def _archived(path: str) -> np.ndarray | None:
    import zipfile

    archive, found, name = path.removeprefix(_VIRTUAL).partition(".zip/")
    if not found:
        return None
    with zipfile.ZipFile(f"{archive}.zip") as members:
        for end in (".dbf", ".DBF"):
            if name[:-4] + end in members.namelist():
                return np.frombuffer(members.read(name[:-4] + end), dtype=np.uint8)
    return None


def check_attributes(
    path: str, shown: str, wanted: Sequence[WantedColumn]
) -> dict[str, np.ndarray]:
    """Return which rows have no value, of each column of true and false.

    Raises `InvalidFileError` for the first value that is not what its column says.
    """
    attributes = _attributes_with(path, wanted)
    if attributes is None:
        return {}
    blanks = {}
    for name, place, type_ in wanted:
        letter, start, end = attributes.columns[place]
        kind = _kind(letter, type_)
        for piece in attributes.pieces() if kind else ():
            for value in _odd(piece[:, start:end], kind):
                raise InvalidFileError(
                    shown,
                    f"column {name!r} holds {value.decode('latin-1')!r}, which is not {kind}",
                    hints=("mend it in the file", "--leave-out takes the table without the column"),
                )
        if kind == _TRUTH:
            blanks[name] = attributes.blanks(place)
    return blanks


def _kind(letter: str, type_: pa.DataType) -> str:
    if letter == "D" and pa.types.is_date(type_):
        return _DATE
    if letter == "L" and pa.types.is_boolean(type_):
        return _TRUTH
    if letter in "WNF" and pa.types.is_integer(type_):
        return "a whole number"
    return "a number" if letter in "WNF" and pa.types.is_floating(type_) else ""


def _odd(values: np.ndarray, kind: str) -> Iterator[bytes]:
    """Yield values that are not of a kind, in order; only those that may be are looked at."""
    if kind == _TRUTH:
        odd = ~np.isin(values[:, 0], list(_TRUE_OR_FALSE + _NONE))
        yield from (row.tobytes() for row in values[odd])
        return
    if kind == _DATE:
        digits = values.astype(np.int16) - ord("0")
        plain = ((digits >= 0) & (digits <= 9)).all(axis=1) & (digits.shape[1] == 8)
        months = digits[:, 4] * 10 + digits[:, 5] if digits.shape[1] == 8 else None
        if months is not None:
            days = digits[:, 6] * 10 + digits[:, 7]
            plain &= (months >= 1) & (months <= 12) & (days >= 1) & (days <= 28)
            plain &= (digits[:, :4] != 0).any(axis=1)
    else:
        # Digits behind blanks, and perhaps a sign, are most of what there is.
        digit = (values >= ord("0")) & (values <= ord("9"))
        plain = digit[:, -1] & (digit | (values == ord(" "))).all(axis=1)
        plain &= (np.diff(digit.astype(np.int8), axis=1) >= 0).all(axis=1)
    for row in values[~plain]:
        value = row.tobytes().split(b"\0")[0].strip(_BLANK)
        if value and not _is_sound(value, kind):
            yield value


def _is_sound(value: bytes, kind: str) -> bool:
    if kind == _DATE:
        if not value.strip(b"0"):
            return True  # no value
        try:
            datetime.date(int(value[:4]), int(value[4:6]), int(value[6:]))
        except ValueError:
            return False
        return len(value) == 8 and value.isdigit()
    if value.startswith(b"*"):
        return True  # no value, or one that did not fit
    return (_WHOLE if kind == "a whole number" else _NUMBER).fullmatch(value) is not None
