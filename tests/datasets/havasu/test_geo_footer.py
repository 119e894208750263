"""The `geo` document of our data files names just the columns that GeoParquet readers read."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc.datasets.havasu.writing import format_footer, plain_columns
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive, Struct

POINT = shapely.Point(1, 2)


def schema(**encodings: Encoding) -> Schema:
    return Schema(
        tuple(
            Field(
                number,
                name,
                Primitive.STRING
                if encoding in (Encoding.WKT, Encoding.GEOJSON)
                else Primitive.BINARY,
                geometry=Geometry(encoding),
            )
            for number, (name, encoding) in enumerate(encodings.items(), 1)
        )
    )


def batch(**columns: list[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


@pytest.mark.rule("HAV-100")
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("srid", [0, 4326])
def test_an_srid_in_any_value_leaves_the_column_out(order: int, srid: int) -> None:
    odd = shapely.set_srid(POINT, srid)
    values = [
        None,
        shapely.to_wkb(POINT),
        shapely.to_wkb(odd, byte_order=order, include_srid=srid > 0, flavor="extended"),
    ]
    found = plain_columns(batch(geom=values), schema(geom=Encoding.EWKB))
    assert found == (frozenset() if srid else {1})


@pytest.mark.rule("HAV-100")
def test_z_is_plain_as_the_standard_writes_it_alone() -> None:
    point = shapely.Point(1, 2, 3)
    for flavor, plain in (("iso", {1}), ("extended", set())):
        values = [shapely.to_wkb(point, flavor=flavor)]
        found = plain_columns(batch(geom=values), schema(geom=Encoding.WKB))
        assert found == plain


def test_text_and_nulls_and_broken_values() -> None:
    assert plain_columns(batch(geom=["POINT (1 2)"]), schema(geom=Encoding.WKT)) == frozenset()
    nulls = pa.RecordBatch.from_pydict({"geom": pa.array([None], pa.binary())})
    assert plain_columns(nulls, schema(geom=Encoding.EWKB)) == {1}
    assert plain_columns(batch(geom=[b"\1"]), schema(geom=Encoding.EWKB)) == frozenset()


def test_one_row_group_is_enough_to_leave_a_column_out() -> None:
    both = schema(a=Encoding.EWKB, b=Encoding.WKB)
    text = format_footer(both, [frozenset({1, 2}), frozenset({2})])
    assert text is not None
    assert json.loads(text)["primary_column"] == "b" and list(json.loads(text)["columns"]) == ["b"]
    assert format_footer(both, [frozenset({1}), frozenset({2})]) is None


@pytest.mark.rule("HAV-100b")
def test_a_geometry_inside_a_struct_is_not_named() -> None:
    inner = Field(2, "geom", Primitive.BINARY, geometry=Geometry(Encoding.WKB))
    nested = Schema((Field(1, "place", Struct((inner,))),))
    assert plain_columns(batch(place=[{"geom": shapely.to_wkb(POINT)}]), nested) == frozenset()


@pytest.mark.rule("HAV-99", "HAV-100a")
def test_geopandas_takes_the_document(tmp_path: Path) -> None:
    geopandas = pytest.importorskip("geopandas")
    text = format_footer(schema(geom=Encoding.EWKB), [frozenset({1})])
    assert text is not None and json.loads(text)["version"] == "1.0.0"
    rows = pa.table({"geom": shapely.to_wkb([POINT])})
    pq.write_table(rows.replace_schema_metadata({"geo": text}), tmp_path / "in.parquet")
    read = geopandas.read_parquet(tmp_path / "in.parquet")
    assert list(read.geometry) == [POINT] and read.crs is None
