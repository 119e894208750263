"""Whether a checked-out table is as it was left, at the cost of looking at two names.

A writer adds a metadata file, so a table whose newest one is ours has no edits. One that
has another may have no row edits either (a compaction by Spark), but holds something
that a checkout must not drop unasked. A checkout that died between publishing a table
and noting it down left a table that says itself that it is ours.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from havasu_vc.errors import HavasuError
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.tables.table import METADATA, Table, read_table, table_exists
from havasu_vc.workspace.properties import (
    COMMIT,
    FLAVOUR,
    TREE,
    is_checkout,
    is_untouched,
)
from havasu_vc.workspace.state import TableState

__all__ = ["Condition", "adopted", "condition_of", "is_newest"]


class Condition(StrEnum):
    """How a table is found."""

    CLEAN = "clean"
    """As it was checked out."""
    EDITED = "edited"
    """Written to by others since."""
    MISSING = "missing"
    """Not there, or nothing in its place."""
    FOREIGN = "foreign"
    """Something else is in its place."""


def is_newest(location: Path, version: int) -> bool:
    """Whether a metadata file is there, and none after it."""
    folder = location / METADATA
    return (folder / f"v{version}.metadata.json").is_file() and not any(
        (folder / f"v{version + 1}{suffix}").exists()
        for suffix in (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
    )


def condition_of(location: Path, known: TableState | None) -> tuple[Condition, TableState | None]:
    """Return how a table is found, and what is known of it now."""
    if known is not None and is_newest(location, known.version):
        return Condition.CLEAN, known
    if not location.exists() or (location.is_dir() and not any(location.iterdir())):
        return Condition.MISSING, None
    if not table_exists(location):
        # Folders of other datasets may lie below; a table's documents are what counts.
        return (Condition.FOREIGN if _holds_files(location) else Condition.MISSING), None
    try:
        table = read_table(location)
    except HavasuError:
        return (Condition.EDITED if known is not None else Condition.FOREIGN), known
    if not is_checkout(table):
        return (Condition.EDITED if known is not None else Condition.FOREIGN), known
    if not is_untouched(table):
        return Condition.EDITED, known
    return Condition.CLEAN, adopted(table, known)


def _holds_files(location: Path) -> bool:
    return any(not inner.is_dir() or inner.is_symlink() for inner in location.iterdir())


def adopted(table: Table, known: TableState | None) -> TableState | None:
    """Return what a table that is untouched says of its checkout; None when it does not say."""
    snapshot = table.metadata.snapshot
    if snapshot is None or TREE not in snapshot.summary:
        return known
    flavour = table.metadata.properties.get(FLAVOUR, "")
    if flavour not in list(Flavour):
        return known
    return TableState(
        table.metadata.properties.get("havasu-vc.dataset", ""),
        snapshot.summary.get(COMMIT, ""),
        snapshot.summary[TREE],
        snapshot.snapshot_id,
        table.version,
        Flavour(flavour),
        {} if known is None else known.files,
        () if known is None else known.deletes,
        {} if known is None else known.refs,
    )
