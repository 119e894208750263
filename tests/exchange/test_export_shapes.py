"""What becomes of Z, M, empties and mixtures in each format: kept, noted or refused."""

import math
import struct
from pathlib import Path

import pyarrow as pa
import pytest
import shapely

from havasu_vc.errors import GeometryError, UnsupportedTypeError
from havasu_vc.exchange.export import write_file
from havasu_vc.model.types import Encoding, Geometry
from tests.exchange.reading import read_table
from tests.exchange.tables import batches_of, stored

POINT, POINT_Z, POINT_M = "POINT (1 2)", "POINT Z (1 2 3)", "POINT M (1 2 3)"
CURVE = struct.pack("<BII6d", 1, 8, 3, 0, 0, 1, 1, 2, 0)
ROWS: dict[str, list[str | bytes | None]] = {
    "z": [POINT_Z, "POINT Z (4 5 6)"],
    "m": [POINT_M],
    "zm": ["POINT ZM (1 2 3 4)"],
    "line m": ["LINESTRING M (1 2 3, 4 5 6)"],
    "flat, then z": [POINT, POINT_Z],
    "z, then flat": [POINT_Z, POINT],
    "null, then z": [None, POINT_Z],
    "late z": [POINT, POINT, POINT, POINT_Z],
    "several types": [POINT, "LINESTRING (1 2, 3 4)"],
    "empty": ["POINT EMPTY", POINT],
    "no number": ["POINT Z (1 2 NaN)"],
    "infinite": ["LINESTRING (0 0, 1 inf)"],
    "curve": [CURVE],
    "many digits": ["POINT (0.1234567890123457 -174.00000000000003)"],
}
KEPT, REFUSED, ABSENT = "kept", "refused", "no text"
FATES = {
    ".parquet": {},
    ".csv": {"curve": ABSENT},
    ".gpkg": {},
    ".fgb": {
        "flat, then z": REFUSED, "z, then flat": REFUSED, "late z": REFUSED,
        "empty": "become nulls",
    },
    ".shp": {
        "flat, then z": REFUSED, "z, then flat": REFUSED, "late z": REFUSED,
        "several types": REFUSED, "empty": "become nulls", "no number": REFUSED,
        "infinite": REFUSED, "curve": REFUSED,
    },
    ".geojson": {
        "m": "loses its M", "zm": "loses its M", "line m": "loses its M", "empty": "become nulls",
        "no number": REFUSED, "infinite": REFUSED, "curve": "become lines",
    },
}  # fmt: skip
FATES[".geojsonl"] = FATES[".geojson"]


def _wkb(text: str) -> bytes:
    return bytes(shapely.to_wkb(shapely.from_wkt(text), flavor="iso"))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("extension", FATES)
@pytest.mark.few(20)
def test_nothing_is_lost_unsaid(extension: str, rows: str, tmp_path: Path) -> None:
    wkb = [_wkb(each) if isinstance(each, str) else each for each in ROWS[rows]]
    table = pa.table({"a": range(len(wkb)), "geom": pa.array(wkb, pa.binary())})
    header, batches = stored(table, geometries={"geom": Geometry(Encoding.EWKB, "OGC:CRS84")})
    path = tmp_path / f"a{extension}"
    fate = FATES[extension].get(rows, KEPT)

    if fate == REFUSED:
        with pytest.raises(UnsupportedTypeError, match="geom") as caught:
            write_file(path, header, batches_of(batches))
        assert "GeoParquet" in caught.value.hints[0]
        assert list(tmp_path.iterdir()) == []
        return
    if fate == ABSENT:
        with pytest.raises(GeometryError, match="arcs or surfaces"):
            write_file(path, header, batches_of(batches))
        return
    written = write_file(path, header, batches_of(batches))
    if fate != KEPT:
        assert fate in " ".join(written.notes)
        return
    back = read_table(path, geometry_encoding=Encoding.WKB).sort_by("a").column("geom")
    assert back.to_pylist() == wkb


@pytest.mark.parametrize(
    ("extension", "values", "fate"),
    [
        (".gpkg", [1.5, math.nan], "NaN, which becomes null"),
        (".gpkg", [1.5, math.inf], None),
        (".geojson", [-math.inf, 1.5], "NaN or infinities, which become null"),
        (".geojsonl", [1.5, math.nan], "NaN or infinities, which become null"),
        (".geojson", [1.5, None], None),
        (".csv", [1.5, math.nan], None),
        (".fgb", [1.5, math.nan, math.inf], None),
    ],
)
def test_numbers_that_are_none_are_kept_or_noted(
    extension: str, values: list[float | None], fate: str | None, tmp_path: Path
) -> None:
    table = pa.table({"x": values, "geom": pa.array([_wkb(POINT)] * len(values), pa.binary())})
    header, rows = stored(table, geometries={"geom": Geometry(Encoding.EWKB, "OGC:CRS84")})
    path = tmp_path / f"a{extension}"
    notes = [
        note for note in write_file(path, header, batches_of(rows)).notes if "column 'x'" in note
    ]
    back = read_table(path).column("x").to_pylist()
    if fate is None:
        assert repr(sorted(back, key=repr)) == repr(sorted(values, key=repr)) and not notes
    else:
        assert len(notes) == 1 and fate in notes[0]
        assert sorted(back, key=repr) == sorted([1.5, None], key=repr)
