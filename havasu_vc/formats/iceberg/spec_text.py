"""A partition spec as people write it: `bucket(16, id), days(at), country`.

The words are Spark's: `years`, `months`, `days`, `hours`, `bucket(N, column)`,
`truncate(W, column)` (also `truncate(column, W)`), or a column alone. Fields get the
names and ids that Iceberg would give them.
"""

from __future__ import annotations

import re

from havasu_vc.errors import InvalidArgumentError, UnsupportedError
from havasu_vc.formats.havasu.layout import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.transforms import parse_transform
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive

__all__ = ["parse_spec"]

_PART = re.compile(r"\s*(?:(?P<word>\w+)\s*\((?P<inside>[^()]*)\)|(?P<column>[^(),]+))\s*(?:,|$)")
_TIMES = {"year": "year", "month": "month", "day": "day", "hour": "hour", "date": "day"}
_SUFFIX = {"truncate": "trunc"}
_FIRST_ID = 1000
_HINT = "write it as in 'bucket(16, id), days(at), country'"


def parse_spec(text: str, schema: Schema) -> PartitionSpec:
    """Return the partition spec that a text describes for some columns.

    >>> from havasu_vc.model.types import Field
    >>> schema = Schema((Field(1, "id", Primitive.INT),))
    >>> parse_spec("bucket(16, id)", schema).fields[0].name
    'id_bucket'
    """
    fields: list[PartitionField] = []
    at = 0
    while at < len(text) or not fields:
        match = _PART.match(text, at)
        if match is None or match.end() == at:
            raise InvalidArgumentError(f"{text!r} is no partition spec", hints=(_HINT,))
        at = match.end()
        column, transform = _read(match, text)
        source = _source(column, schema)
        _check(transform, source)
        kind = parse_transform(transform).kind
        name = source.name if kind == "identity" else f"{source.name}_{_SUFFIX.get(kind, kind)}"
        if any(field.name == name for field in fields):
            raise InvalidArgumentError(f"{text!r} has {name} twice", hints=(_HINT,))
        fields.append(PartitionField(source.id, _FIRST_ID + len(fields), name, transform))
    return PartitionSpec(tuple(fields))


def _read(match: re.Match[str], text: str) -> tuple[str, str]:
    """Return the column and the transform of one part."""
    if match["column"] is not None:
        return match["column"].strip(), "identity"
    word = match["word"].lower()
    inside = [part.strip() for part in match["inside"].split(",")]
    if word == "identity" and len(inside) == 1:
        return inside[0], "identity"
    if word.removesuffix("s") in _TIMES and len(inside) == 1:
        return inside[0], _TIMES[word.removesuffix("s")]
    if word in ("bucket", "truncate") and len(inside) == 2:
        width, column = inside if inside[0].isdigit() else reversed(inside)
        if re.fullmatch(r"[1-9]\d{0,8}", width):
            return column, f"{word}[{width}]"
    raise InvalidArgumentError(f"{text!r} is no partition spec", hints=(_HINT,))


def _source(name: str, schema: Schema) -> Field:
    bare = name.strip("`")
    found = schema.by_name.get(bare)
    if found is None:
        raise InvalidArgumentError(
            f"there is no column {bare!r} to partition by",
            hints=(f"columns are {', '.join(schema.names)}",),
        )
    return found


def _check(transform: str, source: Field) -> None:
    if source.geometry is not None or source.raster is not None:
        raise InvalidArgumentError(
            f"{source.name} holds geometries or rasters, which nothing is partitioned by",
            hints=("without a spec rows are sorted along a Hilbert curve of their geometries",),
        )
    try:
        parse_transform(transform).result_type(source.type)
    except UnsupportedError as error:
        raise InvalidArgumentError(error.message, hints=error.hints) from error
    if transform == "identity" and source.type in (Primitive.FLOAT, Primitive.DOUBLE):
        raise InvalidArgumentError(f"{source.name} holds floats, which are no partitions")
