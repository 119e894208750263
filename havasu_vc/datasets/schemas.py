"""Schemas that were parsed, by their bytes: looking back, most commits have the same one."""

from __future__ import annotations

from collections.abc import Callable

from havasu_vc.model.schema import Schema

__all__ = ["remembered_schema"]

_REMEMBERED = 256
_schemas: dict[tuple[Callable[[bytes, str], Schema], bytes], Schema] = {}


def remembered_schema(parse: Callable[[bytes, str], Schema], data: bytes, where: str) -> Schema:
    """Return the schema that some bytes are; `where` is told of bytes that are none."""
    known = _schemas.get((parse, data))
    if known is None:
        known = parse(data, where)
        if len(_schemas) < _REMEMBERED:
            _schemas[parse, data] = known
    return known
