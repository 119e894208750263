import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.text import (
    geometry_types,
    hex_wkb,
    short_text,
    type_name,
)
from havasu_vc.geo.wkb import Encoding, from_canonical, to_canonical
from tests.geo.shapes import Shape, dialects, encode, shapes

TEXTS = [
    "POINT (1 2)",
    None,
    "POINT EMPTY",
    "MULTIPOLYGON Z EMPTY",
    "LINESTRING ZM (0 0 0 0, 1 1 1 1)",
]


def wkb_of(*texts: str | None) -> "pa.Array":
    return to_canonical(pa.array(texts, pa.string()), "wkt")[0]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=20)), max_size=6), st.integers(0, 6))
def test_hex_is_upper_case(values: list[bytes | None], start: int) -> None:
    for kind in (pa.binary(), pa.large_binary()):
        found = hex_wkb(pa.array(values, kind)[start:])

        found.validate(full=True)
        assert found.to_pylist() == [
            None if value is None else value.hex().upper() for value in values[start:]
        ]


@pytest.mark.parametrize("encoding", ["wkb", "ewkb", "gpkg", "wkt"])
def test_short_text_says_the_type_and_whether_there_is_anything(encoding: Encoding) -> None:
    column = from_canonical(wkb_of(*TEXTS), None, encoding)

    assert short_text(column, encoding).to_pylist() == [
        "POINT(...)",
        None,
        "POINT EMPTY",
        "MULTIPOLYGON Z EMPTY",
        "LINESTRING ZM(...)",
    ]


def test_types_of_a_column() -> None:
    codes = sorted(geometry_types(wkb_of(*TEXTS)))

    assert codes == [1, 1006, 3002]
    assert [type_name(code) for code in codes] == ["POINT", "MULTIPOLYGON Z", "LINESTRING ZM"]
    assert geometry_types(pa.nulls(2, pa.binary())) == set()
    assert geometry_types(wkb_of(*TEXTS)[1:2]) <= set(codes)


@given(st.lists(shapes(curves=True), max_size=4), st.data())
def test_types_do_not_depend_on_the_dialect(trees: list[Shape], data: st.DataObject) -> None:
    rows = pa.array([encode(t, lambda: data.draw(dialects)) for t in trees], pa.binary())

    found = geometry_types(to_canonical(rows, "wkb")[0])
    assert found == {t.kind + 1000 * t.dimensions for t in trees}


def test_hex_is_what_kart_prints(shared_data: Path) -> None:
    file = shared_data / "kart-expected" / "points.15827255.json"
    features = next(iter(json.loads(file.read_text())["kart.diff/v1+hexwkb"].values()))["feature"]
    printed = [feature["+"]["geom"] for feature in features]
    rows = pa.array([bytes.fromhex(value) for value in printed])

    assert len(printed) > 3
    gpkg = from_canonical(rows, None, "gpkg")
    assert hex_wkb(to_canonical(gpkg, "gpkg")[0]).to_pylist() == printed


@pytest.mark.rule("PQ-30", "PQ-31", "PQ-32", "PQ-33")
def test_pq_30_to_33_all_types_of_a_file_of_others_are_found(shared_data: Path) -> None:
    file = pq.ParquetFile(shared_data / "parquet-geospatial" / "geospatial.parquet")
    column = next(name for name in file.schema_arrow.names if name.startswith("geo"))

    compared = 0
    for group in range(file.num_row_groups):
        index = file.schema_arrow.names.index(column)
        stated = file.metadata.row_group(group).column(index).geo_statistics
        rows = file.read_row_group(group, [column])[column]
        if rows.null_count == len(rows) or stated is None or not stated.geospatial_types:
            continue
        compared += 1
        wkb = to_canonical(rows.combine_chunks(), "wkb")[0]
        assert geometry_types(wkb) == set(stated.geospatial_types)
        bounds = bounds_of(rows)
        if bounds is not None:
            assert (bounds.xmin, bounds.ymin) == (stated.xmin, stated.ymin)
            assert (bounds.xmax, bounds.ymax) == (stated.xmax, stated.ymax)
    assert compared > 20
