"""A table's metadata, derived from git alone: equal for equal history, whoever derives it.

The snapshots are the versions of the dataset on the branch, so a client's time travel is git's.
Ids of snapshots and numbers of schemas follow from what they name; the last column id lies some
way above the highest, by the table and the branch, so that columns which two branches add rarely
share an id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from havasu_vc.checkouts import table_view
from havasu_vc.datasets.havasu.far import far_dataset, url_of
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles
from havasu_vc.formats.iceberg.metadata import format_metadata, format_metadata_3
from havasu_vc.formats.iceberg.values import (
    MAIN,
    LogEntry,
    Reference,
    Snapshot,
    TableMetadata,
)
from havasu_vc.model.evolution import BLOCK
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.documents import Documents, Layout, ShownVersion
from havasu_vc.serving.forms import TableForm
from havasu_vc.serving.history import MOST, Version, VersionHistory
from havasu_vc.serving.messages import facts_of
from havasu_vc.serving.remembering import MOST_BYTES, Remembered, Wanted
from havasu_vc.serving.shared_place import SharedPlace
from havasu_vc.sharing import far_place
from havasu_vc.store.disk import replace_file
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.workspace.properties import COMMIT, DATASET, FLAVOUR, TREE, dataset_properties

__all__ = ["LoadedTable", "TableMaker", "in_time", "plain", "snapshot_id_of", "told_of"]

AUTHOR = "havasu-vc.author"
"""Of a snapshot: who made the commit."""
MESSAGE = "havasu-vc.message"
"""Of a snapshot: the commit's message."""
_LONGEST = 2000
_MOST_BYTES = 64 << 20
_MOST_SHOWN = 4096


@dataclass(frozen=True, slots=True)
class LoadedTable:
    """A dataset at a ref, as clients load it."""

    path: str
    """The dataset."""
    versions: tuple[Version, ...]
    """The versions of its snapshots, newest first."""
    metadata: TableMetadata
    """The metadata as a value."""
    document: bytes
    """The same as JSON."""
    location: str
    """Where the metadata is said to be; it changes with every commit."""
    staging: Path
    """Where clients write: the table's location."""
    tag: str
    """A tag that tells it from what the table was or will be."""
    place: str | None
    """The bucket that data files are in which are not here."""
    files: tuple[str, ...]
    """All documents that it leads to."""


def snapshot_id_of(path: str, version: Version) -> int:
    """Return the id of the snapshot that shows a version."""
    text = f"{path}\0{version.tree}\0{version.commit.id}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8]) >> 2 | 1


class TableMaker:
    """Makes the metadata of a repository's tables, and remembers what it made."""

    def __init__(self, root: Path, most: int = MOST_BYTES) -> None:
        """Write documents below a folder, and keep about so many bytes of them."""
        self.wanted = Wanted(root, most)
        """Sees to it that what clients are told of is there."""
        self.documents = Documents(root / "tables")
        self.root = root
        self.history = VersionHistory()
        self._places: Remembered[str, tuple[str | None]] = Remembered(1)
        self._shown: Remembered[object, ShownVersion] = Remembered(_MOST_SHOWN)
        self._loaded: Remembered[object, LoadedTable] = Remembered(
            _MOST_BYTES, lambda table: 4 * len(table.document)
        )

    def load(
        self, repo: OpenRepo, path: str, commit: str, *, branch: str | None, form: TableForm
    ) -> LoadedTable | None:
        """Return a dataset at a commit as a table; None where there is none."""
        versions = self.history.versions(repo, commit, path)
        if not versions:
            return None
        key = (path, versions[0].commit.id, branch, form)

        def make() -> LoadedTable:
            return self._made(repo, path, versions, branch=branch, form=form)

        return self.wanted.told(lambda: self._loaded.made(key, make), self._forget)

    def share(self, place: SharedPlace) -> None:
        """Have documents in a bucket, where clients see them."""
        self.documents.shared = self.wanted.shared = place

    def _staging(self, view: DatasetInFiles) -> Path:
        """Return where clients write files of a table, as this machine sees it."""
        return self.root / "staging" / self.documents.folder(view).name

    def _forget(self) -> None:
        """Take nothing for written any more."""
        for each in (self._loaded, self._shown, self.documents):
            each.forget()

    def view(self, repo: OpenRepo, path: str, version: Version) -> DatasetInFiles:
        """Return the dataset that a version's snapshot shows."""
        folder = DatasetFolder(path, version.marker, version.tree, version.tree)
        return self._within_reach(repo, table_view(repo, folder, version.commit.id[:10]))

    def stored(self, repo: OpenRepo, path: str, version: Version) -> Dataset:
        """Return the dataset of a version as it is stored, whatever its kind."""
        folder = DatasetFolder(path, version.marker, version.tree, version.tree)
        view = repo.view(folder, version.commit.id[:10])
        files = view.in_files
        return view if files is None else self._within_reach(repo, files)

    def _within_reach(self, repo: OpenRepo, view: DatasetInFiles) -> DatasetInFiles:
        """Return a view that finds its data files where they are."""
        place = self._places.made(str(repo.git.git_directory), lambda: (far_place(repo),))[0]
        return far_dataset(view, place) or view

    def _made(
        self,
        repo: OpenRepo,
        path: str,
        versions: tuple[Version, ...],
        *,
        branch: str | None,
        form: TableForm,
    ) -> LoadedTable:
        view = self.view(repo, path, versions[0])
        view.check_guard()
        made = self._shows(repo, path, versions, view.properties.table_uuid, form)
        shown, written = [each[:2] for each in made], [each[2] for each in made]
        versions = versions[: len(shown)]
        metadata = self._assembled(path, view, versions, shown, branch, form)
        if metadata.format_version > 2:
            types = {n: text for _, layout in shown for n, text in layout.types.items()}
            document = format_metadata_3(metadata, types)
        else:
            document = format_metadata(metadata, flavour=form.flavour)
        name = hashlib.sha256(document).hexdigest()[:32]
        staging = self._staging(view)
        for folder in ("data", "metadata"):  # clients write files, and some make no folders
            (staging / folder).mkdir(parents=True, exist_ok=True)
        place = url_of(view)
        documents = self.documents.folder(view) / "metadata"
        location = documents / f"{name}.metadata.json"
        if not location.exists():
            replace_file(location, document)  # some clients read it by its name
        files = dict.fromkeys(file for files in written for file in files)
        return LoadedTable(
            path,
            versions,
            metadata,
            document,
            self.documents.spell(location),
            staging,
            name,
            place,
            (str(location), *files),
        )

    def _shows(
        self,
        repo: OpenRepo,
        path: str,
        versions: Sequence[Version],
        table: str,
        form: TableForm,
    ) -> list[tuple[Snapshot, Layout, tuple[str, ...]]]:
        """Return what shows the newest versions that are of one table.

        A view that was looked into holds the names of all its files, so there are two at a time.
        """
        made: list[tuple[Snapshot, Layout, tuple[str, ...]]] = []
        now: DatasetInFiles | None = self.view(repo, path, versions[0])
        for version, older in zip_longest(versions[:MOST], versions[1:]):
            if version is None or now is None:
                break
            then = None if older is None else self.view(repo, path, older)
            if then is not None and then.properties.table_uuid != table:
                older = then = None
            made.append(self._show(path, version, older, (now, then), form))
            now = then
        return made

    def _show(
        self,
        path: str,
        version: Version,
        before: Version | None,
        views: tuple[DatasetInFiles, DatasetInFiles | None],
        form: TableForm,
    ) -> tuple[Snapshot, Layout, tuple[str, ...]]:
        bare = Snapshot(
            snapshot_id_of(path, version),
            version.number,
            0,
            None,
            parent_id=None if before is None else snapshot_id_of(path, before),
        )
        key = (bare.snapshot_id, bare.parent_id, form)

        shown = self._shown.made(key, lambda: self.documents.show(*views, bare, form))
        layout = shown.layout
        commit = version.commit
        summary = {**shown.summary, **told_of(path, version, form)}
        snapshot = replace(
            bare,
            timestamp_ms=commit.committer.time * 1000,
            manifest_list=shown.manifest_list,
            summary=summary,
            schema_id=layout.schema_id,
            others={"first-row-id": 0, "added-rows": shown.rows} if layout.types else {},
        )
        return snapshot, layout, shown.files

    def _assembled(
        self,
        path: str,
        view: DatasetInFiles,
        versions: Sequence[Version],
        shown: Sequence[tuple[Snapshot, Layout]],
        branch: str | None,
        form: TableForm,
    ) -> TableMetadata:
        snapshots = in_time([snapshot for snapshot, _ in shown])
        newest, layout = snapshots[-1], shown[0][1]
        known = {each.snapshot_id: each for each in snapshots}
        for version in versions:
            # Whose commit it was looks for the snapshot that it sent, when no answer came.
            shows = known[snapshot_id_of(path, version)]
            for number, dataset in facts_of(version.commit.message).snapshots.items():
                if dataset == path and number not in known:
                    known[number] = replace(shows, snapshot_id=number)
        layouts = [layout.metadata for _, layout in reversed(shown)]
        shown_rows = [each.others.get("added-rows", 0) for each in snapshots]
        schemas = {number: s for each in layouts for number, s in each.schemas.items()}
        specs = {number: s for each in layouts for number, s in each.partition_specs.items()}
        staging, spell = self._staging(view), self.documents.spell
        written = {"write.data.path": "data", "write.metadata.path": "metadata"}
        properties = {
            **dataset_properties(view, form.flavour),
            "gc.enabled": "false",
            **{name: spell(staging / folder) for name, folder in written.items()},
        }
        return replace(
            layout.metadata,
            location=spell(staging),
            last_updated_ms=newest.timestamp_ms,
            last_column_id=_last_column_id(layout.metadata, branch),
            schemas=schemas,
            partition_specs=specs,
            last_partition_id=max(each.last_partition_id for each in layouts),
            last_sequence_number=newest.sequence_number,
            current_snapshot_id=newest.snapshot_id,
            snapshots=known,
            references={MAIN: Reference(newest.snapshot_id)},
            snapshot_log=tuple(LogEntry(e.timestamp_ms, e.snapshot_id) for e in snapshots),
            properties=properties,
            format_version=max(each.format_version for each in layouts),
            next_row_id=max(shown_rows),
        )


def told_of(path: str, version: Version, form: TableForm) -> dict[str, str]:
    """Return what a snapshot's summary says of the commit that it shows."""
    commit = version.commit
    names = {
        COMMIT: commit.id,
        TREE: version.tree,
        DATASET: path,
        FLAVOUR: form.flavour.value,
        AUTHOR: f"{commit.author.name} <{commit.author.email}>",
        MESSAGE: commit.message.strip()[:_LONGEST],
    }
    return {name: plain(text) for name, text in names.items()}


def in_time(newest_first: Sequence[Snapshot]) -> list[Snapshot]:
    """Return snapshots oldest first, none later than the next: clocks of authors differ."""
    found: list[Snapshot] = []
    for snapshot in newest_first:
        time = snapshot.timestamp_ms
        if found and time >= found[-1].timestamp_ms:
            time = found[-1].timestamp_ms - 1
        found.append(replace(snapshot, timestamp_ms=time))
    return found[::-1]


def _last_column_id(metadata: TableMetadata, branch: str | None) -> int:
    highest = metadata.last_column_id
    text = f"{metadata.table_uuid}\0{highest}\0{branch or ''}"
    digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
    return highest + int.from_bytes(digest[:4]) % BLOCK


def plain(text: str) -> str:
    """Return text without what JSON cannot say."""
    return text.encode("utf-8", "replace").decode()
