"""Columns of geometries in which some values cannot be read: all that can be are.

What reads a column reads all of it or raises. A column that it refuses is halved until
what is left is one row, so that a few damaged values cost a few tries, and no row is
taken for another's fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pyarrow as pa

from havasu_vc.errors import GeometryError

__all__ = ["readable_rows"]

_T = TypeVar("_T")


def readable_rows(
    column: pa.Array, read: Callable[[pa.Array], _T]
) -> Iterator[tuple[slice, _T | None]]:
    """Yield which rows were read together and what came of it; None for a row that cannot be."""
    waiting = [slice(0, len(column))]
    while waiting:
        rows = waiting.pop()
        count = rows.stop - rows.start
        if not count:
            continue
        try:
            found = read(column.slice(rows.start, count))
        except GeometryError:
            if count == 1:
                yield rows, None
            else:
                middle = rows.start + count // 2
                waiting += [slice(middle, rows.stop), slice(rows.start, middle)]
        else:
            yield rows, found
