"""Which keys are among others."""

from __future__ import annotations

import pyarrow as pa

from havasu_vc.datasets.pairing import alike, column_codes
from havasu_vc.model import compute as pc

__all__ = ["partners"]


def partners(keys: pa.RecordBatch, among: pa.RecordBatch) -> pa.Array:
    """Return where each key is among others; null where it is not."""
    columns = [alike(*pair) for pair in zip(among.columns, keys.columns, strict=True)]
    others, mine = column_codes(columns)
    return pc.index_in(mine, value_set=others)
