"""JSON as all documents of a dataset write and read it: bounded, exact, one form."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from typing import Any

from havasu_vc.errors import CorruptDatasetError

__all__ = [
    "document_hash",
    "expect",
    "format_json",
    "is_packed",
    "one_line",
    "pack",
    "parse_json",
    "unpack",
]


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, indent=1)
_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
MOST_BYTES = 64 * 1024 * 1024
"""A document beyond this is refused before it is parsed."""


def format_json(value: Any) -> bytes:
    """Return a value as the bytes of a document: one fact a line, keys as given."""
    # What it holds may be long: no more than two copies of it are there at a time.
    return "".join((*_ENCODER.iterencode(value), "\n")).encode()


def parse_json(data: bytes, where: str) -> Any:
    """Return the value of a document; `where` names it in errors."""
    if len(data) > MOST_BYTES:
        raise CorruptDatasetError(where, f"it has {len(data):,} bytes, more than any should")
    try:
        value = _DECODER.decode(data.decode(json.detect_encoding(data), "surrogatepass"))
        if _HALF.search(data):
            # Half a character, which nothing could print or store.
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except RecursionError:
        raise CorruptDatasetError(where, "its JSON is nested too deeply") from None
    except UnicodeEncodeError:
        raise CorruptDatasetError(where, "it holds half a character") from None
    except ValueError as error:
        raise CorruptDatasetError(where, f"it is not valid JSON ({error})") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def expect(value: Any, kind: type | tuple[type, ...], what: str, where: str) -> Any:
    """Return a value of a document if it has the type it must have."""
    if type(value) is kind:
        return value
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise CorruptDatasetError(where, f"{what} is not what it must be")
    return value


def document_hash(data: bytes) -> str:
    """Return the name that entries give a document: half of its sha256, in hex."""
    return hashlib.sha256(data).hexdigest()[:32]


# Documents that git must not merge or pair: NUL, `z`, and JSON in one line, compressed.
#
# Two of them have nothing in common that git could take for a rename, and the NUL makes them
# binary, so that git never puts two versions together line by line.

_START = b"\0z"


# Made once, not for each document.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=_object)


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
