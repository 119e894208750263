"""Values too large to be carried by a delete file, and the digests that stand for them.

The data file that holds such a value stays as long as the row may be shown. The digest is
sha256 of the value's bytes, text as UTF-8. A raster is the bytes of its parts, one after
the other in the order of `model.rasters`: whole numbers and doubles as 8 bytes, little
endian; bytes and text after their length as 8 bytes; a list after its count; and what is
null as 8 bytes of ones.
"""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.model import kernels as pc
from havasu_vc.model.types import Field, Primitive

if TYPE_CHECKING:
    from hashlib import _Hash

__all__ = ["LARGE", "are_large", "can_be_large", "large_digest"]

LARGE = 64 * 1024
"""Values of more bytes are carried as digests."""

_NULL = b"\xff" * 8


def can_be_large(field: Field) -> bool:
    """Whether a column may hold values of any length."""
    return field.raster is not None or field.type in (Primitive.STRING, Primitive.BINARY)


def are_large(column: pa.Array, field: Field) -> npt.NDArray[np.bool_]:
    """Return which values have too many bytes."""
    sizes = _raster_sizes(column) if field.raster is not None else _lengths(column)
    return sizes > LARGE


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = pc.cast(
        pc.fill_null(pc.binary_length(column), 0), pa.int64()
    ).to_numpy(zero_copy_only=False)
    return found


def _raster_sizes(column: pa.StructArray) -> npt.NDArray[np.int64]:
    """Return how many bytes of pixels each raster has."""
    parts = dict(zip((part.name for part in column.type), column.flatten(), strict=True))
    sizes = np.zeros(len(column), np.int64)
    for name in ("band_1", "band_2", "band_3", "band_4"):
        sizes += _lengths(pc.struct_field(parts[name], "data"))
    bands = parts["bands"]
    owners = pc.list_parent_indices(bands).to_numpy(zero_copy_only=False)
    np.add.at(sizes, owners, _lengths(pc.struct_field(bands.flatten(), "data")))
    return sizes


def large_digest(value: Any) -> bytes:
    """Return the digest of a value.

    >>> large_digest("a") == large_digest(b"a")
    True
    """
    digest = hashlib.sha256()
    if isinstance(value, dict):
        _feed(digest, value)
    else:
        digest.update(value.encode() if isinstance(value, str) else value or b"")
    return digest.digest()


def _feed(digest: _Hash, value: Any) -> None:
    match value:
        case None:
            digest.update(_NULL)
        case dict():
            for part in value.values():
                _feed(digest, part)
        case list():
            digest.update(struct.pack("<q", len(value)))
            for part in value:
                _feed(digest, part)
        case float():
            digest.update(struct.pack("<d", value))
        case int():
            digest.update(struct.pack("<q", value))
        case _:
            data = value.encode() if isinstance(value, str) else value
            digest.update(struct.pack("<q", len(data)))
            digest.update(data)
