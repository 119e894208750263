"""Deletion vectors of Delta tables: which rows of a data file are deleted, and where that stands.

An `add` of the log names one by how it is stored: inside of the log (`i`), in a file of
the table whose name is a UUID (`u`), or in a file anywhere (`p`). Text of bytes is Z85.
"""

from __future__ import annotations

import base64
import binascii
import string
import struct
import uuid
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.json_text import expect
from havasu_vc.formats.roaring import parse_deletion_vector, parse_framed_deletion_vector
from havasu_vc.records import dataclass

__all__ = ["DeletionVector", "parse_deleted", "vector_of"]

_Z85 = string.digits + string.ascii_lowercase + string.ascii_uppercase + ".-:+=^!/*?&<>()[]{}@%$#"
_B85 = string.digits + string.ascii_uppercase + string.ascii_lowercase + "!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)
_UUID_TEXT = 20
_FRAME_BYTES = 8
"""What stands around a vector in a file: its length and a checksum."""
_LARGEST = 256 << 20
_MOST_DELETED = 1 << 25
"""Deleted rows of one file; its footer may claim any number of rows."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where the deleted rows of a data file are listed."""

    storage: str
    """`i`, `u` or `p`."""
    place: str
    """The vector itself, or the path of its file, relative to the table for `u`."""
    offset: int
    """Where in the file its frame begins."""
    size: int
    """Bytes of the vector."""
    rows: int
    """How many rows are deleted."""
    identity: str
    """What tells it apart from others of the same data file."""

    @property
    def is_inline(self) -> bool:
        """Whether the log has it."""
        return self.storage == "i"

    @property
    def stored_size(self) -> int:
        """Bytes to read from the file."""
        return self.size + _FRAME_BYTES


def vector_of(value: Mapping[str, Any], where: str) -> DeletionVector:
    """Return the vector that an action of the log describes."""
    storage = expect(value.get("storageType"), str, "storageType", where)
    text = expect(value.get("pathOrInlineDv"), str, "pathOrInlineDv", where)
    size = expect(value.get("sizeInBytes"), int, "sizeInBytes", where)
    rows = expect(value.get("cardinality"), int, "cardinality", where)
    offset = value.get("offset")
    start = 0 if offset is None else expect(offset, int, "offset", where)
    if not 0 <= size <= _LARGEST or rows < 0 or not 0 <= start < 1 << 62:
        raise CorruptDatasetError(where, "a deletion vector has a size that is not possible")
    identity = f"{storage}{text}" + ("" if offset is None else f"@{start}")
    match storage:
        case "i" | "p":
            place = text
        case "u":
            place = _file_name(text, where)
        case _:
            raise CorruptDatasetError(where, f"a deletion vector is stored as {storage!r}")
    return DeletionVector(storage, place, start, size, rows, identity)


def _file_name(text: str, where: str) -> str:
    """Return the path of a file whose prefix and UUID stand in a text."""
    prefix, encoded = text[:-_UUID_TEXT], text[-_UUID_TEXT:]
    data = _bytes_of(encoded, where)
    if len(data) != 16:
        raise CorruptDatasetError(where, "a deletion vector names no file")
    if "/" in prefix or prefix in (".", ".."):
        raise CorruptDatasetError(where, "a deletion vector names a folder that is not one")
    name = f"deletion_vector_{uuid.UUID(bytes=data)}.bin"
    return f"{prefix}/{name}" if prefix else name


def _bytes_of(text: str, where: str) -> bytes:
    try:
        data: bytes = base64.b85decode(text.translate(_TO_B85) if set(text) <= set(_Z85) else "\n")
    except (ValueError, binascii.Error, struct.error) as error:
        raise CorruptDatasetError(where, "a deletion vector is not in Z85") from error
    return data


def parse_deleted(
    vector: DeletionVector, data: bytes | None, rows: int, where: str
) -> npt.NDArray[np.int64]:
    """Return the positions that a vector deletes from a file of so many rows.

    `data` is what stands in its file, None for a vector that the log has.
    """
    try:
        if data is None:
            inline = _bytes_of(vector.place, where)[: vector.size]
            positions = parse_deletion_vector(inline, most=min(rows, _MOST_DELETED))
        else:
            positions = parse_framed_deletion_vector(data, most=min(rows, _MOST_DELETED))
    except ValueError as error:
        raise CorruptDatasetError(where, str(error)) from error
    if len(positions) != vector.rows:
        raise CorruptDatasetError(
            where, f"a deletion vector has {len(positions)} rows, its log says {vector.rows}"
        )
    if len(positions) and int(positions[-1]) >= rows:
        raise CorruptDatasetError(where, f"a deletion vector goes beyond the {rows} rows of a file")
    return positions
