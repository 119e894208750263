"""Layouts of JSON: where line breaks, spaces and escapes go.

Kart's three styles are those of Python's `json.dumps`: `pretty` indents by two,
`compact` puts a space after commas and colons, `extracompact` none. A layout also
writes the literal pieces between values, so that a whole column of objects can be
put together in Arrow and still be byte for byte what `json.dumps` would give.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.records import dataclass
from havasu_vc.writers.protocol import JsonStyle
from havasu_vc.writers.terminal import visible_json

__all__ = [
    "COMPACT_TEXT",
    "LAYOUTS",
    "LINES",
    "PATCH_LAYOUTS",
    "STRICT_LAYOUTS",
    "JsonLayout",
    "json_name",
]


def json_name(name: str) -> str:
    """Return the name that a field of a value of ours has in JSON.

    >>> json_name("rows_before")
    'rowsBefore'
    """
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


@dataclass(frozen=True, slots=True)
class JsonLayout:
    r"""One way to lay JSON out.

    >>> LAYOUTS[JsonStyle.PRETTY].dumps({"a": [1]}, depth=1)
    '{\n    "a": [\n      1\n    ]\n  }'
    """

    indent: int | None
    """Spaces per level; None for everything on one line."""
    comma: str
    """Between items."""
    colon: str
    """Between a key and its value."""
    ascii: bool = True
    """Whether other characters are escaped; those that act on a terminal always are."""
    strict: bool = False
    """Whether NaN and infinity, which JSON lacks, become null."""
    srids: bool = False
    """Whether geometries that have an SRID keep it, as EWKB; without, all are ISO WKB."""
    pixels: bool = False
    """Whether rasters are written whole, for a reader that takes them in again."""
    zones: bool = True
    """Whether times with a zone say so; Kart's do not, and Kart stores what a patch has."""

    def of_kind(self, kind: str) -> JsonLayout:
        """Return how rows of a kind of dataset are laid out."""
        return replace(self, zones=self.zones and not is_of_kart(kind))

    def dumps(self, value: Any, depth: int = 0) -> str:
        """Return a value as JSON that continues a line at some depth."""
        if self.strict:
            value = finite(value)
        text = json.dumps(
            value,
            indent=self.indent,
            separators=(self.comma, self.colon),
            ensure_ascii=self.ascii,
        )
        text = text if self.ascii else visible_json(text)
        return text.replace("\n", self.line(depth)) if depth and self.indent else text

    def line(self, depth: int) -> str:
        """Return what begins a new line at some depth."""
        return "" if self.indent is None else "\n" + " " * (self.indent * depth)

    def between(self, depth: int) -> str:
        """Return what stands between two items at some depth."""
        return self.comma + self.line(depth)

    def key(self, name: str) -> str:
        """Return a key with its colon."""
        text = json.dumps(name, ensure_ascii=self.ascii)
        return (text if self.ascii else visible_json(text)) + self.colon

    def object_pieces(self, names: Sequence[str], depth: int) -> list[str]:
        """Return what stands before, between and after the values of an object.

        >>> LAYOUTS[JsonStyle.COMPACT].object_pieces(["a", "b"], 0)
        ['{"a": ', ', "b": ', '}']
        """
        if not names:
            return ["{}"]
        first, *others = names
        separator = self.between(depth + 1)
        return [
            "{" + self.line(depth + 1) + self.key(first),
            *(separator + self.key(name) for name in others),
            self.line(depth) + "}",
        ]


def finite(value: Any) -> Any:
    """Return a value with null for every number that JSON lacks."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {name: finite(part) for name, part in value.items()}
        case list() | tuple():
            return [finite(part) for part in value]
        case _:
            return value


LAYOUTS: Mapping[JsonStyle, JsonLayout] = MappingProxyType(
    {
        JsonStyle.PRETTY: JsonLayout(2, ",", ": "),
        JsonStyle.COMPACT: JsonLayout(None, ", ", ": "),
        JsonStyle.EXTRACOMPACT: JsonLayout(None, ",", ":"),
    }
)
"""Kart's styles; NaN and infinity stay as Python writes them, so that nothing is lost."""

STRICT_LAYOUTS: Mapping[JsonStyle, JsonLayout] = MappingProxyType(
    {style: replace(layout, strict=True) for style, layout in LAYOUTS.items()}
)
"""The same for readers that take JSON at its word, as those of GeoJSON do."""

PATCH_LAYOUTS: Mapping[JsonStyle, JsonLayout] = MappingProxyType(
    {
        style: replace(layout, srids=True, pixels=True, zones=False)
        for style, layout in LAYOUTS.items()
    }
)
"""The same for patches, which must give back what was committed."""

COMPACT_TEXT = replace(LAYOUTS[JsonStyle.COMPACT], ascii=False)
"""Nested values within text for people."""

LINES = JsonLayout(None, ",", ":", ascii=False, strict=True)
"""One line of JSON lines."""
