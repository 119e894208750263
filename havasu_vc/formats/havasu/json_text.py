"""JSON as all documents of a dataset write and read it: bounded, exact, one form."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from havasu_vc.errors import CorruptDatasetError

__all__ = ["document_hash", "expect", "format_json", "parse_json"]

_HALF = re.compile(rb"\\u[dD][89a-fA-F]")
MOST_BYTES = 64 * 1024 * 1024
"""A document beyond this is refused before it is parsed."""


def format_json(value: Any) -> bytes:
    """Return a value as the bytes of a document: one fact a line, keys as given."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1)
    return text.encode() + b"\n"


def parse_json(data: bytes, where: str) -> Any:
    """Return the value of a document; `where` names it in errors."""
    if len(data) > MOST_BYTES:
        raise CorruptDatasetError(where, f"it has {len(data):,} bytes, more than any should")
    try:
        value = json.loads(data, parse_constant=_refuse_constant, object_pairs_hook=_object)
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
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise CorruptDatasetError(where, f"{what} is not what it must be")
    return value


def document_hash(data: bytes) -> str:
    """Return the name that entries give a document: half of its sha256, in hex."""
    return hashlib.sha256(data).hexdigest()[:32]
