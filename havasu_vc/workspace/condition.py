"""Whether a checked-out table is as it was left, at the cost of looking at two names.

A writer adds a metadata file, so a table whose newest one is ours has no edits. Iceberg's
own writers ask whether the name is free and then rename, which may put theirs in the
place of one that we made in between: so the file must be the very one that we wrote. What
such a writer began with is then an older checkout, and the table tells which. One that
has another may have no row edits either (a compaction by Spark), but holds something
that a checkout must not drop unasked. A checkout that died between publishing a table
and noting it down left a table that says itself that it is ours.
"""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum

from havasu_vc.errors import HavasuError, StorageError
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.tables.table import Table
from havasu_vc.workspace.places import Holds, TablePlace
from havasu_vc.workspace.properties import (
    BASE,
    CLUSTERED,
    COMMIT,
    FLAVOUR,
    TREE,
    VERSION,
    is_checkout,
    is_untouched,
)
from havasu_vc.workspace.state import TableState

__all__ = ["Condition", "condition_of", "edited_since"]


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


def condition_of(
    place: TablePlace, known: TableState | None
) -> tuple[Condition, TableState | None]:
    """Return how a table is found, and what is known of it now."""
    if known is not None and _is_as_left(place, known):
        return Condition.CLEAN, known
    match place.holds():
        case Holds.NOTHING:
            return Condition.MISSING, None
        case Holds.OTHERS:
            return Condition.FOREIGN, None
    try:
        table = place.read()
    except StorageError:
        raise  # what cannot be reached may be as it was
    except HavasuError:
        return (Condition.EDITED if known is not None else Condition.FOREIGN), known
    if not is_checkout(table):
        return (Condition.EDITED if known is not None else Condition.FOREIGN), known
    if not is_untouched(table):
        return Condition.EDITED, None if known is None else edited_since(table, known)
    return Condition.CLEAN, _adopted(place, table, known)


def _is_as_left(place: TablePlace, known: TableState) -> bool:
    """Whether the newest metadata file of a table is the one that we wrote."""
    found = place.newest_document(known.version)
    return found is not None and known.document in (None, found)


def edited_since(table: Table, known: TableState) -> TableState:
    """Return what an edited table is of: what is known, unless it was overtaken.

    The tag of the checkout says so, which every writer keeps. Where it names another tree,
    the table was written by someone who began before the last checkout and ended after it.
    """
    base = table.metadata.references.get(BASE)
    snapshot = None if base is None else table.metadata.snapshots.get(base.snapshot_id)
    version = table.metadata.properties.get(VERSION, "")
    if snapshot is None or not version.isdecimal():
        return known
    tree, commit = snapshot.summary.get(TREE), snapshot.summary.get(COMMIT)
    clustered = snapshot.summary.get(CLUSTERED)
    if tree is None or not commit or (tree, clustered) == (known.tree, known.clustered):
        return known
    return replace(
        known,
        commit=commit,
        tree=tree,
        snapshot_id=snapshot.snapshot_id,
        version=int(version),
        deletes=(),
        document=None,
        clustered=clustered,
    )


def _adopted(place: TablePlace, table: Table, known: TableState | None) -> TableState | None:
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
        place.newest_document(table.version),
        snapshot.summary.get(CLUSTERED),
    )
