"""Keys as the triggers of a GeoPackage note them: a text each, or a blob."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from havasu_vc.exchange.living_layer import value_column
from havasu_vc.model.types import Field, Primitive, is_whole

__all__ = ["keys_of_track", "track_of_key"]


def keys_of_track(field: Field, values: Sequence[Any]) -> pa.Array:
    """Return a key column of what was tracked, which is text, in its stored type."""
    if is_whole(field.type):
        values = [int(value) for value in values]
    elif field.type in (Primitive.FLOAT, Primitive.DOUBLE):
        values = [float(value) for value in values]
    elif field.type is Primitive.BINARY and values and isinstance(values[0], str):
        values = [bytes.fromhex(value) for value in values]
    return value_column(field, values, main=False)


def track_of_key(key: tuple[Any, ...]) -> str | bytes:
    """Return a key as a trigger notes it."""
    if len(key) == 1:
        return key[0] if isinstance(key[0], bytes) else str(key[0])
    parts = [each.hex().upper() if isinstance(each, bytes) else each for each in key]
    return json.dumps(parts, separators=(",", ":"), ensure_ascii=False)
