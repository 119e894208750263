"""The R-tree of a working copy: as it is packed, and functions that its triggers call."""

import sqlite3
import struct
from contextlib import closing

import numpy as np
import pytest

from havasu_vc.exchange import living_index
from havasu_vc.exchange.living_index import IndexPacking
from havasu_vc.exchange.living_tables import add_functions, create_index

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


@pytest.mark.parametrize("part", [900, 1 << 18])
@pytest.mark.parametrize("count", [0, 1, 51, 52, 900, 1013, 2117, 7000, 130_000])
def test_an_index_that_is_packed_finds_what_is_there(
    count: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(living_index, "_PART", part)
    monkeypatch.setattr(living_index, "_NODES_AT_ONCE", 7)
    monkeypatch.setattr(living_index, "_ROWS_AT_ONCE", 100)
    random = np.random.default_rng(count)
    low = random.uniform(-180, 180, (count, 2))
    boxes = np.hstack([low, low + random.uniform(0, 2, (count, 2))])
    boxes[::9] = np.nan
    ids = random.permutation(count) + 1
    west, south, east, north = -30.0, -20.0, 60.0, 70.0
    touches = (boxes[:, :2] <= [east, north]).all(axis=1)
    touches &= (boxes[:, 2:] >= [west, south]).all(axis=1)

    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE TABLE gpkg_extensions (a, b, c, d, e)")
        create_index(database, "t", "geom")
        packing = IndexPacking(database, "t", "geom")
        for start in range(0, count, 500):
            some = slice(start, start + 500)
            packing.add(ids[some].tolist(), boxes[some])
        packing.finish()
        assert database.execute("SELECT rtreecheck('rtree_t_geom')").fetchone() == ("ok",)
        query = (
            "SELECT id FROM rtree_t_geom WHERE minx <= ? AND maxx >= ? AND miny <= ? AND maxy >= ?"
        )
        found = {each for (each,) in database.execute(query, (east, west, north, south))}
        every = {each for (each,) in database.execute("SELECT id FROM rtree_t_geom")}
    assert every == set(ids[~np.isnan(boxes).any(axis=1)].tolist())
    # Single precision: a box is larger by a little, never smaller.
    assert found >= set(ids[touches].tolist())
    assert len(found) <= touches.sum() + 2
