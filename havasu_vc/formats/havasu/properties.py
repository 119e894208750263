"""`meta/properties.json`: facts of a dataset that are no rows, columns or text.

    {"table-uuid": "…", "havasu.format-version": "0.1.0", "last-column-id": 9}

The table-uuid is drawn once and stays through renames and moves. `last-column-id` only
grows, so that no field id is ever used for a second column. Other properties are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from havasu_vc.errors import UnsupportedVersionError
from havasu_vc.formats.havasu.json_text import expect, format_json, parse_json
from havasu_vc.records import dataclass

__all__ = ["HAVASU_VERSION", "Properties", "format_properties", "parse_properties"]

HAVASU_VERSION = "0.1.0"
"""The version of the Havasu specification that tables follow."""

_OWN = ("table-uuid", "havasu.format-version", "last-column-id")


@dataclass(frozen=True, slots=True)
class Properties:
    """Facts of a dataset."""

    table_uuid: str
    """Drawn once; the dataset's identity."""
    last_column_id: int
    """No column has or had a higher id."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Whatever else is recorded."""

    def raised(self, column_id: int) -> Properties:
        """Return the properties once a column of that id exists."""
        return replace(self, last_column_id=max(self.last_column_id, column_id))


def format_properties(properties: Properties) -> bytes:
    """Return the document."""
    return format_json(
        {
            "table-uuid": properties.table_uuid,
            "havasu.format-version": HAVASU_VERSION,
            "last-column-id": properties.last_column_id,
            **dict(sorted(properties.others.items())),
        }
    )


def parse_properties(data: bytes, where: str) -> Properties:
    """Return the properties of a document."""
    value = expect(parse_json(data, where), dict, "the properties", where)
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
