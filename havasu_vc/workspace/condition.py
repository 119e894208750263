"""Whether a checked-out table is as it was left, at the cost of looking at two names.

A writer adds a metadata file, so a table whose newest one is ours has no edits. Iceberg's
own writers ask whether the name is free and then rename, which may put theirs in the
place of one that we made in between: so the file must be the very one that we wrote. What
such a writer began with is then an older checkout, and the table tells which. One that
has another may have no row edits either (a compaction by Spark), but holds something
that a checkout must not drop unasked. A checkout that died between publishing a table
and noting it down left a table that says itself that it is ours.

Tables that edits cannot be taken in from, and what to do about each.

A table may have lost files, been rolled back by hand, been replaced by another, or be
written in a newer format; linked files may have been written into. Each is said in one
line with the next step. Nothing is deleted and nothing is mended here: what is in a
table stays there until its owner decides.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from enum import StrEnum
from pathlib import Path

from havasu_vc.errors import (
    CorruptDataFileError,
    CorruptionError,
    HavasuError,
    SourceNotFoundError,
    StateError,
    StorageError,
    UnsupportedVersionError,
)
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.store.files import DataFileStore
from havasu_vc.tables.table import Table
from havasu_vc.workspace.foreign import hash_file
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
from havasu_vc.workspace.state import TableState, identify

__all__ = ["Condition", "check_linked", "condition_of", "edited_since", "open_checked_out"]


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


NEWEST_FORMAT = 2
"""The newest version of Iceberg's format that edits are taken in from."""


def open_checked_out(place: TablePlace, known: TableState, table_uuid: str) -> Table:
    """Return the table of a dataset, once it is sure that it comes of its checkout."""
    anew = f"`havasu-vc restore {shlex.quote(known.path)}` makes the table anew from its commit"
    if not place.exists():
        raise CorruptionError(
            f"{known.path}: its table at {place.location} is gone",
            hints=(f"{anew}; put it back first if it holds edits",),
        )
    try:
        table = place.read()
    except SourceNotFoundError as error:
        raise CorruptionError(
            f"{known.path}: {error.message}",
            hints=(f"put its metadata back, or {anew}, without the edits that it held",),
        ) from error
    except HavasuError as error:
        raise type_of(error)(f"{known.path}: {error.message}", hints=(anew,)) from error
    metadata = table.metadata
    if metadata.table_uuid != table_uuid:
        raise StateError(
            f"{known.path}: the table at {place.location} is another one ({metadata.table_uuid})",
            hints=(f"move it away, then {anew}",),
        )
    if metadata.format_version > NEWEST_FORMAT:
        raise UnsupportedVersionError(
            f"{known.path}: its table was upgraded to Iceberg's format {metadata.format_version}, "
            f"and edits are taken in from version {NEWEST_FORMAT}",
            hints=(
                "copy the rows that changed into another table; "
                f"{anew}, then write them there again",
            ),
        )
    back = table.version < known.version
    if back or known.snapshot_id not in metadata.snapshots:
        # Engines go back by another version, never by an older one: that is a folder from a
        # backup, and what it lacks is no edit of anybody's.
        what = (
            f"was rolled back to before its checkout, to v{table.version}"
            if back
            else f"has another history: the snapshot that was checked out ({known.snapshot_id}) "
            "is not in it"
        )
        raise StateError(
            f"{known.path}: its table {what}",
            hints=(
                f"put its metadata files back, newest v{known.version}.metadata.json; or {anew}, "
                "without the edits that it held",
            ),
        )
    return table


def type_of(error: HavasuError) -> type[HavasuError]:
    """Return the class to say the same with, of those that take a message alone."""
    return type(error) if isinstance(error, UnsupportedVersionError) else CorruptionError


def check_linked(location: Path, known: TableState, store: DataFileStore) -> None:
    """Raise when a data file that is linked into a table is gone, or was written into since.

    One that only looks different (it was copied, or touched) is read once more to be sure.
    """
    for file, was in known.files.items():
        path = location / "data" / f"{file}.parquet"
        try:
            found = identify(path)
        except FileNotFoundError:
            raise CorruptionError(
                f"{known.path}: its table lacks {path}",
                hints=(f"`cp {store.location(file)} {path}` puts it back; edits stay as they are",),
            ) from None
        if found == was or (found.size == was.size and hash_file(path)[0] == file):
            continue
        raise CorruptDataFileError(
            file,
            f"{path} was changed in place, which no engine does; if it is a hard link, "
            "the repository's own file has changed as well",
        )
