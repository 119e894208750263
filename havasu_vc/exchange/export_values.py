"""Values that a foreign format has no room for: GDAL changes these and says nothing."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from havasu_vc.model import compute as pc

__all__ = ["as_gdal_keeps", "has_far_years", "has_trimmed", "is_too_wide"]

_WIDEST_NUMBER = 1e23
_DAY = 86_400_000_000
_FIRST_DAY, _DAY_AFTER_LAST = -719_162, 2_932_897
_BLANKS = "^( |$)| $"


def as_gdal_keeps(values: pa.Array) -> pa.Array:
    """Return points in time as GDAL can write them: to the millisecond.

    Before 1970 it turns the last second of a minute into the next minute if it is not
    a whole one (GDAL 3.12); better to know what it will write than to find out.
    """
    micros = np.asarray(values.cast(pa.int64()).fill_null(0))
    millis = micros // 1000
    seconds = millis // 1000
    odd = (micros < 0) & (millis % 1000 != 0) & (seconds % 60 == 59)
    kept = np.where(odd, (seconds + 1) * 1_000_000, millis * 1000)
    mask = np.asarray(pc.is_null(values))
    return pa.array(kept, pa.int64(), mask=mask).cast(values.type)


def has_far_years(values: pa.Array) -> bool:
    """Whether a date or time is before year 1 or after 9999: GDAL makes nulls and others of it."""
    days = pa.types.is_date32(values.type)
    numbers = values.cast(pa.int32() if days else pa.int64())
    least, most = (pc.min(numbers).as_py(), pc.max(numbers).as_py())
    if least is None or most is None:
        return False
    unit = 1 if days else _DAY
    return bool(least < _FIRST_DAY * unit or most >= _DAY_AFTER_LAST * unit)


def is_too_wide(values: pa.Array) -> bool:
    """Whether a number has more digits than a column of a shapefile, which is cut there."""
    numbers = pc.abs(values.cast(pa.float64()))
    wide = pc.and_(pc.is_finite(numbers), pc.greater(numbers, _WIDEST_NUMBER))
    return bool(pc.any(wide).as_py())


def has_trimmed(values: pa.Array) -> bool:
    """Whether a shapefile, which fills text up with blanks, gives one back otherwise."""
    return bool(pc.any(pc.match_substring_regex(values, _BLANKS)).as_py())
