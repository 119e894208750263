"""Documents that git must not merge or pair: NUL, `z`, and JSON in one line, compressed.

Two of them have nothing in common that git could take for a rename, and the NUL makes them
binary, so that git never puts two versions together line by line.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.json_text import MOST_BYTES, parse_json

__all__ = ["is_packed", "one_line", "pack", "unpack"]

_START = b"\0z"


def one_line(value: Any) -> bytes:
    """Return a value as JSON in one line, keys as given."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


def pack(value: Any) -> bytes:
    """Return a value as the bytes of a packed document."""
    return _START + zlib.compress(one_line(value), 6)


def is_packed(data: bytes) -> bool:
    """Whether some bytes are those of a packed document."""
    return data.startswith(_START)


def unpack(data: bytes, where: str) -> Any:
    """Return the value of a packed document; `where` names it in errors."""
    if not is_packed(data):
        raise CorruptDatasetError(where, "it is not a packed document")
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(data[len(_START) :], MOST_BYTES + 1)
    except zlib.error as error:
        raise CorruptDatasetError(where, f"it cannot be unpacked ({error})") from error
    if len(text) <= MOST_BYTES and not unpacking.eof:
        raise CorruptDatasetError(where, "it ends before it should")
    return parse_json(text, where)
