"""Manifests of a dataset's versions: what a snapshot names, written once and never changed.

    <data folder>/catalog/<table>/metadata/…    manifests and lists, named by their content
    <data folder>/catalog/<table>/data/…        position deletes, made of the dataset's

Data files are named where they are, in the store. What a version has in common with the one
before it stands in manifests of some hundred files each, which follow from the files alone and
so serve every version that has them; what comes and goes is in one of its own. A commit of one
file writes three manifests, however many files there are.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from havasu_vc.datasets.havasu.native_types import native_types
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import PartitionSpec, SortOrder, format_partition
from havasu_vc.formats.havasu.schema import format_schema
from havasu_vc.formats.iceberg.entries import data_file_of
from havasu_vc.formats.iceberg.metadata import corner_of
from havasu_vc.formats.iceberg.native_geometry import NativeTypes
from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    Flavour,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Snapshot,
    Status,
    TableMetadata,
)
from havasu_vc.records import dataclass
from havasu_vc.serving.forms import TableForm, plain_schema
from havasu_vc.serving.remembering import Remembered
from havasu_vc.serving.shared_place import SharedPlace
from havasu_vc.store.object_urls import is_url
from havasu_vc.tables.publishing import write_manifest, write_manifest_list
from havasu_vc.tables.table import local_path, location_of
from havasu_vc.workspace.numbering import past_spec
from havasu_vc.workspace.position_deletes import write_batch
from havasu_vc.workspace.snapshots import DATA_SEQUENCE, summary_of, totals

__all__ = ["Documents", "Layout", "ShownVersion", "number_of"]

LOCAL = "file://"
"""Before a path of this machine, in locations that clients are told: Trino takes no bare paths."""
GROUP = 256
"""So many files or fewer stand in one manifest."""
_REMEMBERED = 4096
_MOST_KNOWN = 200_000
_BEFORE = 1
"""The snapshot that is said to have brought what a version has in common with the one before."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How one version of a dataset is laid out, with numbers that follow from what they name."""

    schema_id: int
    """The number of the dataset's schema."""
    specs: Mapping[str, int]
    """The numbers of partition specs, by the name that entries give them."""
    metadata: TableMetadata
    """A table's metadata that has just these."""
    types: NativeTypes
    """Types that version 3 gives columns otherwise than the schema does."""
    flavour: Flavour
    """Which readers it is for."""

    @property
    def specs_key(self) -> tuple[tuple[str, int], ...]:
        """The numbers of specs, to tell what was made of others."""
        return tuple(sorted(self.specs.items()))

    def spec_of(self, entry: Entry) -> PartitionSpec:
        """Return the spec that a file was written with."""
        return self.metadata.partition_specs[self.specs[entry.partition_spec]]


@dataclass(frozen=True, slots=True)
class _Known:
    """The memory of a file of a dataset, so that its delta is parsed once."""

    deletes: bool
    spec: str
    schema: str
    rows: int
    size: int


def _layout_of(view: DatasetInFiles, known: Collection[_Known], form: TableForm) -> Layout:
    """Return the layout of a version in a form."""
    types = native_types(view) if form.native else {}
    schema = plain_schema(view.schema, types)
    schema_id = number_of(document_hash(format_schema(view.schema)))
    names = {view.layout.partition_hash, *(each.spec for each in known if not each.deletes)}
    specs: dict[int, PartitionSpec] = {}
    numbers: dict[str, int] = {}
    for name in sorted(names):
        spec = past_spec(view, name)
        numbers[name] = number_of(document_hash(format_partition(spec))) if spec.fields else 0
        specs[numbers[name]] = PartitionSpec(spec.fields, numbers[name])
    fields = [part.field_id for spec in specs.values() for part in spec.fields]
    metadata = TableMetadata(
        view.properties.table_uuid,
        "",
        0,
        view.last_id_of({each.schema for each in known}),
        {schema_id: schema},
        schema_id,
        specs,
        numbers[view.layout.partition_hash],
        {0: SortOrder()},
        0,
        max([999, *fields]),
        3 if types else 2,
    )
    return Layout(schema_id, numbers, metadata, types, form.flavour)


def number_of(name: str) -> int:
    """Return a number that follows from what it names; clients count on from the highest."""
    return 1 + int(hashlib.sha256(name.encode()).hexdigest()[:6], 16)


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """A version as a snapshot shows it, but for what its place in history says."""

    manifest_list: str
    """Where its manifests are listed."""
    summary: Mapping[str, str]
    """The counts of its summary."""
    layout: Layout
    """How it is laid out."""
    rows: int
    """The rows of its data files."""
    files: tuple[str, ...]
    """All that was written for it."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Manifests of files that stay."""

    manifests: tuple[ManifestFile, ...]
    """The manifests."""
    deletes: tuple[str, ...]
    """The delete files that they name."""


class Documents:
    """Writes the documents of one repository's versions, and remembers what it wrote."""

    def __init__(self, root: Path) -> None:
        self.root = root
        """The folder of all tables' documents."""
        self.shared: SharedPlace | None = None
        """The bucket where clients see documents; None where they see the folder."""
        self._manifests: Remembered[object, _Group] = Remembered(_REMEMBERED)
        self._known: Remembered[str, _Known] = Remembered(_MOST_KNOWN)
        self.deletes: Remembered[object, tuple[tuple[int, DataFile], ...]] = Remembered(_REMEMBERED)
        """The position deletes that were written, by what they are of."""

    def forget(self) -> None:
        """Take nothing for written any more."""
        self._manifests.forget()
        self.deletes.forget()

    def folder(self, view: DatasetInFiles) -> Path:
        """Return where the documents of a dataset are, whatever its uuid looks like."""
        name = hashlib.sha256(view.properties.table_uuid.encode()).hexdigest()[:32]
        return self.root / name

    def show(
        self,
        view: DatasetInFiles,
        before: DatasetInFiles | None,
        snapshot: Snapshot,
        form: TableForm,
    ) -> ShownVersion:
        """Have the documents of a version there, and return what leads to them.

        `before` is the version before it, which the snapshot's parent shows.
        """
        folder = self.folder(view)
        now = _Files(view, self.known(view), folder, form, self)
        old = None
        if before is not None:
            old = _Files(before, self.known(before), folder, form, self)
        came = list(now.without(old))
        gone = [] if old is None else list(old.without(now))
        changed = [
            *(self._entry(Status.ADDED, spec, file, snapshot) for spec, file in came),
            *(self._entry(Status.DELETED, spec, file, snapshot) for spec, file in gone),
        ]
        manifests = self._changed(changed, now.layout, snapshot, folder)
        deletes = [entry.file.path for _, entry in changed if entry.file.content]
        if old is not None:
            for group in self._staying(now, now.common(old), folder):
                manifests += group.manifests
                deletes += group.deletes
        version = now.layout.metadata.format_version
        if version > 2:
            manifests = with_row_ids(manifests)
        listed = write_manifest_list(folder, manifests, snapshot, format_version=version)
        counts = summary_of([entry for _, entry in changed], manifests)
        data = [each for each in now.known.values() if not each.deletes]
        rows, size = sum(each.rows for each in data), sum(each.size for each in data)
        summary = {**counts, **totals(rows, len(data), size)}
        files = (str(listed), *map(self.here, (*(each.path for each in manifests), *deletes)))
        return ShownVersion(self.spell(listed), summary, now.layout, rows, files)

    def spell(self, path: Path | str) -> str:
        """Return the location of a file or folder that clients are told of."""
        if self.shared is not None:
            return self.shared.spell(path)
        location = location_of(Path(path))
        return location if location.startswith(LOCAL) else f"{LOCAL}{location}"

    def here(self, location: str) -> str:
        """Return the path of what has a location."""
        found = None if self.shared is None else self.shared.here(location)
        return local_path(location.removeprefix(LOCAL)) if found is None else str(found)

    def spelled(self, manifest: ManifestFile) -> ManifestFile:
        """Return a manifest that was written under the name that clients are told."""
        return replace(manifest, path=self.spell(manifest.path))

    def known(self, view: DatasetInFiles) -> dict[str, _Known]:
        """Return what is to be known of the files of a version, by sha256."""
        found, entries = {}, view.entries
        for name in entries:
            known = self._known.get(name)
            if known is None:
                entry = entries[name]
                deletes = entry.content is Content.DELETES
                spec, schema = sys.intern(entry.partition_spec), sys.intern(entry.schema)
                known = _Known(deletes, spec, schema, entry.rows, entry.size)
                self._known.put(name, known)
            found[name] = known
        return found

    def _entry(
        self, status: Status, spec_id: int, file: DataFile, snapshot: Snapshot
    ) -> tuple[int, ManifestEntry]:
        number = snapshot.sequence_number
        data = file.content is DataFileContent.DATA
        first = DATA_SEQUENCE if data or status is Status.DELETED else number
        return spec_id, ManifestEntry(status, file, snapshot.snapshot_id, first, first)

    def _changed(
        self,
        entries: Sequence[tuple[int, ManifestEntry]],
        layout: Layout,
        snapshot: Snapshot,
        folder: Path,
    ) -> list[ManifestFile]:
        groups: dict[tuple[bool, int], list[ManifestEntry]] = {}
        for spec_id, entry in entries:
            data = entry.file.content is DataFileContent.DATA
            groups.setdefault((not data, spec_id), []).append(entry)
        return [
            self.spelled(_written(folder, members, layout, spec_id, snapshot))
            for (_, spec_id), members in sorted(groups.items())
        ]

    def _staying(self, files: _Files, names: Iterable[str], folder: Path) -> list[_Group]:
        groups: dict[tuple[bool, int], list[str]] = {}
        for name in names:
            each = files.known[name]
            spec_id = 0 if each.deletes else files.layout.specs[each.spec]
            groups.setdefault((each.deletes, spec_id), []).append(name)
        found = []
        for _, members in sorted(groups.items()):
            bits = max(len(members) // GROUP, 1).bit_length() - 1
            parts: dict[int, list[str]] = {}
            for name in sorted(members):
                parts.setdefault(int(name[:8], 16) >> (32 - bits), []).append(name)
            found += [self._group(files, part, folder) for part in parts.values()]
        return found

    def _group(self, files: _Files, names: list[str], folder: Path) -> _Group:
        """Return the manifests of files that stay, which follow from these alone."""
        layout = files.layout
        told = hashlib.sha256("".join(names).encode()).digest()
        key = (told, layout.schema_id, layout.specs_key, layout.flavour, bool(layout.types), folder)

        def make() -> _Group:
            groups: dict[int, list[ManifestEntry]] = {}
            for name in names:
                for spec_id, file in files.described(name):
                    entry = ManifestEntry(
                        Status.EXISTING, file, _BEFORE, DATA_SEQUENCE, DATA_SEQUENCE
                    )
                    groups.setdefault(spec_id, []).append(entry)
            snapshot = Snapshot(_BEFORE, DATA_SEQUENCE, 0, None)
            manifests = tuple(
                self.spelled(_written(folder, members, layout, spec_id, snapshot))
                for spec_id, members in sorted(groups.items())
            )
            named = (entry.file for members in groups.values() for entry in members)
            return _Group(manifests, tuple(file.path for file in named if file.content))

        return self._manifests.made(key, make)


def _written(
    folder: Path,
    entries: Sequence[ManifestEntry],
    layout: Layout,
    spec_id: int,
    snapshot: Snapshot,
) -> ManifestFile:
    return write_manifest(
        folder,
        entries,
        layout.metadata,
        spec_id=spec_id,
        snapshot=snapshot,
        flavour=layout.flavour,
        types=layout.types,
    )


def with_row_ids(manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
    """Return manifests as version 3 lists them: each says which rows its data files begin at."""
    found, first = [], 0
    for each in manifests:
        if each.content is ManifestContent.DATA:
            each = replace(each, first_row_id=first)
            first += (each.added_rows or 0) + (each.existing_rows or 0)
        found.append(each)
    return found


class _Files:
    """The files of one version, and how manifests describe them."""

    def __init__(
        self,
        view: DatasetInFiles,
        known: dict[str, _Known],
        folder: Path,
        form: TableForm,
        documents: Documents,
    ) -> None:
        self.known = known
        self.layout = _layout_of(view, known.values(), form)
        self._entries = view.entries
        self._view, self._folder = view, folder
        self._documents = documents
        self._objects = os.fspath(view.storage.files.objects)

    def common(self, other: _Files) -> Iterable[str]:
        """Yield the files that both versions have."""
        return self.known.keys() & other.known.keys()

    def without(self, other: _Files | None) -> Iterable[tuple[int, DataFile]]:
        """Yield the files that the other version has not, with their specs."""
        for name in sorted(self.known.keys() - (set() if other is None else other.known.keys())):
            yield from self.described(name)

    def described(self, name: str) -> Sequence[tuple[int, DataFile]]:
        """Return the files that stand for one of ours, each with its spec."""
        entry = self._entries[name]
        if entry.content is Content.DATA:
            return (self._data(entry),)
        key = (name, self.layout.specs_key, self._folder)
        return self._documents.deletes.made(key, lambda: self._position_deletes(entry))

    def _position_deletes(self, entry: Entry) -> tuple[tuple[int, DataFile], ...]:
        folder = self._folder / "data"
        _, files = write_batch(self._view, (entry,), folder, self._data, self._documents.spell)
        return tuple(files)

    def _data(self, entry: Entry) -> tuple[int, DataFile]:
        spec = self.layout.spec_of(entry)
        path = entry.location if entry.location is not None else self._place(entry.file)
        path = path.partition("?")[0] if is_url(path) else path  # ours tell where the server is
        flavour, types = self.layout.flavour, self.layout.types
        file = data_file_of(entry, path, schema=self._view.schema, spec=spec, flavour=flavour)
        boxes = {n: box for n, box in entry.bounds.items() if n in types and box.finite}
        if boxes:
            lower = {n: corner_of(box.xmin, box.ymin) for n, box in boxes.items()}
            upper = {n: corner_of(box.xmax, box.ymax) for n, box in boxes.items()}
            file = replace(
                file,
                lower_bounds={**(file.lower_bounds or {}), **lower},
                upper_bounds={**(file.upper_bounds or {}), **upper},
            )
        return spec.spec_id, file

    def _place(self, file: str) -> str:
        """Return where a data file is; most are in the store, which is quickly seen."""
        shared = self._documents.shared
        if shared is not None:
            return shared.spell_data(file)
        stored = f"{self._objects}/{file[:2]}/{file[2:4]}/{file}"
        place = stored if os.path.isfile(stored) else self._view.place(file)
        return place if is_url(place) else f"{LOCAL}{place}"
