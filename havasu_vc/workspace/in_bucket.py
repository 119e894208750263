"""A dataset as a table in a bucket: its documents are made here, then sent.

A snapshot of the dataset is drafted in a folder of this machine, as for any checkout, and
written once more with locations in the bucket. It comes after whatever the table there has;
snapshots that are there stay. Data files are copied by the store itself where it has them
(they are not shared: what an engine expires must never be what commits name), else sent
from here after they were hashed. Everything is there before the metadata that names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.iceberg.values import (
    MAIN,
    DataFileContent,
    Flavour,
    LogEntry,
    ManifestEntry,
    ManifestFile,
    MetadataLogEntry,
    Reference,
    Snapshot,
    TableMetadata,
)
from havasu_vc.records import dataclass
from havasu_vc.store.short_lived import short_lived_folder
from havasu_vc.tables.bucket import THREADS, BucketTable
from havasu_vc.tables.positions import read_position_deletes, write_position_deletes
from havasu_vc.tables.publishing import write_manifest, write_manifest_list
from havasu_vc.tables.snapshots import manifests_of, read_manifest
from havasu_vc.tables.table import METADATA, Table
from havasu_vc.workspace.draft import TableDraft
from havasu_vc.workspace.materialise import Checkout, flavour_for
from havasu_vc.workspace.properties import BASE, checked_out_properties

__all__ = ["send_table"]

_MOST_LOGGED = 100


def send_table(
    view: HavasuDataset,
    place: BucketTable,
    there: Table | None,
    checkout: Checkout,
    *,
    data_url: str | None = None,
) -> int:
    """Make the table at a URL show a dataset, after the version `there`; return the new version.

    `data_url` is where data files of the repository are kept, which may be the same store.
    """
    flavour = flavour_for(view, checkout.flavour)
    known = None if there is None else there.metadata
    with short_lived_folder(view.storage.files.root / "staging") as folder:
        # Snapshots that are there are another machine's to read: the draft begins anew.
        before = None if known is None else replace(known, current_snapshot_id=None)
        drafted = folder / "draft"
        draft = TableDraft(drafted, before, flavour)
        drafted.joinpath("data").mkdir(parents=True)
        made = draft.show(view, commit=checkout.commit, tree=checkout.tree)
        writer = _Writer(draft.as_table(), place.url, folder / "sent", flavour)
        snapshot = replace(
            writer.snapshot(made), parent_id=None if known is None else known.current_snapshot_id
        )
        version = 1 if there is None else there.version + 1
        metadata = _metadata(draft.made, there, snapshot, place.url)
        properties = checked_out_properties(view, flavour, version)
        metadata = replace(
            metadata, last_updated_ms=draft.now, properties={**metadata.properties, **properties}
        )
        _send_data(view, place, data_url)
        _send_all(place, writer.sent)
        place.publish(metadata, version, flavour)
    return version


def _metadata(
    made: TableMetadata, there: Table | None, snapshot: Snapshot, url: str
) -> TableMetadata:
    """Return the metadata of the table at its URL, with one snapshot more."""
    known = None if there is None else there.metadata
    snapshots = dict(known.snapshots) if known is not None else {}
    snapshots[snapshot.snapshot_id] = snapshot
    log: tuple[MetadataLogEntry, ...] = ()
    if there is not None and known is not None:
        past = f"{url}/{METADATA}/{there.metadata_file.name}"
        log = (*known.metadata_log, MetadataLogEntry(known.last_updated_ms, past))[-_MOST_LOGGED:]
    references = dict(known.references) if known is not None else {}
    references[MAIN] = Reference(snapshot.snapshot_id)
    references[BASE] = Reference(snapshot.snapshot_id, "tag")
    moments = () if known is None else known.snapshot_log
    return replace(
        made,
        location=url,
        current_snapshot_id=snapshot.snapshot_id,
        snapshots=snapshots,
        references=references,
        snapshot_log=(*moments, LogEntry(snapshot.timestamp_ms, snapshot.snapshot_id)),
        metadata_log=log,
    )


@dataclass
class _Writer:
    """Writes the documents of a drafted snapshot with locations in a bucket."""

    table: Table
    """The draft."""
    url: str
    """Where the table will be."""
    folder: Path
    """Where documents are written until they are sent."""
    flavour: Flavour
    sent: list[tuple[Path, str]] = field(default_factory=list)
    """What is to be sent, and how it is called there."""

    def snapshot(self, drafted: Snapshot) -> Snapshot:
        """Return a snapshot as it is in the bucket."""
        bare = replace(drafted, manifest_list=None, manifests=())
        manifests = [self._manifest(each, bare) for each in manifests_of(self.table, drafted)]
        listed = write_manifest_list(self.folder, manifests, bare)
        return replace(bare, manifest_list=self._document(listed))

    def _manifest(self, manifest: ManifestFile, snapshot: Snapshot) -> ManifestFile:
        entries = [self._entry(each) for each in read_manifest(self.table, manifest)]
        written = write_manifest(
            self.folder,
            entries,
            self.table.metadata,
            spec_id=manifest.spec_id,
            snapshot=snapshot,
            flavour=self.flavour,
        )
        return replace(written, path=self._document(Path(written.path)))

    def _entry(self, entry: ManifestEntry) -> ManifestEntry:
        file = entry.file
        if file.content is not DataFileContent.POSITION_DELETES:
            return replace(entry, file=replace(file, path=self._location(file.path)))
        deletes = {
            self._location(path): positions
            for path, positions in read_position_deletes(Path(file.path)).items()
        }
        made = write_position_deletes(self.folder / "data", deletes, partition=dict(file.partition))
        name = f"data/{Path(made.path).name}"
        self.sent.append((Path(made.path), name))
        return replace(entry, file=replace(made, path=f"{self.url}/{name}"))

    def _location(self, path: str) -> str:
        return self.url + path.removeprefix(str(self.table.location))

    def _document(self, path: Path) -> str:
        name = f"{METADATA}/{path.name}"
        self.sent.append((path, name))
        return f"{self.url}/{name}"


def _send_all(place: BucketTable, files: Sequence[tuple[Path, str]]) -> None:
    with ThreadPoolExecutor(THREADS, thread_name_prefix="havasu-vc-table") as pool:
        for _ in pool.map(lambda each: place.send(*each), files):
            pass


def _send_data(view: HavasuDataset, place: BucketTable, data_url: str | None) -> None:
    """Have the table's data files in its folder, each under the name of its content."""
    there = dict(place.files("data"))
    wanted = [e for e in view.data_entries if there.get(f"{e.file}.parquet") != e.size]

    def copied(entry: Entry) -> bool:
        if data_url is None:
            return False
        parts = urlsplit(data_url)
        path = f"{parts.path.rstrip('/')}/objects/{entry.file[:2]}/{entry.file[2:4]}/{entry.file}"
        source = urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
        return place.copy_from(source, f"data/{entry.file}.parquet", entry.size)

    def sent(entry: Entry) -> None:
        if view.storage.files.has(entry.file):
            view.storage.files.verify(entry.file)
        place.send(Path(view.file_path(entry)), f"data/{entry.file}.parquet")

    with ThreadPoolExecutor(THREADS, thread_name_prefix="havasu-vc-table") as pool:
        done = list(pool.map(copied, wanted))
        left = [entry for entry, there_now in zip(wanted, done, strict=True) if not there_now]
        view.bring(left)
        for _ in pool.map(sent, left):
            pass
