"""The plan of new data files: a value that costs nothing to import."""

from __future__ import annotations

from havasu_vc.formats.havasu.properties import SortOrder
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["MOSTLY_DELETED", "PAST", "TARGET_BYTES", "FileLayout", "clustered_column", "past_path"]

PAST = "meta/past/"
"""Where documents that files were written with stand until a delta takes them up."""
TARGET_BYTES = 128 * 1024 * 1024
MOSTLY_DELETED = 0.3
"""A file is rewritten rather than left with this share of deleted rows."""


@dataclass(frozen=True, slots=True)
class FileLayout:
    """The form of one commit's files; all plain values."""

    schema: Schema
    """The columns."""
    schema_hash: str
    """Its name in `past` of deltas."""
    partition_hash: str
    """The partition spec's."""
    sort_hash: str
    """The sort order's."""
    clustered: int | None = None
    """The geometry column along whose curve rows lie, if along any."""
    target_bytes: int = TARGET_BYTES
    """Files are closed at about this size."""


def past_path(name: str) -> str:
    """Return where a document stands that no delta has yet, by its hash."""
    return f"{PAST}{name}.json"


def clustered_column(schema: Schema, order: SortOrder) -> int | None:
    """Return the geometry column along whose Hilbert curve rows lie, if along any."""
    wanted = [field.source_id for field in order.fields if field.transform == "hilbert"]
    found = [field.id for field in schema.geometries if field.id in wanted]
    return found[0] if found else None
