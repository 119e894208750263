"""Coordinates in columns of a CSV: where one value is no number, the row is named.

Else the whole table would have no geometry, for one value. A column that holds no number at all,
as one with degrees and minutes, is text like any other.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.errors import InvalidFileError
from havasu_vc.records import dataclass

__all__ = ["NoNumber", "no_number", "require_numbers"]

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"


@dataclass(frozen=True, slots=True)
class NoNumber:
    """A value that is no number where numbers stand."""

    row: int
    """The first row of the file is 1."""
    value: str
    """The value."""


def require_numbers(path: str, batches: Iterable[pa.RecordBatch], name: str) -> None:
    """Raise if a row has no number where others have a longitude or a latitude."""
    found = no_number(batches, name)
    if found is not None:
        raise InvalidFileError(
            path,
            f"row {found.row} has {found.value!r} in column {name!r}, where others have a number",
            hints=(
                "mend the row, or leave its coordinates empty",
                f"--leave-out {name} takes the table without geometries",
            ),
        )


def no_number(batches: Iterable[pa.RecordBatch], name: str) -> NoNumber | None:
    """Return the first value of a column that is no number; None where no value is one."""
    first, some, before = None, False, 0
    for batch in batches:
        column = batch.column(name)
        number = pc.match_substring_regex(column, _NUMBER).fill_null(True)
        filled = pc.and_(column.is_valid(), pc.not_equal(column, "").fill_null(False))
        wrong = pc.indices_nonzero(pc.and_(filled, pc.invert(number)))
        some = some or bool(pc.any(pc.and_(filled, number)).as_py())
        if first is None and len(wrong):
            place = wrong[0].as_py()
            first = NoNumber(before + place + 1, column[place].as_py())
        if first is not None and some:
            return first
        before += batch.num_rows
    return None
