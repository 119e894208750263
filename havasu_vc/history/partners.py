"""Which keys are among others."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array

__all__ = ["partners"]


def partners(keys: pa.RecordBatch, among: pa.RecordBatch) -> pa.Array:
    """Return where each key is among others; null where it is not."""
    if keys.num_columns == 1:
        return pc.index_in(keys.column(0), value_set=pc.cast(among.column(0), keys.column(0).type))
    schema = pa.schema([pa.field(name, keys.column(name).type) for name in keys.schema.names])
    both = pa.concat_batches([keys.cast(schema), among.cast(schema)])
    codes = np.zeros(both.num_rows, np.int64)
    for column in both.columns:
        encoded = pc.dictionary_encode(column)
        codes = codes * max(len(encoded.dictionary), 1) + encoded.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    split = keys.num_rows
    return pc.index_in(arrow_array(codes[:split]), value_set=arrow_array(codes[split:]))
