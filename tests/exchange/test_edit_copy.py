import datetime
import decimal
import sqlite3
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyogrio
import pytest
import shapely
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from havasu_vc.errors import InvalidArgumentError, InvalidFileError, UnsupportedTypeError
from havasu_vc.exchange.edit_copy import EditCopy, LayerToEdit, read_edit_copy, write_edit_copy
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.types import Encoding, Geometry
from tests.exchange.reading import read_all
from tests.exchange.tables import POINTS, batches_of, flat_table, points, rich_table, stored
from tests.support.examples import examples

COMMIT = "1" * 40


def copied(path: Path, header: DatasetHeader, table: pa.Table) -> EditCopy:
    write_edit_copy(path, [LayerToEdit(header, batches_of(table))], COMMIT, overwrite=True)
    return read_edit_copy(path)


def sql(path: Path, *statements: str) -> None:
    """Edit as QGIS does, by the functions that GDAL gives SQLite left out."""
    with closing(sqlite3.connect(path)) as database, database:
        triggers = database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        for statement in statements:
            database.execute(statement)


FLAT, RICH = flat_table(), rich_table()


@pytest.mark.parametrize("key", [("id",), ("name",), ("id", "name"), ()], ids=str)
def test_an_unedited_copy_has_no_changes(key: tuple[str, ...], tmp_path: Path) -> None:
    table = FLAT.set_column(2, "name", pa.array(["a", "b", "c"]))
    header, rows = stored(table, key=key, geometries={"geom": POINTS})

    back = copied(tmp_path / "a.gpkg", header, rows)

    (layer,) = back.layers
    assert (back.commit, layer.dataset, layer.base) == (COMMIT, "t", header.schema)
    assert layer.schema == header.schema
    assert (layer.added, layer.dropped, dict(layer.renamed)) == ((), (), {})
    assert read_all(layer).equals(rows)


def test_types_that_a_geopackage_does_not_have(tmp_path: Path) -> None:
    header, rows = stored(RICH, key=("id",))
    (layer,) = copied(tmp_path / "a.gpkg", header, rows).layers
    assert read_all(layer).equals(rows)


def test_what_qgis_sees(tmp_path: Path) -> None:
    header, rows = stored(FLAT, key=("id",), geometries={"geom": POINTS})
    copied(tmp_path / "a.gpkg", header, rows)
    assert pyogrio.list_layers(tmp_path / "a.gpkg").tolist() == [["t", "Point"]]
    info = pyogrio.read_info(tmp_path / "a.gpkg")
    assert (info["fid_column"], info["crs"]) == ("id", "EPSG:2193")


def value_columns() -> dict[str, st.SearchStrategy[Any]]:
    moments = st.datetimes(datetime.datetime(1000, 1, 1), datetime.datetime(3000, 1, 1))
    floats = st.floats() | st.sampled_from([-0.0, float("nan"), 5e-324])
    return {
        "boolean": st.booleans(),
        "int": st.integers(-(2**31), 2**31 - 1),
        "long": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(width=32) | st.just(-0.0),
        "double": floats,
        "date": st.dates(datetime.date(1000, 1, 1), datetime.date(3000, 1, 1)),
        "time": st.times(),
        "moment": moments,
        "zoned": moments,
        "text": st.text(st.characters(codec="utf-8")) | st.sampled_from(["", "a\0b", "\\0", "\\"]),
        "decimal": st.decimals(-(10**18), 10**18, places=4),
        "bytes": st.binary(),
        "list": st.lists(st.none() | st.floats(allow_nan=False)),
        "map": st.dictionaries(st.text(), st.none() | st.binary(), max_size=3),
        "point": st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2),
    }


ARROW_TYPES = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(),
    "double": pa.float64(), "date": pa.date32(), "time": pa.time64("us"),
    "moment": pa.timestamp("us"), "zoned": pa.timestamp("us", tz="UTC"), "text": pa.string(),
    "decimal": pa.decimal128(30, 4), "bytes": pa.binary(), "list": pa.list_(pa.float64()),
    "map": pa.map_(pa.string(), pa.binary()), "point": pa.binary(),
}  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    count = draw(st.integers(0, 5))
    ids = st.integers(-(2**63), 2**63 - 1).filter(lambda number: number != -1)
    keys = draw(st.lists(ids, min_size=count, max_size=count, unique=True))
    columns: dict[str, pa.Array] = {"id": pa.array(keys, pa.int64())}
    for name, values in value_columns().items():
        drawn = draw(st.lists(st.none() | values, min_size=count, max_size=count))
        if name == "point":
            columns[name] = points(*drawn)
        elif name == "map":
            pairs = [None if value is None else list(value.items()) for value in drawn]
            columns[name] = pa.array(pairs, ARROW_TYPES[name])
        else:
            columns[name] = pa.array(drawn, ARROW_TYPES[name])
    return pa.table(columns)


def bits(table: pa.Table) -> list[list[Any]]:
    """Return all values, with floats as their bits so that NaN equals itself."""

    def form(value: Any) -> Any:
        if isinstance(value, float):
            return "nan" if value != value else struct.pack("<d", value)
        return value

    return [[form(value) for value in column.to_pylist()] for column in table.columns]


@examples(60, suppress_health_check=[HealthCheck.too_slow])
@given(table=tables(), keyed=st.booleans())
def test_any_table_comes_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, keyed: bool
) -> None:
    geometries = {"point": Geometry(Encoding.EWKB, "EPSG:2193", "POINT")}
    header, rows = stored(table, key=("id",) if keyed else (), geometries=geometries)
    path = tmp_path_factory.getbasetemp() / "property.gpkg"
    (layer,) = copied(path, header, rows).layers
    back = read_all(layer)
    # A copy is read in the order of its ids.
    expected = rows.sort_by("id") if keyed else rows
    assert back.schema.equals(arrow_schema(header.schema))
    assert bits(back) == bits(expected)


def test_geometries_keep_srids_dimensions_and_nulls(tmp_path: Path) -> None:
    shapes = [
        shapely.set_srid(shapely.Point(1, 2), 3857),
        shapely.from_wkt("LINESTRING ZM (1 2 3 4, 5 6 7 8)"),
        shapely.from_wkt("POLYGON EMPTY"),
        shapely.from_wkt("POINT EMPTY"),
        shapely.from_wkt("GEOMETRYCOLLECTION (POINT (1 2), LINESTRING EMPTY)"),
        None,
    ]
    wkb = [
        None if s is None else shapely.to_wkb(s, include_srid=True, byte_order=1) for s in shapes
    ]
    table = pa.table({"id": range(6), "geom": pa.array(wkb, pa.binary()),
                      "other": pa.array(wkb, pa.binary())})  # fmt: skip
    anything = Geometry(Encoding.EWKB, "EPSG:2193")
    header, rows = stored(table, key=("id",), geometries={"geom": anything, "other": anything})
    (layer,) = copied(tmp_path / "a.gpkg", header, rows).layers
    back = read_all(layer)
    assert back.column("geom").to_pylist() == rows.column("geom").to_pylist()
    assert back.column("other").to_pylist() == rows.column("other").to_pylist()


def test_edits_come_back_and_nothing_else(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 1, 0, 0, 0, 123456)
    table = pa.table({"id": [1, 2, 3], "n": [1, 2, 3], "t": pa.array([moment] * 3),
                      "x": [float("nan")] * 3})  # fmt: skip
    header, rows = stored(table, key=("id",))
    path = tmp_path / "a.gpkg"
    copied(path, header, rows)
    sql(
        path,
        "UPDATE t SET n = 20, t = '2024-01-01T00:00:00.123Z' WHERE id = 2",
        "UPDATE t SET x = 5.5 WHERE id = 3",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t (n) VALUES (40)",
    )
    (layer,) = read_edit_copy(path).layers
    second, third, fourth = read_all(layer).to_pylist()
    # QGIS writes a whole row when a cell changes: the time that only lost its end is as it was.
    assert (second["id"], second["n"], second["t"]) == (2, 20, moment)
    assert second["x"] != second["x"]
    assert (third["id"], third["x"], third["t"]) == (3, 5.5, moment)
    assert fourth == {"id": 4, "n": 40, "t": None, "x": None}


def test_columns_added_dropped_and_renamed(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "a": ["x", "y"], "b": [1, 2], "c": [1.5, 2.5]})
    header, rows = stored(table, key=("id",))
    path = tmp_path / "a.gpkg"
    copied(path, header, rows)

    sql(path, "ALTER TABLE t RENAME COLUMN a TO label")
    (renamed,) = read_edit_copy(path).layers
    assert dict(renamed.renamed) == {"a": "label"}
    assert renamed.schema.by_id[2].name == "label"
    assert read_all(renamed).column("label").to_pylist() == ["x", "y"]

    sql(path, "ALTER TABLE t RENAME COLUMN label TO a", "ALTER TABLE t DROP COLUMN b",
        "ALTER TABLE t ADD COLUMN note TEXT", "UPDATE t SET note = 'new' WHERE id = 2",
        "ALTER TABLE t ADD COLUMN size INTEGER")  # fmt: skip
    (changed,) = read_edit_copy(path).layers
    assert (changed.added, changed.dropped) == (("note", "size"), ("b",))
    assert changed.schema.names == ("id", "a", "c", "note", "size")
    assert changed.schema.by_id[4].name == "c"
    assert read_all(changed).to_pylist() == [
        {"id": 1, "a": "x", "c": 1.5, "note": None, "size": None},
        {"id": 2, "a": "y", "c": 2.5, "note": "new", "size": None},
    ]


@pytest.mark.parametrize("filled", [True, False])
def test_a_column_renamed_and_others_added_at_once(filled: bool, tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "a": ["x", "y"], "b": ["p", None], "c": [1.5, 2.5]})
    header, rows = stored(table, key=("id",))
    path = tmp_path / "a.gpkg"
    copied(path, header, rows)
    sql(path, "ALTER TABLE t ADD COLUMN note TEXT", "ALTER TABLE t RENAME COLUMN a TO label",
        "ALTER TABLE t RENAME COLUMN b TO other", "ALTER TABLE t ADD COLUMN size INTEGER",
        "UPDATE t SET note = 'new' WHERE id = 2")  # fmt: skip
    if not filled:
        sql(path, "UPDATE t SET other = NULL")

    (changed,) = read_edit_copy(path).layers

    assert dict(changed.renamed) == {"a": "label"} | ({"b": "other"} if filled else {})
    assert changed.added == (("note", "size") if filled else ("other", "note", "size"))
    assert changed.dropped == (() if filled else ("b",))
    assert changed.schema.by_id[2].name == "label"
    assert read_all(changed).column("label").to_pylist() == ["x", "y"]


def test_several_datasets_in_one_copy(tmp_path: Path) -> None:
    flat, flat_rows = stored(FLAT, key=("id",), geometries={"geom": POINTS})
    rich, rich_rows = stored(RICH, key=("id",))
    rich = DatasetHeader("folder/rich", rich.kind, rich.schema, rich.meta)
    path = tmp_path / "a.gpkg"
    layers = [LayerToEdit(flat, batches_of(flat_rows)), LayerToEdit(rich, batches_of(rich_rows))]

    assert write_edit_copy(path, layers, COMMIT).rows == 5
    first, second = read_edit_copy(path).layers

    assert (first.dataset, second.dataset) == ("t", "folder/rich")
    assert read_all(first).equals(flat_rows)
    assert read_all(second).equals(rich_rows)
    sql(path, 'DROP TABLE "folder__rich"')
    assert read_edit_copy(path).missing == ("folder/rich",)


def test_a_value_that_is_not_of_its_type(tmp_path: Path) -> None:
    header, rows = stored(RICH, key=("id",))
    path = tmp_path / "a.gpkg"
    copied(path, header, rows)
    sql(path, "UPDATE t SET decimal = 'many' WHERE id = 1")
    (layer,) = read_edit_copy(path).layers
    with pytest.raises(UnsupportedTypeError, match="decimal"):
        read_all(layer)


def test_a_file_that_is_no_edit_copy(tmp_path: Path) -> None:
    path = tmp_path / "a.gpkg"
    pyogrio.write_arrow(pa.table({"a": [1]}), path)
    with pytest.raises(InvalidFileError, match="not a copy to edit"):
        read_edit_copy(path)
    with pytest.raises(InvalidArgumentError, match="GeoPackage"):
        write_edit_copy(tmp_path / "a.shp", [], COMMIT)


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path) -> None:
    table = pa.table({"id": [5, -1], "d": [decimal.Decimal(1)] * 2})
    header, rows = stored(table, key=("id",))
    with pytest.raises(UnsupportedTypeError, match="key -1"):
        copied(tmp_path / "a.gpkg", header, rows)
    assert list(tmp_path.iterdir()) == []
