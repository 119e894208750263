"""Partition transforms: how a column's value becomes the value that its files share.

    identity  bucket[N]  truncate[W]  year  month  day  hour  void

Any other is kept by name and can neither be applied nor written for. Applied to an Arrow
array the work is vectorised; null stays null.

>>> parse_transform("bucket[16]").apply(34, Primitive.INT)
3
>>> parse_transform("truncate[10]").apply(-1, Primitive.INT)
-10
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from havasu_vc.errors import UnsupportedError
from havasu_vc.formats.iceberg import bucketing, truncating
from havasu_vc.formats.iceberg.single_values import to_plain
from havasu_vc.model.type_table import is_whole
from havasu_vc.model.types import Decimal, Fixed, Primitive, Type
from havasu_vc.records import dataclass

__all__ = ["Transform", "parse_transform"]

_TRANSFORM = re.compile(r"(bucket|truncate)\[(\d{1,9})\]|(identity|year|month|day|hour|void)")
_TEXTS = frozenset((Primitive.STRING, Primitive.BINARY))
_INSTANTS = frozenset((Primitive.TIMESTAMP, Primitive.TIMESTAMPTZ))
_UNHASHED = frozenset((Primitive.BOOLEAN, Primitive.FLOAT, Primitive.DOUBLE))


@dataclass(frozen=True, slots=True)
class Transform:
    """One transform.

    >>> str(parse_transform("Bucket[ 4 ]".replace(" ", "").lower()))
    'bucket[4]'
    """

    kind: str
    """`identity`, `bucket`, `truncate`, `year`, `month`, `day`, `hour`, `void`, or unknown."""
    width: int | None = None
    """Buckets, or the width of `truncate`."""
    known: bool = True
    """Whether it can be applied."""

    def __str__(self) -> str:
        return self.kind if self.width is None else f"{self.kind}[{self.width}]"

    def accepts(self, source: Type) -> bool:
        """Whether a column of that type can be transformed."""
        match self.kind:
            case "void":
                return True
            case "identity":
                return isinstance(source, Primitive | Decimal | Fixed)
            case "bucket":
                simple = isinstance(source, Primitive | Decimal | Fixed)
                return simple and source not in _UNHASHED
            case "truncate":
                return is_whole(source) or source in _TEXTS or isinstance(source, Decimal)
            case "year" | "month" | "day":
                return source is Primitive.DATE or source in _INSTANTS
            case "hour":
                return source in _INSTANTS
            case _:
                return False

    def result_type(self, source: Type) -> Type:
        """Return the type of what it makes of a column of a type."""
        if not self.accepts(source):
            raise UnsupportedError(
                f"partition transform {self} cannot be used on {source}",
                hints=("only plain columns can be partitioned by, and geometries never",),
            )
        match self.kind:
            case "bucket" | "year" | "month" | "hour":
                return Primitive.INT
            case "day":
                return Primitive.DATE
            case _:
                return source

    def apply(self, value: Any, source: Type) -> Any:
        """Return what it makes of one Python value."""
        result = self.result_type(source)
        if value is None or self.kind == "void":
            return None
        match self.kind:
            case "bucket":
                assert self.width is not None
                return bucketing.bucket(to_plain(value, source), source, self.width)
            case "truncate":
                assert self.width is not None
                return truncating.truncate(value, source, self.width)
            case "identity":
                return value
            case _:
                return truncating.since_epoch(value, source, self.kind, result)

    def apply_array(self, values: pa.Array, source: Type) -> pa.Array:
        """Return what it makes of each value of an Arrow array."""
        result = self.result_type(source)
        match self.kind:
            case "identity":
                return values
            case "void":
                return pa.nulls(len(values), values.type)
            case "bucket":
                assert self.width is not None
                return bucketing.bucket_array(values, source, self.width)
            case "truncate":
                assert self.width is not None
                return truncating.truncate_array(values, source, self.width)
            case _:
                return truncating.since_epoch_array(values, self.kind, result)


def parse_transform(text: str) -> Transform:
    """Return the transform of a name; one that is not known is kept as it is."""
    match = _TRANSFORM.fullmatch(text)
    if match is None:
        return Transform(text, known=False)
    if match[3]:
        return Transform(match[3])
    width = int(match[2])
    return Transform(match[1], width) if width else Transform(text, known=False)
