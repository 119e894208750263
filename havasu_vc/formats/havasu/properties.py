"""`dataset.json`: what a dataset is, from the day it was made.

    {"format": 2, "table-uuid": "…", "markers": "hash32", "havasu.format-version": "0.1.0",
     "last-column-id": 9}

The table-uuid is drawn once and stays through renames and moves. `last-column-id` is what it
was on that day; columns that came later tell of themselves. Other properties are kept. It
does not change, so that git never has to merge it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from havasu_vc.errors import UnsupportedVersionError
from havasu_vc.formats.havasu.json_text import expect, format_json, parse_json
from havasu_vc.records import dataclass

__all__ = [
    "DATASET",
    "FORMAT",
    "HAVASU_VERSION",
    "Digest",
    "Properties",
    "Snapshot",
    "format_properties",
    "parse_properties",
]


HAVASU_VERSION = "0.1.0"
"""The version of the Havasu specification that tables follow."""

DATASET = "dataset.json"
"""Where the properties are, below the dataset's folder."""
_MARKERS = "hash32"
_OWN = ("format", "table-uuid", "markers", "havasu.format-version", "last-column-id")


@dataclass(frozen=True, slots=True)
class Properties:
    """Facts of a dataset."""

    table_uuid: str
    """Drawn once; the dataset's identity."""
    last_column_id: int
    """No column had a higher id when the dataset was made."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Whatever else is recorded."""


def format_properties(properties: Properties) -> bytes:
    """Return the document."""
    return format_json(
        {
            "format": FORMAT,
            "table-uuid": properties.table_uuid,
            "markers": _MARKERS,
            "havasu.format-version": HAVASU_VERSION,
            "last-column-id": properties.last_column_id,
            **dict(sorted(properties.others.items())),
        }
    )


def parse_properties(data: bytes, where: str) -> Properties:
    """Return the properties of a document."""
    value = expect(parse_json(data, where), dict, "the properties", where)
    number = expect(value.get("format"), int, "format", where)
    markers = expect(value.get("markers"), str, "markers", where)
    if number != FORMAT or markers != _MARKERS:
        raise UnsupportedVersionError(
            f"{where}: dataset format {number} ({markers}) is not known to this version",
            hints=("upgrade havasu-vc",),
        )
    version = expect(value.get("havasu.format-version"), str, "havasu.format-version", where)
    if version != HAVASU_VERSION:
        raise UnsupportedVersionError(
            f"{where}: Havasu tables of version {version!r} are not known to this version",
            hints=("upgrade havasu-vc",),
        )
    return Properties(
        expect(value.get("table-uuid"), str, "table-uuid", where),
        expect(value.get("last-column-id"), int, "last-column-id", where),
        {
            name: expect(item, str, f"property {name!r}", where)
            for name, item in value.items()
            if name not in _OWN
        },
    )


# What the deltas of a dataset add up to.

FORMAT = 2
"""The version of the dataset format that this code reads and writes."""

Digest = tuple[int, int]
"""Two lanes of 64 bits."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The sums of a dataset."""

    rows: int
    """Live rows."""
    deleted_rows: int
    """Rows in data files that delete files take away."""
    size: int
    """Bytes of all files."""
    digests: Mapping[int, Digest] = field(default_factory=dict)
    """By field id: the sum of the hashes of its live cells."""
