import json
import math
from pathlib import Path

import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.geo.geojson import geometry_objects
from havasu_vc.geo.wkb import to_canonical
from tests.geo.shapes import Dialect, Shape, encode, shapes, sound_shapes


def objects(*texts: str | None) -> list[object]:
    return list(geometry_objects(to_canonical(pa.array(texts, pa.string()), "wkt")[0]))


def test_numbers_are_those_of_the_geometry() -> None:
    assert objects("POINT (175.54948977028008 -39.123)", None) == [
        {"type": "Point", "coordinates": [175.54948977028008, -39.123]},
        None,
    ]


def test_every_type() -> None:
    triangle = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert objects(
        "POLYGON ((0 0, 1 0, 0 1, 0 0))",
        "MULTIPOINT ((1 2), (3 4))",
        "MULTILINESTRING ((1 2, 3 4))",
        "MULTIPOLYGON (((0 0, 1 0, 0 1, 0 0)))",
        "GEOMETRYCOLLECTION (POINT (1 2), GEOMETRYCOLLECTION (LINESTRING (1 2, 3 4)))",
    ) == [
        {"type": "Polygon", "coordinates": [triangle]},
        {"type": "MultiPoint", "coordinates": [[1.0, 2.0], [3.0, 4.0]]},
        {"type": "MultiLineString", "coordinates": [[[1.0, 2.0], [3.0, 4.0]]]},
        {"type": "MultiPolygon", "coordinates": [[triangle]]},
        {
            "type": "GeometryCollection",
            "geometries": [
                {"type": "Point", "coordinates": [1.0, 2.0]},
                {
                    "type": "GeometryCollection",
                    "geometries": [{"type": "LineString", "coordinates": [[1.0, 2.0], [3.0, 4.0]]}],
                },
            ],
        },
    ]


def test_z_is_kept_and_m_left_out() -> None:
    assert objects("POINT Z (1 2 3)", "POINT M (1 2 3)", "POINT ZM (1 2 3 4)") == [
        {"type": "Point", "coordinates": [1.0, 2.0, 3.0]},
        {"type": "Point", "coordinates": [1.0, 2.0]},
        {"type": "Point", "coordinates": [1.0, 2.0, 3.0]},
    ]


def test_empties() -> None:
    assert objects("POINT EMPTY", "LINESTRING EMPTY", "MULTIPOLYGON EMPTY") == [
        {"type": "Point", "coordinates": []},
        {"type": "LineString", "coordinates": []},
        {"type": "MultiPolygon", "coordinates": []},
    ]


@given(st.lists(st.one_of(st.none(), sound_shapes(dimensions=(0, 1))), max_size=4))
def test_objects_say_what_geos_says(trees: list[Shape | None]) -> None:
    wkb = pa.array([tree and encode(tree) for tree in trees], pa.binary())

    found = geometry_objects(wkb)

    for tree, each in zip(trees, found, strict=True):
        if tree is None:
            assert each is None
        else:
            said = shapely.to_geojson(shapely.from_wkb(encode(tree)))
            assert each == json.loads(said)


@given(st.lists(shapes().map(lambda tree: encode(tree, lambda: Dialect(big=True))), max_size=4))
def test_any_geometry_has_an_object(values: list[bytes]) -> None:
    canonical, _ = to_canonical(pa.array(values, pa.binary()), "wkb")

    assert repr(geometry_objects(pa.array(values, pa.binary()))) == repr(
        geometry_objects(canonical)
    )


def test_curves_have_none() -> None:
    with pytest.raises(GeometryError, match=r"row 1 .*no curves"):
        geometry_objects(pa.array([None, encode(Shape(8))]))


def test_what_kart_printed_is_what_we_say(shared_data: Path) -> None:
    texts: list[str] = []
    for file in sorted((shared_data / "kart-expected").glob("points.*.geojson"))[:2]:
        if "conflicts" not in file.name:
            features = json.loads(file.read_text())["features"]
            texts += [json.dumps(feature["geometry"]) for feature in features[:500]]
    assert texts

    wkb, _ = to_canonical(pa.array(texts), "geojson")

    assert geometry_objects(wkb) == [json.loads(text) for text in texts]
    assert [json.dumps(each) for each in geometry_objects(wkb)] == texts


def test_a_nan_in_a_line_is_kept_for_the_writer_to_judge() -> None:
    (found,) = geometry_objects(pa.array([encode(Shape(2, vertices=((math.nan, 1.0),)))]))

    assert found is not None
    assert math.isnan(found["coordinates"][0][0])
