"""A dataset as an Iceberg table: one snapshot per checkout, and only changed files move.

    <location>/data/<sha256>.parquet            linked from the store
    <location>/data/<sha256>-deletes.parquet    position deletes, made of the dataset's
    <location>/metadata/…                       as Iceberg has it
    <location>/metadata/duckdb.metadata.json    the same with geometries (`relocating`)

Everything that a snapshot names is complete and durable before the metadata file that
names it appears; the version before is good until then. A snapshot of the same tree
that is still there is made the current one again. `havasu-vc.metadata-version` in a
table's properties says which metadata file is ours: after a write by others it is not
the newest one.

Old snapshots leave a table, and the files that only they needed with them.

The newest few stay, so that whoever reads one goes on reading; so does every snapshot
that a branch or tag names. Files go once no metadata names them, never before: from
snapshots that leave, whoever wrote them, and among files named as ours also what a
checkout that died left behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import ConcurrentChangeError, HavasuError, StateError
from havasu_vc.formats.iceberg.values import (
    MAIN,
    Flavour,
    LogEntry,
    Reference,
    Snapshot,
    Status,
    TableMetadata,
)
from havasu_vc.records import dataclass
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import METADATA, Table
from havasu_vc.workspace.draft import TableDraft
from havasu_vc.workspace.in_folder import FolderPlace
from havasu_vc.workspace.places import TablePlace
from havasu_vc.workspace.properties import BASE, checked_out_properties, is_untouched
from havasu_vc.workspace.relocating import show_to_duckdb
from havasu_vc.workspace.state import RefState, TableState

__all__ = [
    "DEFAULT",
    "Checkout",
    "OtherRef",
    "expired",
    "forget_metadata",
    "materialise",
    "remove_unneeded",
]

DEFAULT = Flavour.ICEBERG
"""The form that every engine reads; what Havasu's readers need besides are properties."""


@dataclass(frozen=True, slots=True)
class OtherRef:
    """A branch or tag of git to show in the table beside what is checked out."""

    view: HavasuDataset
    """The dataset there."""
    commit: str
    """Where it is."""
    tree: str
    """The dataset's internals there."""
    is_tag: bool = False
    """Whether it is a tag."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """A table that is to be checked out, and how."""

    commit: str
    """The git commit that the dataset is of."""
    tree: str
    """The tree of its internals there."""
    flavour: Flavour | None = None
    """The readers that it is written for; None for all of them."""
    copy: bool = False
    """Whether files are copied rather than linked."""
    keep: int = 10
    """How many snapshots stay."""
    refs: Mapping[str, OtherRef] = field(default_factory=dict)
    """Other branches and tags, by name."""
    clustered: str | None = None
    """The tree of the clustered version that is shown in place of the dataset's own files."""


def materialise(
    view: HavasuDataset,
    place: TablePlace,
    checkout: Checkout,
    *,
    previous: TableState | None = None,
    upon: int | None = None,
    far: HavasuDataset | None = None,
) -> TableState:
    """Make the table at a place show a dataset, and return what is there now.

    With `far`, the same dataset where its files are, what is deleted is read there.

    Whatever the table's current snapshot is, even one with edits, a snapshot of the
    dataset comes after it: the caller has asked whether edits may go, and of which version
    if `upon` names one. If others write to the table meanwhile, `ConcurrentChangeError` is
    raised and their version stands.
    """
    table = None if place.newest() is None else place.read()
    if table is not None:
        _require_same(table, view, place)
    if upon is not None and (table is None or table.version != upon):
        raise _overtaken(place)
    flavour = checkout.flavour or DEFAULT
    draft = TableDraft(
        place,
        None if table is None else _usable(table.metadata),
        flavour,
        copy=checkout.copy,
        batches=() if previous is None else previous.deletes,
    )
    refs: dict[str, RefState] = {}
    for name, ref in checkout.refs.items():
        draft.link(ref.view)
        shown = draft.show(ref.view, commit=ref.commit, tree=ref.tree)
        refs[name] = RefState(ref.commit, ref.tree, shown.snapshot_id)
    files = draft.link(view)
    snapshot = draft.show(
        far or view, commit=checkout.commit, tree=checkout.tree, clustered=checkout.clustered
    )
    version = 1 if table is None else table.version + 1
    metadata = replace(
        draft.made,
        last_updated_ms=draft.now,
        current_snapshot_id=snapshot.snapshot_id,
        references=_references(draft.made, snapshot, refs, checkout.refs, previous),
        snapshot_log=(*draft.made.snapshot_log, LogEntry(draft.now, snapshot.snapshot_id)),
        properties={
            **draft.made.properties,
            **checked_out_properties(view, flavour, version),
        },
    )
    metadata = expired(metadata, checkout.keep)
    published = place.publish(table, metadata, flavour)
    document = place.newest_document(published.version)
    if not is_untouched(place.read(published.version)):
        # A writer that found the name free renamed its own file to it right after.
        raise _overtaken(place)
    if isinstance(place, FolderPlace):
        show_to_duckdb(view, metadata, place.folder)
    if table is not None:
        remove_unneeded(place, table, published)
        forget_metadata(place, table, published)
    return TableState(
        view.path,
        checkout.commit,
        checkout.tree,
        snapshot.snapshot_id,
        published.version,
        flavour,
        files,
        draft.batches,
        refs,
        document,
        checkout.clustered,
    )


def _usable(metadata: TableMetadata) -> TableMetadata | None:
    """Return metadata to build upon: what Spark upgraded beyond version 2 cannot be."""
    return replace(metadata, format_version=2) if metadata.format_version <= 2 else None


def _overtaken(place: TablePlace) -> ConcurrentChangeError:
    return ConcurrentChangeError(
        f"another program changed the table at {place.location} at the same time",
        hints=("its edits are there; commit them, or try again",),
    )


def _require_same(table: Table, view: HavasuDataset, place: TablePlace) -> None:
    """Raise when the table is not one of this dataset at this place."""
    if table.metadata.table_uuid != view.properties.table_uuid:
        raise StateError(
            f"{place.location} holds a table that is not {view.path}",
            hints=("move it away, then check out again",),
        )
    if table.moved_from is not None:
        raise StateError(
            f"the table at {place.location} was made at {table.moved_from}",
            hints=("`havasu-vc checkout --relocate` makes it at home here",),
        )


def _references(
    metadata: TableMetadata,
    snapshot: Snapshot,
    refs: Mapping[str, RefState],
    asked: Mapping[str, OtherRef],
    previous: TableState | None,
) -> dict[str, Reference]:
    """Return the table's branches and tags: those of others stay, ours are as they are now."""
    ours = set() if previous is None else set(previous.refs)
    found = {
        name: reference
        for name, reference in metadata.references.items()
        if name not in ours and reference.snapshot_id in metadata.snapshots
    }
    for name, ref in refs.items():
        found[name] = Reference(ref.snapshot_id, "tag" if asked[name].is_tag else "branch")
    found[MAIN] = Reference(snapshot.snapshot_id)
    found[BASE] = Reference(snapshot.snapshot_id, "tag")
    return found


def expired(metadata: TableMetadata, keep: int) -> TableMetadata:
    """Return a table's metadata with no more than its newest snapshots and those with names."""
    named = {reference.snapshot_id for reference in metadata.references.values()}
    named.add(metadata.current_snapshot_id or 0)
    newest = sorted(
        metadata.snapshots.values(), key=lambda each: (each.sequence_number, each.timestamp_ms)
    )
    staying = named | {each.snapshot_id for each in newest[-max(keep, 1) :]}
    if staying.issuperset(metadata.snapshots):
        return metadata
    return replace(
        metadata,
        snapshots={number: s for number, s in metadata.snapshots.items() if number in staying},
        snapshot_log=_log(metadata.snapshot_log, staying),
    )


def _log(entries: Iterable[LogEntry], staying: set[int]) -> tuple[LogEntry, ...]:
    """Return the log since the last snapshot in it that left; before, it would have a hole."""
    found: list[LogEntry] = []
    for entry in entries:
        if entry.snapshot_id in staying:
            found.append(entry)
        else:
            found.clear()
    return tuple(found)


def remove_unneeded(place: TablePlace, old: Table, new: Table) -> int:
    """Remove what a table needed before some snapshots left it; return how many files.

    Nothing is removed where a document cannot be read: then it is not known what is needed.
    """
    gone = [
        snapshot
        for number, snapshot in old.metadata.snapshots.items()
        if number not in new.metadata.snapshots
    ]
    if not gone:
        return 0
    try:
        needed = set(_named(new, new.metadata.snapshots.values(), set()))
        unneeded = set(_named(old, gone, needed)) - needed
    except (HavasuError, OSError):
        return 0
    unneeded.update(place.abandoned(needed))
    place.discard(unneeded)
    return len(unneeded)


def _named(table: Table, snapshots: Iterable[Snapshot], passed: set[str]) -> Iterator[str]:
    """Yield the names of all that snapshots name, without looking into some manifests."""
    seen = set(passed)
    for snapshot in snapshots:
        if snapshot.manifest_list is not None:
            yield table.places.name(snapshot.manifest_list)
        for manifest in manifests_of(table, snapshot):
            name = table.places.name(manifest.path)
            if name in seen:
                continue
            seen.add(name)
            yield name
            for entry in read_manifest(table, manifest):
                if entry.status is Status.DELETED:
                    continue
                yield table.places.name(entry.file.path)


def forget_metadata(place: TablePlace, old: Table, new: Table) -> None:
    """Remove metadata files that have left the log."""
    logged = {entry.metadata_file for entry in new.metadata.metadata_log}
    folder = os.path.dirname(new.places.name(f"{new.metadata.location}/{METADATA}/x"))
    for entry in old.metadata.metadata_log:
        if entry.metadata_file not in logged:
            with suppress(HavasuError, OSError):
                name = new.places.name(entry.metadata_file)
                if os.path.dirname(name) == folder:
                    place.discard((name,))
