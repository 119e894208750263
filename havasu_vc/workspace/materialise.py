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
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property

from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.errors import ConcurrentChangeError, HavasuError, StateError
from havasu_vc.formats.iceberg.values import (
    MAIN,
    Flavour,
    LogEntry,
    ManifestContent,
    Reference,
    Snapshot,
    Status,
    TableMetadata,
)
from havasu_vc.records import dataclass
from havasu_vc.store.ending import last_step
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import METADATA, Table, TableFolders
from havasu_vc.workspace.in_folder import FolderPlace
from havasu_vc.workspace.numbering import Numbered, last_column_id, number_layouts, share_ids
from havasu_vc.workspace.places import TablePlace
from havasu_vc.workspace.properties import (
    BASE,
    CLUSTERED,
    COMMENT,
    COMMIT,
    FLAVOUR,
    TREE,
    checked_out_properties,
    is_untouched,
)
from havasu_vc.workspace.relocating import show_to_duckdb
from havasu_vc.workspace.snapshots import SnapshotParts
from havasu_vc.workspace.state import DeleteBatch, FileIdentity, RefState, TableState

__all__ = [
    "DEFAULT",
    "Checkout",
    "OtherRef",
    "TableDraft",
    "expired",
    "forget_metadata",
    "materialise",
    "remove_unneeded",
    "show_as_edits",
]

DEFAULT = Flavour.ICEBERG
"""The form that every engine reads; what Havasu's readers need besides are properties."""


@dataclass(frozen=True, slots=True)
class OtherRef:
    """A branch or tag of git to show in the table beside what is checked out."""

    view: DatasetInFiles
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
    view: DatasetInFiles,
    place: TablePlace,
    checkout: Checkout,
    *,
    previous: TableState | None = None,
    upon: int | None = None,
    far: DatasetInFiles | None = None,
) -> TableState:
    """Make the table at a place show a dataset, and return what is there now.

    With `far`, the same dataset where its files are, what is deleted is read there, and what
    is copied.

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
    refs = draft.show_refs(checkout.refs)
    files = draft.link((far or view) if checkout.copy else view)
    snapshot = draft.show(
        far or view, commit=checkout.commit, tree=checkout.tree, clustered=checkout.clustered
    )
    version = 1 if table is None else table.version + 1
    metadata = draft.at(
        snapshot,
        _references(draft.made, snapshot, refs, checkout.refs, previous),
        checked_out_properties(view, flavour, version),
    )
    metadata = expired(metadata, checkout.keep)
    published, document = _publish(place, table, metadata, flavour, far or view)
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


@last_step()
def _publish(
    place: TablePlace,
    table: Table | None,
    metadata: TableMetadata,
    flavour: Flavour,
    view: DatasetInFiles,
) -> tuple[Table, FileIdentity | None]:
    """Make metadata the newest of a table, and return the table and its document then."""
    published = place.publish(table, metadata, flavour)
    document = place.newest_document(published.version)
    if not is_untouched(place.read(published.version)):
        # A writer that found the name free renamed its own file to it right after.
        raise _overtaken(place)
    if table is not None:
        remove_unneeded(place, table, published)
        forget_metadata(place, table, published)
    if isinstance(place, FolderPlace):
        show_to_duckdb(view, metadata, place.folder)
    return published, document


def _usable(metadata: TableMetadata) -> TableMetadata | None:
    """Return metadata to build upon: what Spark upgraded beyond version 2 cannot be.

    Manifests of specs that share ids of fields stay wrong whatever the metadata says, so no
    snapshot that names them stays.
    """
    if metadata.format_version > 2:
        return None
    if share_ids(metadata.partition_specs):
        metadata = replace(
            metadata,
            partition_specs={},
            current_snapshot_id=None,
            snapshots={},
            references={},
            snapshot_log=(),
        )
    return replace(metadata, format_version=2)


def _overtaken(place: TablePlace) -> ConcurrentChangeError:
    return ConcurrentChangeError(
        f"another program changed the table at {place.location} at the same time",
        hints=("its edits are there; commit them, or try again",),
    )


def _require_same(table: Table, view: DatasetInFiles, place: TablePlace) -> None:
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


# The next version of a table, built up beside the one that is there.
#
# A draft adds snapshots of datasets, or finds those that are still there. Data files are
# linked and documents written as it goes; nobody sees them until the metadata that the
# draft ends in is published, and a draft that is given up leaves files that the next
# one takes over or that expire.


class TableDraft:
    """A table's next version in the making."""

    def __init__(
        self,
        place: TablePlace,
        metadata: TableMetadata | None,
        flavour: Flavour,
        *,
        copy: bool = False,
        batches: tuple[DeleteBatch, ...] = (),
    ) -> None:
        self.place = place
        """Where the table is."""
        self.metadata = metadata
        """The metadata to come; None before the first snapshot of a new table."""
        self.flavour = flavour
        """The engine that it is written for."""
        self.batches = batches
        """The delete files that were written so far, as far as they are known."""
        self._copy = copy
        self._now = max(
            int(time.time() * 1000), 0 if metadata is None else metadata.last_updated_ms + 1
        )

    @property
    def made(self) -> TableMetadata:
        """The metadata, once there is some."""
        if self.metadata is None:
            raise ValueError("a draft without a snapshot has no metadata")
        return self.metadata

    def link(self, view: DatasetInFiles) -> Mapping[str, FileIdentity]:
        """Put the data files of a dataset into the table; those that are there stay."""
        return self.place.put(view, copy=self._copy)

    def at(
        self,
        snapshot: Snapshot,
        references: Mapping[str, Reference],
        properties: Mapping[str, str],
    ) -> TableMetadata:
        """Return the metadata whose current snapshot is one of those that were added."""
        log = LogEntry(self.now, snapshot.snapshot_id)
        others = {name: text for name, text in self.made.properties.items() if name != COMMENT}
        return replace(
            self.made,
            last_updated_ms=self.now,
            current_snapshot_id=snapshot.snapshot_id,
            references=references,
            snapshot_log=(*self.made.snapshot_log, log),
            properties={**others, **properties},
        )

    def show_refs(self, others: Mapping[str, OtherRef]) -> dict[str, RefState]:
        """Add snapshots of other branches and tags, and return which one each shows."""
        refs: dict[str, RefState] = {}
        for name, ref in others.items():
            self.link(ref.view)
            shown = self.show(ref.view, commit=ref.commit, tree=ref.tree)
            refs[name] = RefState(ref.commit, ref.tree, shown.snapshot_id)
        return refs

    def show(
        self, view: DatasetInFiles, *, commit: str, tree: str, clustered: str | None = None
    ) -> Snapshot:
        """Return a snapshot of a dataset: one that is there, or a new one. Its files are linked."""
        numbered = number_layouts(view, self.metadata)
        self._describe(view, numbered)
        found = self._there(tree, clustered)
        if found is not None:
            return found
        made = self.made
        parts = SnapshotParts(
            self.as_table(),
            self.numbered,
            self.flavour,
            self._now,
            complete=made.properties.get(FLAVOUR) == self.flavour.value,
        )
        origin = {COMMIT: commit, TREE: tree}
        if clustered is not None:
            origin[CLUSTERED] = clustered
        snapshot, self.batches = parts.write(view, origin, self.batches)
        self.metadata = replace(
            made,
            last_sequence_number=snapshot.sequence_number,
            snapshots={**made.snapshots, snapshot.snapshot_id: snapshot},
        )
        return snapshot

    @property
    def now(self) -> int:
        """When this draft was begun, in milliseconds; later than the version before it."""
        return self._now

    def _describe(self, view: DatasetInFiles, numbered: Numbered) -> None:
        """Bring schemas, specs and orders up to a dataset."""
        known = self.metadata
        last = last_column_id(view, known)
        fields = [field.field_id for spec in numbered.specs.values() for field in spec.fields]
        layouts = {
            "schemas": numbered.schemas,
            "current_schema_id": numbered.schema_id,
            "partition_specs": numbered.specs,
            "default_spec_id": numbered.spec_id,
            "sort_orders": numbered.orders,
            "default_sort_order_id": numbered.order_id,
            "last_column_id": last,
            "last_partition_id": max([999, *fields]),
        }
        if known is None:
            made = TableMetadata(
                view.properties.table_uuid,
                self.place.location,
                self._now,
                **layouts,  # type: ignore[arg-type]
            )
        else:
            layouts["last_partition_id"] = max([known.last_partition_id, *fields])
            made = replace(known, **layouts)  # type: ignore[arg-type]
        self.metadata = made
        self.numbered = numbered

    def _there(self, tree: str, clustered: str | None) -> Snapshot | None:
        """Return the newest snapshot of a tree whose manifest list is still there."""
        wanted = (tree, clustered, self.flavour.value)
        for snapshot in reversed(list(self.made.snapshots.values())):
            summary = snapshot.summary
            found = (summary.get(TREE), summary.get(CLUSTERED), summary.get(FLAVOUR))
            if found == wanted and self._is_complete(snapshot):
                return snapshot
        return None

    def _is_complete(self, snapshot: Snapshot) -> bool:
        """Whether all that only a table has of a snapshot is there; data files are linked anew."""
        table = self.as_table()
        try:
            manifests = manifests_of(table, snapshot)
            made = [
                entry.file.path
                for manifest in manifests
                if manifest.content is ManifestContent.DELETES
                for entry in read_manifest(table, manifest)
                if entry.status is not Status.DELETED
            ]
        except (HavasuError, OSError):
            return False
        return all(map(table.places.has, (*made, *(m.path for m in manifests))))

    @cached_property
    def places(self) -> TableFolders:
        """Where files of the table may be."""
        return self.place.places

    def as_table(self) -> Table:
        """Return the draft as if it were published, to read its snapshots."""
        return Table(self.place.folder, 0, self.made, self.place.folder, self.places)


# A table made to show rows that are not checked out: to its readers, edits like any other.
#
# What is checked out stays so: the tag of its snapshot, and what the workspace knows of it.
# So rows that were set aside come back as edits that are not committed.


def show_as_edits(
    view: DatasetInFiles,
    place: TablePlace,
    known: TableState,
    *,
    commit: str,
    tree: str,
    clustered: str | None = None,
    copy: bool = False,
) -> Table:
    """Make a checked-out table show a version of its dataset, and return the table."""
    table = place.read()
    draft = TableDraft(place, table.metadata, known.flavour, copy=copy, batches=known.deletes)
    draft.link(view)
    snapshot = draft.show(view, commit=commit, tree=tree, clustered=clustered)
    metadata = replace(
        draft.made,
        last_updated_ms=draft.now,
        current_snapshot_id=snapshot.snapshot_id,
        references={**draft.made.references, MAIN: Reference(snapshot.snapshot_id)},
        snapshot_log=(*draft.made.snapshot_log, LogEntry(draft.now, snapshot.snapshot_id)),
    )
    return place.publish(table, metadata, known.flavour)
