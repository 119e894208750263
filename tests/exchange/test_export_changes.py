from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.errors import InvalidArgumentError, UnsupportedTypeError
from havasu_vc.exchange.export_changes import CHANGE_TYPE, write_changes
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from tests.exchange.reading import open_one, read_all
from tests.exchange.tables import LONLAT, header_of, points

ID = Field(1, "id", Primitive.LONG, required=True)
NAME = Field(2, "name", Primitive.STRING)
GEOM = Field(3, "geom", Primitive.BINARY, geometry=LONLAT)
SCHEMA = Schema((ID, NAME, GEOM), (1,))
Row = dict[str, Any] | None


def diff(pairs: list[tuple[Row, Row]], old: Schema = SCHEMA, new: Schema = SCHEMA) -> DatasetDiff:
    def batches() -> Iterator[ChangeBatch]:
        for start in range(0, len(pairs), 3):
            part = pairs[start : start + 3]
            before = pa.array([a for a, _ in part], pa.struct(list(arrow_schema(old))))
            after = pa.array([b for _, b in part], pa.struct(list(arrow_schema(new))))
            yield ChangeBatch.from_structs(before, after)

    return DatasetDiff("t", header_of(old), header_of(new), (), batches())


def row(identifier: int, name: str) -> dict[str, Any]:
    (geom,) = points((float(identifier), 0.0)).to_pylist()
    return {"id": identifier, "name": name, "geom": geom}


PAIRS: list[tuple[Row, Row]] = [
    (None, row(1, "new")),
    (row(2, "old"), row(2, "newer")),
    (row(3, "gone"), None),
    (row(4, "a"), row(4, "b")),
]
EXPECTED = [
    ("insert", 1, "new"),
    ("update_before", 2, "old"),
    ("update_after", 2, "newer"),
    ("delete", 3, "gone"),
    ("update_before", 4, "a"),
    ("update_after", 4, "b"),
]


@pytest.mark.parametrize("extension", [".parquet", ".gpkg", ".geojson", ".geojsonl", ".csv"])
def test_changes_are_rows_that_say_what_they_are(extension: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{extension}"
    written = write_changes(path, diff(PAIRS))
    assert (written.rows, written.changes) == (6, ChangeCounts(1, 2, 1))
    back = read_all(open_one(path)).to_pylist()
    assert [(r[CHANGE_TYPE], r["id"], r["name"]) for r in back] == EXPECTED
    assert [r["geom"] for r in back] == [row(n, "")["geom"] for _, n, _ in EXPECTED]


def test_columns_are_matched_by_id_when_the_schema_changed(tmp_path: Path) -> None:
    old = Schema((ID, NAME, Field(4, "size", Primitive.INT)), (1,))
    new = Schema((ID, replace(NAME, name="label"), Field(5, "size", Primitive.LONG)), (1,))
    pairs: list[tuple[Row, Row]] = [
        ({"id": 1, "name": "x", "size": 5}, {"id": 1, "label": "y", "size": 7})
    ]
    write_changes(tmp_path / "a.parquet", diff(pairs, old, new))
    assert read_all(open_one(tmp_path / "a.parquet")).to_pylist() == [
        {CHANGE_TYPE: "update_before", "id": 1, "label": "x", "size": None, "size_before": 5},
        {CHANGE_TYPE: "update_after", "id": 1, "label": "y", "size": 7, "size_before": None},
    ]


def test_a_widened_column_holds_both(tmp_path: Path) -> None:
    old = Schema((ID, Field(2, "n", Primitive.INT)), (1,))
    new = Schema((ID, Field(2, "n", Primitive.LONG)), (1,))
    write_changes(tmp_path / "a.parquet", diff([({"id": 1, "n": 5}, {"id": 1, "n": 2**40})],
                                              old, new))  # fmt: skip
    rows = read_all(open_one(tmp_path / "a.parquet"))
    assert rows.column("n").to_pylist() == [5, 2**40]


def test_a_dataset_that_was_added_or_removed(tmp_path: Path) -> None:
    one = diff([(None, row(1, "a"))])
    write_changes(tmp_path / "a.csv", replace(one, old=None))
    other = diff([(row(1, "a"), None)])
    write_changes(tmp_path / "b.csv", replace(other, new=None))
    kinds = [read_all(open_one(tmp_path / f"{n}.csv")).column(CHANGE_TYPE)[0].as_py() for n in "ab"]
    assert kinds == ["insert", "delete"]


def test_what_cannot_be_exported(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="shapefile"):
        write_changes(tmp_path / "a.shp", diff(PAIRS))
    taken = Schema((ID, Field(2, CHANGE_TYPE, Primitive.STRING)), (1,))
    with pytest.raises(UnsupportedTypeError):
        write_changes(tmp_path / "a.csv", diff([], taken, taken))
    assert list(tmp_path.iterdir()) == []


def test_a_change_of_reference_system_is_noted(tmp_path: Path) -> None:
    moved = replace(GEOM, geometry=replace(LONLAT, crs="EPSG:2193"))
    new = Schema((ID, NAME, moved), (1,))
    written = write_changes(tmp_path / "a.parquet", diff(PAIRS, SCHEMA, new))
    assert "OGC:CRS84" in written.notes[0]


def test_headers_are_plain() -> None:
    assert isinstance(diff([]).header, DatasetHeader)
