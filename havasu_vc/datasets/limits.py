"""How long texts and how large numbers a dataset of Kart's may hold, by its `schema.json`.

Kart asks it of rows that are committed or that a patch brings, as they are now, and not of rows
that are imported or merged. What it says of a value that a column cannot hold stands here too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.errors import SchemaViolationError
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetHeader

__all__ = ["violation", "violation_lines", "within_limits"]

_SHOWN = 40
_FORMS = {
    "date": "an ISO 8601 date ie YYYY-MM-DD",
    "timestamp": "an ISO 8601 UTC datetime ie YYYY-MM-DDThh:mm:ss.ssss",
}


def within_limits(
    path: str, header: DatasetHeader, batches: Iterable[ChangeBatch]
) -> Iterator[ChangeBatch]:
    """Yield changes as they are; raise after them where a new row has what is beyond a limit.

    `header` is of the dataset with these changes; one that is not Kart's has no limits.
    """
    columns = header.meta.get("schema.json", ()) if is_of_kart(header.kind) else ()
    limited = [
        each
        for each in columns
        if (each["dataType"] in ("text", "blob") and each.get("length"))
        or (each["dataType"] == "integer" and each.get("size") in (8, 16))
    ]
    found: dict[str, str] = {}
    for batch in batches:
        for column in limited:
            name = column["name"]
            if name in found:
                continue
            values = pc.struct_field(batch.new, name)
            beyond = pc.filter(values, pc.coalesce(_is_beyond(column, values), pa.scalar(False)))
            if len(beyond):
                found[name] = violation(column, beyond[0].as_py())
        yield batch
    if found:
        first = next(iter(found.values()))
        error = SchemaViolationError(
            f"{path}: {first[0].lower()}{first[1:]}",
            hints=("mend the value, or give the column another length or size",),
        )
        error.said = violation_lines(path, found.values())
        raise error


def _is_beyond(column: Mapping[str, Any], values: pa.Array) -> pa.Array:
    """Return which values are beyond a column's limit."""
    if column["dataType"] == "integer":
        most = 2 ** (column["size"] - 1) - 1
        return pc.or_(pc.greater(values, pa.scalar(most)), pc.less(values, pa.scalar(~most)))
    length = pc.utf8_length if column["dataType"] == "text" else pc.binary_length
    return pc.greater(length(values), pa.scalar(column["length"]))


def violation(column: Mapping[str, Any], value: object) -> str:
    """Return what is said of a value of a column, as SQLite has it.

    >>> violation({"name": "n", "dataType": "integer", "size": 8}, 300)
    "In column 'n' value 300 does not fit into an int8: -128 to 127"
    >>> violation({"name": "n", "dataType": "text", "length": 2}, "abc")
    "In column 'n' value 'abc' exceeds limit of 2 characters"
    """
    kind, length = column["dataType"], column.get("length")
    if kind == "integer" and isinstance(value, int):
        most = 2 ** (column.get("size", 64) - 1) - 1
        why = f"does not fit into an int{column.get('size', 64)}: {~most} to {most}"
    elif kind == "text" and length and isinstance(value, str):
        why = f"exceeds limit of {length} characters"
    elif kind == "blob" and length and isinstance(value, bytes):
        why = f"exceeds limit of {length} bytes"
    elif kind in _FORMS and isinstance(value, str):
        why = f"is not {_FORMS[kind]}"
    else:
        why = f"doesn't match schema type {kind}"
    return f"In column {column['name']!r} value {_shown(value, why)} {why}"


def violation_lines(path: str, violations: Iterable[str]) -> tuple[str, ...]:
    """Return all lines with which Kart ends where values do not match."""
    lines = (f"{path}: {each}" for each in violations)
    return (*lines, "Error: Schema violation - values do not match schema")


def _shown(value: object, why: str) -> str:
    """Return a value; of one that is too long the ends."""
    if isinstance(value, str | bytes) and len(value) > 100 and why.startswith("exceeds"):
        short: Any = value[:_SHOWN], value[-_SHOWN:]
        return repr((b"....." if isinstance(value, bytes) else ".....").join(short))
    return repr(value)
