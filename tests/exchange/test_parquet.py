import datetime
import decimal
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc.errors import CrsError, InvalidArgumentError, InvalidFileError, UnsupportedTypeError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.exchange.sources import open_sources
from havasu_vc.model.evolution import to_source
from havasu_vc.model.types import Decimal, Encoding, Primitive
from tests.exchange.reading import open_one, read_all, read_table

UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 59, 123456)
COLUMNS: dict[str, pa.Array] = {
    "bool": pa.array([True, None, False]),
    "int8": pa.array([-128, None, 127], pa.int8()),
    "int16": pa.array([-(2**15), None, 2**15 - 1], pa.int16()),
    "int32": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
    "int64": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
    "uint8": pa.array([0, None, 255], pa.uint8()),
    "uint16": pa.array([0, None, 2**16 - 1], pa.uint16()),
    "uint32": pa.array([0, None, 2**32 - 1], pa.uint32()),
    "uint64": pa.array([0, None, 2**64 - 1], pa.uint64()),
    "float16": pa.array([np.float16(1.5), None, np.float16("-inf")], pa.float16()),
    "float32": pa.array([1.5, None, float("inf")], pa.float32()),
    "float64": pa.array([1e308, None, -0.0]),
    "decimal": pa.array([decimal.Decimal("1234567.89"), None, decimal.Decimal("-0.01")],
                        pa.decimal128(9, 2)),
    "date32": pa.array([datetime.date(1, 1, 1), None, datetime.date(9999, 12, 31)]),
    "time_ms": pa.array([datetime.time(0), None, datetime.time(23, 59, 59)], pa.time32("ms")),
    "time_us": pa.array([datetime.time(0), None, datetime.time(23, 59, 59, 999999)],
                        pa.time64("us")),
    "naive_ms": pa.array([MOMENT.replace(microsecond=123000), None, MOMENT.replace(
        microsecond=0)], pa.timestamp("ms")),
    "naive_us": pa.array([MOMENT, None, MOMENT], pa.timestamp("us")),
    "zoned_us": pa.array([MOMENT.replace(tzinfo=UTC), None, MOMENT.replace(tzinfo=UTC)],
                         pa.timestamp("us", tz="UTC")),
    "zoned_there": pa.array([MOMENT.replace(tzinfo=UTC), None, MOMENT.replace(tzinfo=UTC)],
                            pa.timestamp("us", tz="Pacific/Auckland")),
    "duration": pa.array([1, None, -5], pa.duration("ms")),
    "text": pa.array(["Te Mātā \U0001f5fb\x01\n\"'", None, ""]),
    "large_text": pa.array(["a", None, ""], pa.large_string()),
    "bytes": pa.array([b"\x00\xff", None, b""]),
    "fixed": pa.array([b"abcd", None, b"\x00" * 4], pa.binary(4)),
    "dictionary": pa.array(["a", None, "b"]).dictionary_encode(),
    "list": pa.array([[1, None], None, []], pa.list_(pa.int32())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": None}],
                       pa.struct([("a", pa.int64()), ("b", pa.string())])),
    "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
    "deep": pa.array([[{"n": [[1.5]]}], None, [None]],
                     pa.list_(pa.struct([("n", pa.list_(pa.list_(pa.float64())))]))),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_each_type_is_kept_and_given_back(name: str, tmp_path: Path) -> None:
    given = pa.table({"v": COLUMNS[name]})
    pq.write_table(given, tmp_path / "t.parquet")
    written = pq.read_table(tmp_path / "t.parquet")

    source = open_one(tmp_path / "t.parquet")
    stored = read_all(source)

    (batch,) = stored.to_batches()
    back = pa.Table.from_batches([to_source(batch, source.schema)])
    assert back.column("v").type == written.column("v").type
    assert back.column("v").to_pylist() == written.column("v").to_pylist()


def test_a_wide_unsigned_column_is_a_decimal(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": COLUMNS["uint64"]}), tmp_path / "t.parquet")
    (field,) = open_one(tmp_path / "t.parquet").schema.fields
    assert (field.type, field.source_type) == (Decimal(20, 0), "uint64")


def test_tasks_are_row_groups_in_order_and_columns_can_be_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"a": range(1000), "b": [str(n) for n in range(1000)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    monkeypatch.setattr("havasu_vc.exchange.parquet.TASK_BYTES", 2500)

    source = open_one(tmp_path / "t.parquet", primary_key=("a",))

    assert 1 < len(source.tasks()) <= 10
    assert read_all(source).to_pylist() == table.to_pylist()
    assert read_all(source, ("b",)).column_names == ["b"]
    assert source.schema.key.names == ("a",)
    assert source.schema.by_name["a"].required


def wkb(*geometries: shapely.Geometry | None) -> pa.Array:
    return pa.array(
        [None if g is None else shapely.to_wkb(g, flavor="iso") for g in geometries], pa.binary()
    )


def write_geo(path: Path, column: pa.Array, **said: object) -> None:
    geo = {"version": "1.1.0", "primary_column": "geom",
           "columns": {"geom": {"encoding": "WKB", "geometry_types": [], **said}}}  # fmt: skip
    table = pa.table({"geom": column})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(geo)}), path)


def test_without_a_crs_it_is_crs84_and_null_means_unknown(tmp_path: Path) -> None:
    write_geo(tmp_path / "a.parquet", wkb(shapely.Point(1, 2)))
    write_geo(tmp_path / "b.parquet", wkb(shapely.Point(1, 2)), crs=None)

    default, unknown = open_one(tmp_path / "a.parquet"), open_one(tmp_path / "b.parquet")

    assert list(default.crs) == ["OGC:CRS84"]
    assert not unknown.crs
    (field,) = unknown.schema.geometries
    assert field.geometry is not None and field.geometry.crs is None


def test_a_crs_given_stands_for_the_one_in_the_file(tmp_path: Path) -> None:
    write_geo(tmp_path / "a.parquet", wkb(shapely.Point(1, 2)))
    assert list(open_one(tmp_path / "a.parquet", crs="EPSG:2193").crs) == ["EPSG:2193"]


def test_a_crs_that_cannot_be_understood_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    write_geo(tmp_path / "a.parquet", wkb(shapely.Point(1, 2)), crs={"type": "nonsense"})
    with pytest.raises(CrsError) as caught:
        open_one(tmp_path / "a.parquet")
    assert "--crs" in "".join(caught.value.hints)


def test_z_becomes_ewkb_and_can_be_stored_otherwise(tmp_path: Path) -> None:
    point = shapely.Point(1, 2, 3)
    write_geo(tmp_path / "a.parquet", wkb(point, None), geometry_types=["Point Z"])

    as_ewkb = open_one(tmp_path / "a.parquet")
    (field,) = as_ewkb.schema.geometries

    assert field.geometry is not None and field.geometry.shape == "POINT Z"
    first, second = read_all(as_ewkb).column("geom").to_pylist()
    assert first.hex().startswith("0101000080") and second is None
    assert shapely.from_wkb(first) == point
    text = read_table(tmp_path / "a.parquet", geometry_encoding=Encoding.WKT)
    assert shapely.from_wkt(text.column("geom")[0].as_py()) == point


def coordinates(rows: Sequence[tuple[float, ...]], axes: str = "xy") -> pa.Array:
    return pa.array([dict(zip(axes, row, strict=True)) for row in rows],
                    pa.struct([(axis, pa.float64()) for axis in axes]))  # fmt: skip


def nested(array: pa.Array, *offsets: list[int | None]) -> pa.Array:
    for level in offsets:
        array = pa.ListArray.from_arrays(pa.array(level, pa.int32()), array)
    return array


SIX = [(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (0.0, 0.0), (7.0, 7.0), (8.0, 9.0)]
NATIVE = [
    ("point", coordinates([(1.0, 2.0), (3.0, 4.0)]), ["POINT (1 2)", "POINT (3 4)"]),
    ("point", coordinates([(1.0, 2.0, 3.0)], "xyz"), ["POINT Z (1 2 3)"]),
    ("linestring", nested(coordinates(SIX), [0, None, 2, 6]),
     ["LINESTRING (0 0, 4 0)", None, "LINESTRING (4 4, 0 0, 7 7, 8 9)"]),
    ("linestring", nested(coordinates(SIX), [0, 0, 6]),
     ["LINESTRING EMPTY", "LINESTRING (0 0, 4 0, 4 4, 0 0, 7 7, 8 9)"]),
    ("multipoint", nested(coordinates(SIX), [0, 1, 6]),
     ["MULTIPOINT (0 0)", "MULTIPOINT (4 0, 4 4, 0 0, 7 7, 8 9)"]),
    ("polygon", nested(coordinates(SIX[:4] * 3), [0, 4, 8, 12], [0, 1, 1, 3]),
     ["POLYGON ((0 0, 4 0, 4 4, 0 0))", "POLYGON EMPTY",
      "POLYGON ((0 0, 4 0, 4 4, 0 0), (0 0, 4 0, 4 4, 0 0))"]),
    ("multilinestring", nested(coordinates(SIX), [0, 2, 4, 6], [0, None, 1, 3]),
     ["MULTILINESTRING ((0 0, 4 0))", None, "MULTILINESTRING ((4 4, 0 0), (7 7, 8 9))"]),
    ("multipolygon",
     nested(coordinates(SIX[:4] * 3), [0, 4, 8, 12], [0, 1, 3], [0, 0, 2]),
     ["MULTIPOLYGON EMPTY", "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)), "
      "((0 0, 4 0, 4 4, 0 0), (0 0, 4 0, 4 4, 0 0)))"]),
]  # fmt: skip


@pytest.mark.parametrize(("encoding", "column", "expected"), NATIVE)
def test_native_geometries_become_wkb(
    encoding: str, column: pa.Array, expected: list[str | None], tmp_path: Path
) -> None:
    write_geo(tmp_path / "a.parquet", column, encoding=encoding)

    got = read_table(tmp_path / "a.parquet", geometry_encoding=Encoding.WKB).column("geom")

    wanted = [None if text is None else shapely.to_wkb(shapely.from_wkt(text), flavor="iso")
              for text in expected]  # fmt: skip
    assert got.to_pylist() == wanted


def test_a_folder_of_files_is_one_table_with_its_partitions(tmp_path: Path) -> None:
    for year, kind in ((2023, "a%2Fb"), (2024, "__HIVE_DEFAULT_PARTITION__")):
        folder = tmp_path / "t" / f"year={year}" / f"kind={kind}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"n": [year]}), folder / "part-0.parquet")
    (tmp_path / "t" / "_SUCCESS").touch()
    (tmp_path / "t" / "_delta_log").mkdir()
    pq.write_table(pa.table({"other": [1]}), tmp_path / "t" / "_delta_log" / "c.parquet")

    source = open_one(tmp_path / "t")

    assert source.name == "t"
    assert source.schema.by_name["year"].type is Primitive.LONG
    assert read_all(source).to_pylist() == [
        {"n": 2023, "year": 2023, "kind": "a/b"},
        {"n": 2024, "year": 2024, "kind": None},
    ]


def test_a_pattern_names_several_files(tmp_path: Path) -> None:
    for number in range(3):
        pq.write_table(pa.table({"n": [number]}), tmp_path / f"part-{number}.parquet")
    assert read_table(tmp_path / "part-[12].parquet").column("n").to_pylist() == [1, 2]


def test_files_that_are_not_one_table_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"n": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(InvalidFileError, match="column 'n' is string but int64"):
        open_sources(str(tmp_path))


def test_columns_can_be_kept_and_left_out(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet", columns=("c", "a")).to_pylist() == [{"a": 1, "c": 3}]
    assert read_table(tmp_path / "t.parquet", leave_out=("b",)).column_names == ["a", "c"]


@pytest.mark.parametrize(
    "options",
    [{"columns": ("nmae",)}, {"leave_out": ("nmae",)}, {"primary_key": ("nmae",)}],
    ids=lambda options: next(iter(options)),
)
def test_a_column_that_is_not_there_is_named_with_those_that_are(
    options: dict[str, Any], tmp_path: Path
) -> None:
    pq.write_table(pa.table({"name": [1.5]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidArgumentError, match="nmae") as caught:
        open_sources(str(tmp_path / "t.parquet"), options=SourceOptions(**options))
    assert "name" in caught.value.hints[0]


def test_a_floating_key_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [1.5]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidArgumentError, match="cannot be a key"):
        open_one(tmp_path / "t.parquet", primary_key=("v",))


def test_a_type_without_counterpart_names_its_column(tmp_path: Path) -> None:
    big = pa.array([1], pa.int64()).cast(pa.decimal256(60, 0))
    pq.write_table(pa.table({"huge": big}), tmp_path / "t.parquet")
    with pytest.raises(UnsupportedTypeError, match="huge"):
        open_one(tmp_path / "t.parquet")


@pytest.mark.rule("PQ-7")
def test_geometries_of_others(shared_data: Path) -> None:
    paths = sorted(shared_data.glob("geoparquet/*.parquet"))
    paths += sorted(shared_data.glob("parquet-geospatial/*.parquet"))
    assert len(paths) == 12
    for path in paths:
        source = open_one(path)
        table = read_all(source)
        if path.name == "plain.parquet":
            continue
        (field,) = source.schema.geometries
        assert field.geometry is not None and field.geometry.crs in source.crs
        with np.errstate(invalid="ignore"):
            shapes = shapely.from_wkb(table.column(field.name).to_pylist())
        if "wkt" in table.column_names:
            texts = [None if text in (None, "") else text for text in
                     table.column("wkt").to_pylist()]  # fmt: skip
            for shape, text in zip(shapes, texts, strict=True):
                if text is not None and "nan" not in text.lower():
                    assert shapely.equals_identical(shape, shapely.from_wkt(text)), text


@pytest.mark.parametrize(
    ("name", "crs"),
    [
        ("crs-default", "OGC:CRS84"),
        ("crs-srid", "EPSG:5070"),
        ("crs-projjson", "EPSG:5070"),
        ("crs-arbitrary-value", "EPSG:5070"),
    ],
)
@pytest.mark.rule("PQ-3", "PQ-4", "PQ-38", "PQ-39", "PQ-40")
def test_crs_of_logical_types(name: str, crs: str, shared_data: Path) -> None:
    assert list(open_one(shared_data / "parquet-geospatial" / f"{name}.parquet").crs) == [crs]


@pytest.mark.rule("PQ-8")
def test_a_geography_keeps_its_edges(shared_data: Path) -> None:
    (field,) = open_one(shared_data / "parquet-geospatial/crs-geography.parquet").schema.geometries
    assert field.extra == (("edges", "spherical"),)


def test_a_covering_box_is_left_out_and_said_so(shared_data: Path) -> None:
    path = shared_data / "geoparquet" / "overture-bbox.parquet"
    source = open_one(path)
    assert "bbox" not in source.schema.by_name
    assert "bbox" in source.notes[0]
    assert "bbox" in open_one(path, columns=("id", "bbox")).schema.by_name
