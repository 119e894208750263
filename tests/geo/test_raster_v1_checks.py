"""Columns of rasters are checked as the parser would, without parsing what is sound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError
from havasu_vc.geo.raster_v1 import RASTER_TYPE, parse_rasters
from havasu_vc.geo.raster_v1_checks import check_rasters

BAND = {
    "pixel_type": 4,
    "no_data": b"\x00",
    "data": b"\x01\x02\x03\x04\x05\x06",
    "out_db_band_no": None,
    "out_db_url": None,
}
OUTSIDE = {**BAND, "data": None, "out_db_band_no": 0, "out_db_url": "a.tif"}


def raster(*bands: dict[str, Any] | None, **changes: Any) -> dict[str, Any]:
    """Return a 3×2 raster of some bands, as Python values."""
    named = {f"band_{n + 1}": bands[n] if n < len(bands) else None for n in range(4)}
    return {
        "width": 3,
        "height": 2,
        "num_bands": len(bands),
        "crs_wkt": None,
        "geo_reference": {
            "scale_x": 10.0,
            "scale_y": -10.0,
            "skew_x": 0.0,
            "skew_y": 0.0,
            "upperleft_x": 105.0,
            "upperleft_y": 45.0,
        },
        **named,
        "bands": list(bands[4:]) or None,
        **changes,
    }


def column(*rasters: dict[str, Any] | None) -> pa.Array:
    """Return rasters as a column."""
    return pa.array(rasters, RASTER_TYPE)


SOUND = [
    None,
    raster(),
    raster(BAND),
    raster(BAND, OUTSIDE),
    raster(*[BAND] * 7),
    raster({**BAND, "no_data": None}),
    raster({**BAND, "no_data": np.float64(7).tobytes()}),
    raster({**BAND, "data": b""}, width=0),
    raster({**BAND, "out_db_band_no": 9, "out_db_url": "x"}),
    raster({**BAND, "pixel_type": 10, "no_data": None, "data": bytes(24)}),
]
WRONG = {
    "pixel type 9 is not one of": raster({**BAND, "pixel_type": 9}),
    "pixel type -1 is not one of": raster({**BAND, "pixel_type": -1}),
    "band 1 has 5 bytes": raster({**BAND, "data": b"12345"}),
    "band 2 has 6 bytes": raster(BAND, {**BAND, "pixel_type": 5, "no_data": None}),
    "its no-data value has 2 bytes": raster({**BAND, "no_data": b"12"}),
    "neither pixels nor a file": raster({**OUTSIDE, "out_db_url": None}),
    "it names band -1 of a file": raster({**OUTSIDE, "out_db_band_no": -1}),
    "it counts 2 bands and has 1": raster(BAND, num_bands=2),
    "it counts 0 bands and has 5": raster(*[BAND] * 5, num_bands=0),
    "it has a band_2 and no band_1": raster(None, BAND, num_bands=1),
    "it has more bands and no band_2": raster(BAND, bands=[BAND], num_bands=2),
    "band 6 has 1 bytes": raster(*[BAND] * 5, {**BAND, "data": b"1"}),
}


def test_what_is_sound_passes() -> None:
    headers = check_rasters(column(*SOUND))
    assert headers.bands.tolist()[1:5] == [0, 1, 2, 7]
    assert check_rasters(pa.chunked_array([column(*SOUND), column(None)])).there.sum() == 9
    assert len(check_rasters(pa.nulls(3)).there) == 3


@pytest.mark.parametrize("cause", WRONG)
@pytest.mark.rule("HAV-110", "HAV-121", "HAV-126", "HAV-127")
def test_what_is_not_is_named_with_its_row(cause: str) -> None:
    values = column(*SOUND, WRONG[cause], None, WRONG[cause])
    with pytest.raises(GeometryError, match=f"the raster in row {len(SOUND)} .*{cause}"):
        check_rasters(values)
    with pytest.raises(GeometryError, match="the raster in row 1 "):
        check_rasters(values.slice(len(SOUND) - 1))


@given(st.lists(st.sampled_from([*SOUND, *WRONG.values()]), max_size=6))
def test_it_says_what_the_parser_says(rasters: list[dict[str, Any] | None]) -> None:
    values = column(*rasters)
    try:
        parse_rasters(values)
    except GeometryError:
        with pytest.raises(GeometryError):
            check_rasters(values)
    else:
        check_rasters(values)
