"""Columns of points as text: the quick way says what GEOS says, or stands aside."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.geo.wkt import (
    GEOJSON_FORMS,
    WKT_FORMS,
    PointForm,
    format_points,
    parse_points,
)

PLAIN = st.one_of(
    st.integers(-10_000, 10_000).map(float),
    st.floats(-1e9, 1e9).filter(lambda x: x == 0 or abs(x) >= 1e-4),
    st.integers(-(10**9), 10**9).map(lambda x: x / 1e6).filter(lambda x: x == 0 or abs(x) >= 1e-4),
)
ANY = st.floats(allow_nan=False, allow_infinity=False)
ROWS = st.lists(st.one_of(st.none(), st.tuples(PLAIN, PLAIN)), min_size=1, max_size=8)


def refuse(_: Any) -> Any:
    raise AssertionError("the general way was taken")


def wkb_of(rows: Sequence[tuple[float, float] | None]) -> Any:
    return pa.array(
        [None if row is None else shapely.to_wkb(shapely.Point(row)) for row in rows], pa.binary()
    )


@given(ROWS)
def test_wkt_is_that_of_geos(rows: list[tuple[float, float] | None]) -> None:
    wkb = wkb_of(rows)
    said = [
        None if row is None else shapely.to_wkt(shapely.Point(row), rounding_precision=400)
        for row in rows
    ]

    found = format_points(wkb, WKT_FORMS[0], refuse)

    if any(said):
        assert found is not None
        assert found.to_pylist() == said
        parsed = parse_points(found, WKT_FORMS)
        assert parsed is not None
        # Neither keeps the sign of zero.
        assert (
            parsed.to_pylist() == wkb_of([r and (r[0] + 0.0, r[1] + 0.0) for r in rows]).to_pylist()
        )
    else:
        assert found is None


@given(ROWS)
def test_geojson_is_that_of_geos(rows: list[tuple[float, float] | None]) -> None:
    wkb = wkb_of(rows)

    found = format_points(wkb, GEOJSON_FORMS[0], refuse)

    if found is not None:
        for row, text in zip(rows, found.to_pylist(), strict=True):
            assert (row is None) == (text is None)
            if row is not None:
                # GEOS does not always find the shortest digits, so values are compared.
                assert text[:31] == shapely.to_geojson(shapely.Point(row))[:31]
                assert repr(json.loads(text)["coordinates"]) == repr(list(row))
        parsed = parse_points(found, GEOJSON_FORMS)
        assert parsed is not None
        assert parsed.to_pylist() == wkb.to_pylist()


@given(st.lists(st.tuples(ANY, ANY), min_size=1, max_size=5), st.sampled_from(["wkt", "geojson"]))
def test_any_number_comes_back(rows: list[tuple[float, float]], encoding: Any) -> None:
    texts = from_canonical(wkb_of(rows), None, encoding)

    back, _ = to_canonical(texts, encoding)

    assert shapely.get_coordinates(shapely.from_wkb(back.to_pylist())).tolist() == [
        list(row) for row in rows
    ]


@pytest.mark.parametrize(
    ("forms", "text"),
    [
        (WKT_FORMS, "POINT (1 2 3)"),
        (WKT_FORMS, "POINT (1)"),
        (WKT_FORMS, "POINT EMPTY"),
        (WKT_FORMS, "POINT (1  2)"),
        (WKT_FORMS, "POINT (nan 2)"),
        (WKT_FORMS, "POINT (1e999 2)"),
        (WKT_FORMS, "POINT (0x10 2)"),
        (WKT_FORMS, "POINT (1 2))"),
        (WKT_FORMS, "POINT (1 2)\n"),
        (GEOJSON_FORMS, '{"type":"Point","coordinates":[01,2]}'),
        (GEOJSON_FORMS, '{"type":"Point","coordinates":[1.,2]}'),
        (GEOJSON_FORMS, '{"type":"Point","coordinates":[1,2,3]}'),
        (GEOJSON_FORMS, '{"type":"Point","coordinates":[]}'),
    ],
)
def test_other_spellings_are_left_to_the_general_way(
    forms: tuple[PointForm, ...], text: str
) -> None:
    good = forms[0].prefix + "1" + forms[0].separator + "2" + forms[0].suffix

    assert parse_points(pa.array([good]), forms) is not None
    assert parse_points(pa.array([good, text]), forms) is None
    assert parse_points(pa.array([text, good]), forms) is None


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_is_left_to_the_general_way(value: float) -> None:
    assert format_points(wkb_of([(1.0, 2.0), (value, 2.0)]), WKT_FORMS[0], refuse) is None


@pytest.mark.parametrize("encoding", ["wkt", "geojson"])
@pytest.mark.parametrize("value", [1e-5, -1e10, 2.5e300])
def test_rows_with_exponents_are_written_as_ever(encoding: Any, value: float) -> None:
    rows = [(1.0, 2.5), None, (value, 2.0), (3.0, -0.5)]
    alone = [None if r is None else from_canonical(wkb_of([r]), None, encoding)[0] for r in rows]

    found = from_canonical(wkb_of(rows), None, encoding)

    assert found.to_pylist() == [None if each is None else each.as_py() for each in alone]
    write = shapely.to_geojson if encoding == "geojson" else shapely.to_wkt
    how = {} if encoding == "geojson" else {"rounding_precision": 400}
    assert found[2].as_py() == write(shapely.Point(rows[2]), **how)


def test_large_and_sliced_columns() -> None:
    texts = pa.array(["x", None, "POINT (1 2)", None, "POINT (3 4.5)"], pa.large_string())

    found = parse_points(texts[1:], WKT_FORMS)

    assert found is not None
    assert found.to_pylist() == wkb_of([None, (1, 2), None, (3, 4.5)]).to_pylist()
    assert parse_points(texts, WKT_FORMS) is None


def test_text_that_is_not_utf_8_is_still_refused() -> None:
    column = pa.array([b"POINT (1 2)", b"POINT (1 \xff)"])
    with pytest.raises(GeometryError, match="row 1"):
        to_canonical(column, "wkt")
