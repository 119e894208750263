import io
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.geo.raster_v1 import (
    RASTER_TYPE,
    Band,
    GeoReference,
    PixelType,
    Raster,
    format_rasters,
    parse_rasters,
    raster_headers,
)

EXAMPLE = Raster(
    3,
    2,
    GeoReference(10, -10, 0, 0, 105, 45),
    (Band(PixelType.INT16, b"\xff\xff", bytes.fromhex("01000200030004000500ffff")),),
)
EXAMPLE_ROW: dict[str, Any] = {
    "width": 3,
    "height": 2,
    "num_bands": 1,
    "crs_wkt": None,
    "geo_reference": {
        "scale_x": 10.0,
        "scale_y": -10.0,
        "skew_x": 0.0,
        "skew_y": 0.0,
        "upperleft_x": 105.0,
        "upperleft_y": 45.0,
    },
    "band_1": {
        "pixel_type": 5,
        "no_data": b"\xff\xff",
        "data": bytes.fromhex("01000200030004000500ffff"),
        "out_db_band_no": None,
        "out_db_url": None,
    },
    "band_2": None,
    "band_3": None,
    "band_4": None,
    "bands": None,
}


def byte_raster(bands: int) -> Raster:
    return Raster(
        1,
        1,
        EXAMPLE.georeference,
        tuple(Band(PixelType.UINT8, None, bytes([n])) for n in range(bands)),
    )


def column_of(*rows: dict[str, Any] | None) -> "pa.Array[Any]":
    return pa.array(rows, RASTER_TYPE)


def changed(**fields: Any) -> dict[str, Any]:
    row = {name: value for name, value in EXAMPLE_ROW.items() if name not in fields}
    band = {
        k[5:]: v
        for k, v in fields.items()
        if k.startswith("band_") and k[5:] in EXAMPLE_ROW["band_1"]
    }
    if band:
        row["band_1"] = EXAMPLE_ROW["band_1"] | band
    else:
        row |= fields
    return row


@pytest.mark.rule(
    "HAV-27",
    "HAV-28",
    "HAV-30",
    "HAV-37",
    "HAV-42",
    "HAV-101",
    "HAV-102",
    "HAV-103",
    "HAV-104",
    "HAV-106",
    "HAV-127",
)
def test_hav_101_to_127_the_example_is_written_as_it_should_be() -> None:
    column = format_rasters([EXAMPLE, None])

    assert column.type == RASTER_TYPE
    assert column.to_pylist() == [EXAMPLE_ROW, None]
    assert parse_rasters(column) == [EXAMPLE, None]


@pytest.mark.rule("HAV-101", "HAV-102", "HAV-103", "HAV-104", "HAV-105", "HAV-106")
def test_hav_101_to_106_the_parquet_group() -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"rast": format_rasters([EXAMPLE])}), sink)

    text = str(pq.ParquetFile(sink).schema).replace(" field_id=-1", "")
    found = [line.strip() for line in text.splitlines()[2:-2]]
    band = [
        "required int32 pixel_type;",
        "optional binary no_data;",
        "optional binary data;",
        "optional int32 out_db_band_no;",
        "optional binary out_db_url (String);",
        "}",
    ]
    axes = ("scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y")
    expected = [
        "optional group rast {",
        "required int32 width;",
        "required int32 height;",
        "required int32 num_bands;",
        "optional binary crs_wkt (String);",
        "required group geo_reference {",
        *(f"required double {name};" for name in axes),
        "}",
    ]
    for number in range(1, 5):
        expected += [f"optional group band_{number} {{", *band]
    expected += ["optional group bands (List) {", "repeated group list {"]
    assert found == [*expected, "optional group element {", *band, "}", "}"]


@pytest.mark.parametrize("count", range(8))
@pytest.mark.rule("HAV-107", "HAV-108", "HAV-109", "HAV-110")
def test_hav_107_to_110_where_bands_stand(count: int) -> None:
    raster = byte_raster(count)
    (row,) = format_rasters([raster]).to_pylist()

    named = [row[f"band_{number}"] for number in range(1, 5)]
    assert [band is not None for band in named] == [number < count for number in range(4)]
    assert (row["bands"] is None) == (count <= 4)
    assert [band["data"] for band in row["bands"] or []] == [bytes([n]) for n in range(4, count)]
    assert parse_rasters(column_of(row)) == [raster]
    if count == 4:
        assert parse_rasters(column_of(row | {"bands": []})) == [raster]


@pytest.mark.rule("HAV-38", "HAV-39", "HAV-40", "HAV-128")
def test_hav_39_40_bands_here_and_elsewhere() -> None:
    mixed = Raster(
        3,
        2,
        EXAMPLE.georeference,
        (
            EXAMPLE.bands[0],
            Band(PixelType.INT16, None, None, 0, "file:/a.tif"),
            Band(PixelType.INT16, b"\0\0", None, 3, "file:/b.tif"),
        ),
        'LOCAL_CS["x"]',
    )

    assert parse_rasters(format_rasters([mixed])) == [mixed]


@pytest.mark.rule("HAV-130")
def test_hav_130_a_null_raster_stays_null_through_parquet() -> None:
    sink = io.BytesIO()
    rasters = [None, EXAMPLE, None, byte_raster(6)]
    pq.write_table(pa.table({"rast": format_rasters(rasters)}), sink)

    assert parse_rasters(pq.read_table(sink)["rast"]) == rasters
    assert parse_rasters(pa.nulls(2)) == [None, None]


@pytest.mark.rule("HAV-111", "HAV-112")
def test_hav_111_112_bands_need_not_be_read() -> None:
    sink = io.BytesIO()
    pixels = np.random.default_rng(1).bytes(1 << 20)
    raster = Raster(1 << 10, 1 << 10, EXAMPLE.georeference, (Band(PixelType.UINT8, None, pixels),))
    pq.write_table(pa.table({"rast": format_rasters([raster])}), sink, use_dictionary=False)
    reading = Counting(sink.getvalue())
    names = ["rast.width", "rast.height", "rast.num_bands", "rast.geo_reference", "rast.crs_wkt"]

    headers = raster_headers(pq.ParquetFile(reading).read(columns=names)["rast"])

    assert headers.width.tolist() == [1024]
    assert headers.native_bounds.tolist() == [[100, 50 - 10240, 100 + 10240, 50]]
    assert reading.total < 0.15 * len(sink.getvalue())


def test_slices_and_chunks_are_read() -> None:
    whole = format_rasters([byte_raster(n) for n in range(6)])
    chunked = pa.chunked_array([whole.slice(3, 2), whole.slice(0, 1)])

    assert parse_rasters(chunked) == [byte_raster(3), byte_raster(4), byte_raster(0)]
    assert parse_rasters(whole.slice(5)) == [byte_raster(5)]


def test_pixels_are_not_copied() -> None:
    column = format_rasters([EXAMPLE])
    (raster,) = parse_rasters(column)
    assert raster is not None
    data = raster.bands[0].data
    assert isinstance(data, memoryview)

    buffer = column.field("band_1").field("data").buffers()[2]
    assert np.frombuffer(data, np.uint8).ctypes.data == buffer.address


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        pytest.param(changed(num_bands=2), "counts 2 bands and has 1", id="HAV-110"),
        pytest.param(changed(num_bands=-1), "counts bands that cannot be", id="HAV-110-negative"),
        pytest.param(changed(num_bands=2**31 - 1), "cannot be", id="HAV-110-hostile"),
        pytest.param(changed(band_pixel_type=9), "pixel type 9", id="HAV-121"),
        pytest.param(changed(band_no_data=b"\0"), "no-data value has 1 bytes", id="HAV-124"),
        pytest.param(changed(band_data=None), "neither pixels nor a file", id="HAV-126"),
        pytest.param(changed(band_data=b"\0" * 11), "11 bytes, but 3 × 2", id="HAV-127"),
        pytest.param(changed(width=2**31 - 1, height=2**31 - 1), "bytes, but", id="hostile size"),
        pytest.param(changed(width=-3), "fewer than no columns", id="negative"),
        pytest.param(
            changed(geo_reference=EXAMPLE_ROW["geo_reference"] | {"skew_x": math.nan}),
            "georeference is not finite",
            id="NaN",
        ),
        pytest.param(changed(band_1=None, band_2=EXAMPLE_ROW["band_1"]), "no band_1", id="gap"),
        pytest.param(changed(bands=[EXAMPLE_ROW["band_1"]]), "no band_2", id="gap in the rest"),
    ],
)
@pytest.mark.rule("HAV-110", "HAV-121", "HAV-124", "HAV-126", "HAV-127")
def test_rows_that_are_not_sound_are_named(row: dict[str, Any], reason: str) -> None:
    with pytest.raises(GeometryError, match=f"^the raster in row 2 .*{reason}") as caught:
        parse_rasters(column_of(EXAMPLE_ROW, None, row))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1]),
        pa.array([{"width": 1}]),
        pa.array([{"width": 1, "height": 1, "num_bands": 0, "geo_reference": 1}]),
        pa.array([{"width": 1, "height": 1, "num_bands": 0, "geo_reference": {"scale_x": 1}}]),
        pa.array([{"width": "1", "height": 1, "num_bands": 0}]),
        pa.array([dict(EXAMPLE_ROW, band_1={"data": b""})]),
        pa.array([dict(EXAMPLE_ROW, band_1=3)]),
    ],
)
def test_columns_that_are_no_rasters(column: "pa.Array[Any]") -> None:
    with pytest.raises(GeometryError, match="raster column"):
        parse_rasters(column)


def test_a_header_that_lacks_a_number_is_named() -> None:
    loose = pa.struct([field.with_nullable(True) for field in RASTER_TYPE])
    column = pa.array([EXAMPLE_ROW, dict(EXAMPLE_ROW, width=None)], loose)

    with pytest.raises(GeometryError, match=r"row 1 .* no width"):
        raster_headers(column)


def sized(kind: PixelType, width: int, height: int) -> st.SearchStrategy[Band]:
    size = kind.size * width * height
    return st.builds(
        Band,
        st.just(kind),
        st.none() | st.binary(min_size=kind.size, max_size=kind.size),
        st.binary(min_size=size, max_size=size),
    ) | st.builds(Band, st.just(kind), st.none(), st.none(), st.integers(0, 2**31 - 1), st.text())


finite = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def rasters(draw: st.DrawFn) -> Raster:
    width, height = draw(st.integers(0, 4)), draw(st.integers(0, 4))
    kind = draw(st.sampled_from(PixelType))
    bands = draw(st.lists(sized(kind, width, height), max_size=7))
    reference = draw(st.builds(GeoReference, *[finite] * 6))
    return Raster(width, height, reference, tuple(bands), draw(st.none() | st.text()))


@given(st.lists(st.none() | rasters(), max_size=4))
def test_rasters_come_back_as_they_were(given_rasters: list[Raster | None]) -> None:
    column = format_rasters(given_rasters)

    assert parse_rasters(column) == given_rasters
    assert format_rasters(parse_rasters(column)).equals(column)
    headers = raster_headers(column)
    for row, raster in enumerate(given_rasters):
        assert bool(headers.there[row]) == (raster is not None)
        if raster is not None:
            assert headers.width[row] == raster.width
            x, y = zip(*raster.corners, strict=True)
            if raster.width and raster.height and np.isfinite([*x, *y]).all():
                assert headers.native_bounds[row].tolist() == [min(x), min(y), max(x), max(y)]


loose_numbers = st.integers(-2, 5) | st.integers(-(2**31), 2**31 - 1)
loose_band = st.none() | st.fixed_dictionaries(
    {
        "pixel_type": loose_numbers,
        "no_data": st.none() | st.binary(max_size=9),
        "data": st.none() | st.binary(max_size=20),
        "out_db_band_no": st.none() | loose_numbers,
        "out_db_url": st.none() | st.text(max_size=4),
    }
)
loose_row = st.fixed_dictionaries(
    {
        "width": loose_numbers,
        "height": loose_numbers,
        "num_bands": loose_numbers,
        "crs_wkt": st.none() | st.text(max_size=4),
        "geo_reference": st.fixed_dictionaries(
            dict.fromkeys(EXAMPLE_ROW["geo_reference"], st.floats())
        ),
        "band_1": loose_band,
        "band_2": loose_band,
        "band_3": loose_band,
        "band_4": loose_band,
        "bands": st.none() | st.lists(loose_band, max_size=2),
    }
)


@given(st.lists(st.none() | loose_row, max_size=2))
def test_any_column_is_rasters_or_an_error(rows: list[dict[str, Any] | None]) -> None:
    try:
        found = parse_rasters(column_of(*rows))
    except GeometryError:
        return
    assert len(found) == len(rows)


class Counting(io.BytesIO):
    """A file that knows how much of it was read."""

    total = 0

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        self.total += len(found)
        return found
