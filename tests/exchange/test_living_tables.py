"""Functions that triggers of a working copy's R-tree call, on geometries of other programs too."""

import sqlite3
import struct
from contextlib import closing

import pytest

from havasu_vc.exchange.living_tables import add_functions

NAN = float("nan")


def header(flags: int, *envelope: float) -> bytes:
    order = "<" if flags & 1 else ">"
    return b"GP\0" + struct.pack(f"{order}BI{len(envelope)}d", flags, 4326, *envelope)


def point(order: str, type_: int, *values: float) -> bytes:
    return struct.pack(f"{order}BI{len(values)}d", order == "<", type_, *values)


LINE = struct.pack("<BII4d", 1, 2, 2, 1.5, 8.0, -3.0, 7.0)
EMPTY_LINE = struct.pack("<BII", 1, 2, 0)
HERE = (-3.0, 7.0, 1.5, 8.0)


@pytest.mark.parametrize(
    ("shape", "box"),
    [
        (header(1) + point("<", 1, 3.0, 4.0), (3.0, 4.0, 3.0, 4.0)),
        (header(0) + point(">", 1, 3.0, 4.0), (3.0, 4.0, 3.0, 4.0)),
        (header(0) + point("<", 1001, 3.0, 4.0, 9.0), (3.0, 4.0, 3.0, 4.0)),
        (header(1) + point("<", 3001, 3.0, 4.0, 9.0, 1.0), (3.0, 4.0, 3.0, 4.0)),
        (header(3, 3.0, 3.0, 4.0, 4.0) + point("<", 1, 3.0, 4.0), (3.0, 4.0, 3.0, 4.0)),
        (header(1) + LINE, HERE),
        (header(3, -3.0, 1.5, 7.0, 8.0) + LINE, HERE),
        (header(2, -3.0, 1.5, 7.0, 8.0) + LINE, HERE),
        (header(5, -3.0, 1.5, 7.0, 8.0, 0.0, 0.0) + LINE, HERE),
        (header(1) + point("<", 1, NAN, NAN), None),
        (header(17) + point("<", 1, NAN, NAN), None),
        (header(19, NAN, NAN, NAN, NAN) + EMPTY_LINE, None),
        (header(1) + EMPTY_LINE, None),
        (header(1) + LINE[:-3], None),
        (b"GP", None),
        (b"", None),
        (header(1)[:-2], None),
        (b"no geometry at all", None),
    ],
)
def test_the_box_of_a_geometry(shape: bytes, box: tuple[float, ...] | None) -> None:
    with closing(sqlite3.connect(":memory:")) as database:
        add_functions(database)
        query = "SELECT ST_IsEmpty(?1), ST_MinX(?1), ST_MinY(?1), ST_MaxX(?1), ST_MaxY(?1)"
        empty, *found = database.execute(query, (shape,)).fetchone()
    assert empty == (box is None)
    assert found == ([None] * 4 if box is None else list(box))
