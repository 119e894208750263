"""What becomes of Z, M, empties and mixtures in each format: kept, noted or refused."""

from pathlib import Path

import pyarrow as pa
import pytest
import shapely

from havasu_vc.errors import UnsupportedTypeError
from havasu_vc.exchange.export import write_file
from havasu_vc.model.types import Encoding, Geometry
from tests.exchange.reading import read_table
from tests.exchange.tables import batches_of, stored

POINT, POINT_Z, POINT_M = "POINT (1 2)", "POINT Z (1 2 3)", "POINT M (1 2 3)"
ROWS: dict[str, list[str | None]] = {
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
}
KEPT, REFUSED = "kept", "refused"
FATES = {
    ".parquet": {},
    ".csv": {},
    ".gpkg": {},
    ".fgb": {
        "flat, then z": REFUSED, "z, then flat": REFUSED, "late z": REFUSED,
        "empty": "become nulls",
    },
    ".shp": {
        "flat, then z": REFUSED, "z, then flat": REFUSED, "late z": REFUSED,
        "several types": REFUSED, "empty": "become nulls",
    },
    ".geojson": {
        "m": "loses its M", "zm": "loses its M", "line m": "loses its M", "empty": "become nulls",
    },
}  # fmt: skip
FATES[".geojsonl"] = FATES[".geojson"]


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("extension", FATES)
def test_nothing_is_lost_unsaid(extension: str, rows: str, tmp_path: Path) -> None:
    given = [None if text is None else shapely.from_wkt(text) for text in ROWS[rows]]
    wkb = [None if g is None else shapely.to_wkb(g, flavor="iso") for g in given]
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
    written = write_file(path, header, batches_of(batches))
    if fate != KEPT:
        assert fate in " ".join(written.notes)
        return
    back = read_table(path, geometry_encoding=Encoding.WKB).sort_by("a").column("geom")
    assert back.to_pylist() == wkb
