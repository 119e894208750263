"""The history of a dataset as tables beside it that clients read like any other.

    points__changes    the rows that each commit changed, one snapshot a commit, which only append
    points__history    the commits

Ids of snapshots follow from commits. So a client that follows a branch goes on where it was,
also at another server; and where the branch was rewritten it misses the snapshot that it read
last, and says so. Of a long branch the oldest snapshot stands for all commits before the others.

    <data folder>/catalog/feeds/<feed>/data/<newest commit>-past.parquet

These are gathered in a file for each stretch of a dataset's line. Its note names the version that
the next file ends with, so all of them are found without a look at the commits; and the columns
that versions had.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import DataFileNotFoundError, UnsupportedError
from havasu_vc.formats.havasu.schema import schema_from_json, schema_to_json
from havasu_vc.formats.iceberg.metadata import format_metadata
from havasu_vc.formats.iceberg.values import (
    MAIN,
    DataFile,
    LogEntry,
    ManifestEntry,
    ManifestFile,
    Reference,
    Snapshot,
    Status,
    TableMetadata,
)
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.feed_files import (
    COMMITS,
    changed_rows,
    commit_rows,
    described,
    gathered_rows,
    layout_of,
    note_of,
    united,
    write,
)
from havasu_vc.serving.forms import PLAIN
from havasu_vc.serving.history import Step, Steps, Version
from havasu_vc.serving.metadata import (
    LoadedTable,
    TableMaker,
    in_time,
    plain,
    snapshot_id_of,
    told_of,
)
from havasu_vc.serving.remembering import Remembered
from havasu_vc.store.disk import replace_file
from havasu_vc.tables.publishing import write_manifest, write_manifest_list
from havasu_vc.workspace.properties import DATASET
from havasu_vc.workspace.snapshots import summary_of, totals

__all__ = ["Feeds", "system_of"]

CHANGES, HISTORY = "changes", "history"
_BETWEEN = "__"
_FORM = "1"
"""Other files are written where this is another."""
_GROUP = 32
"""Manifests of so many commits, on average, are gathered in one."""
_GATHERED = 1
"""The snapshot that is said to have gathered manifests."""
_START = 2
"""The snapshot before all others."""
_MOST_BYTES = 16 << 20
_MOST_KNOWN = 10_000


def system_of(table: str) -> tuple[str, str] | None:
    """Return the dataset and the kind that the name of a system table tells.

    >>> system_of("points__changes"), system_of("points")
    (('points', 'changes'), None)
    """
    name, between, kind = table.rpartition(_BETWEEN)
    return (name, kind) if between and name and kind in (CHANGES, HISTORY) else None


@dataclass(frozen=True, slots=True)
class _Part:
    """One snapshot, and the rows that it brings."""

    version: Version
    """The version that it tells of."""
    snapshot_id: int
    """Its id."""
    files: tuple[DataFile, ...]
    """Its rows."""
    layout: TableMetadata
    """A table's metadata with their columns."""

    @property
    def rows(self) -> int:
        """How many rows it brings."""
        return sum(each.record_count for each in self.files)

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(each.file_size for each in self.files)


class _Views:
    """The versions of a dataset, one after another: what a step made is what the next is upon."""

    def __init__(self, tables: TableMaker, repo: OpenRepo, path: str) -> None:
        self.repo, self.path = repo, path
        self._tables = tables
        self._last: dict[str, Dataset] = {}

    def changed(self, step: Step, schema: Schema) -> Iterator[pa.Table]:
        """Yield the rows that a step changed, in the columns of a feed."""
        old = None if step.before is None else self._view(step.before)
        new = self._view(step.version)
        self._last = {step.version.commit.id: new}
        return changed_rows(self.repo, old, new, step.version.commit, schema)

    def _view(self, version: Version) -> Dataset:
        known = self._last.get(version.commit.id)
        return self._tables.stored(self.repo, self.path, version) if known is None else known


class Feeds:
    """Makes the system tables of datasets, and remembers what it made."""

    def __init__(self, tables: TableMaker) -> None:
        self._tables = tables
        self._versions = FeedVersions(tables)
        self._past = FeedPast(self._versions)
        self._parts: Remembered[object, _Part] = Remembered(_MOST_KNOWN)
        self._manifests: Remembered[object, ManifestFile] = Remembered(_MOST_KNOWN)
        self._lists: Remembered[object, tuple[str, ...]] = Remembered(_MOST_KNOWN)
        self._loaded: Remembered[object, LoadedTable] = Remembered(
            _MOST_BYTES, lambda table: 4 * len(table.document)
        )

    def load(self, repo: OpenRepo, path: str, commit: str, kind: str) -> LoadedTable | None:
        """Return a system table of a dataset at a commit; None where there is no such dataset."""
        versions = self._tables.history.versions(repo, commit, path)
        if not versions:
            return None
        key = (path, versions[0].commit.id, kind)

        def find() -> LoadedTable:
            return self._loaded.made(key, lambda: self._table(repo, path, versions, kind))

        return self._tables.wanted.told(find, self._forget)

    def _forget(self) -> None:
        """Take nothing for written any more."""
        for each in (self._loaded, self._parts, self._manifests, self._lists, self._past):
            each.forget()

    def _table(
        self, repo: OpenRepo, path: str, versions: tuple[Version, ...], kind: str
    ) -> LoadedTable:
        self._tables.stored(repo, path, versions[0]).check_guard()
        newest = self._versions.known(repo, path, versions[0])
        steps = self._versions.shown(repo, path, versions[0])
        told = "\0".join([_FORM, kind, path, newest.identity or ""])
        name = hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        folder = self._tables.root / "feeds" / name
        changes = kind == CHANGES
        telling = self._telling(repo, path, folder) if changes else Telling(_commits, COMMITS)
        past = self._before(repo, path, steps, folder, telling)
        if changes:
            known = self._versions.schemas(repo, path, steps) or [newest.schema]
            schema, gathered = columns_together(path, known, past)
            views = _Views(self._tables, repo, path)
            parts = [self._changes(views, step, folder) for step in steps]
        else:
            schema, gathered = COMMITS, list(past)
            parts = [self._history(path, steps, folder)] if steps else []
        if gathered and steps and steps[0].before is not None:
            parts.insert(0, self._oldest(path, kind, steps[0].before, gathered))
        shown = [each for each in parts if each.rows]
        documents = self._tables.documents
        files = [documents.here(file.path) for each in parts for file in each.files]
        start = self._start(folder, files) if changes and shown else None
        metadata = self._assembled(path, layout_of(schema), shown, folder, files, start)
        metadata = replace(
            metadata,
            table_uuid=str(UUID(name)),
            properties={DATASET: plain(path), "gc.enabled": "false"},
        )
        document = format_metadata(metadata, flavour=PLAIN.flavour)
        tag = hashlib.sha256(document).hexdigest()[:32]
        location = folder / "metadata" / f"{tag}.metadata.json"
        if not location.exists():
            replace_file(location, document)
        named = (str(location), *dict.fromkeys(files))
        told_at = documents.spell(location)
        return LoadedTable(path, versions, metadata, document, told_at, folder, tag, None, named)

    def _before(
        self, repo: OpenRepo, path: str, steps: Sequence[Step], folder: Path, telling: Telling
    ) -> Iterable[Gathered]:
        """Return what there was before the steps that have snapshots, newest first."""
        before = steps[0].before if steps else None
        return () if before is None else self._past.before(repo, path, before, folder, telling)

    def _telling(self, repo: OpenRepo, path: str, folder: Path) -> Telling:
        """Return how rows are told that steps changed: as their own files do where these are."""

        def rows(steps: Sequence[Step], schema: Schema) -> Iterator[pa.Table]:
            views = _Views(self._tables, repo, path)
            for step in steps:
                place = _place(folder, step)
                if place.exists():
                    yield from gathered_rows(place, schema)
                else:
                    yield from views.changed(step, schema)

        return Telling(rows)

    def _oldest(
        self, path: str, kind: str, version: Version, gathered: Sequence[Gathered]
    ) -> _Part:
        """Return the snapshot that stands for all commits up to a version."""
        name = f"{path}{_BETWEEN}{kind}\0{gathered[-1].newest}"
        files = tuple(self._spelled(each.file) for each in reversed(gathered))
        schema = COMMITS if kind == HISTORY else united(path, gathered[0].schemas)
        kept = tuple(each for each in files if each.record_count)
        return _Part(version, snapshot_id_of(name, version), kept, layout_of(schema))

    def _changes(self, views: _Views, step: Step, folder: Path) -> _Part:
        commit, repo, path = step.version.commit, views.repo, views.path

        def make() -> _Part:
            columns = united(path, self._versions.schemas(repo, path, [step]))
            schema = layout_of(columns).schema
            place = _place(folder, step)
            if not place.exists():
                write(place, views.changed(step, schema), schema)
            snapshot_id = snapshot_id_of(f"{path}{_BETWEEN}{CHANGES}", step.version)
            file = self._spelled(described(place))
            return _Part(step.version, snapshot_id, (file,), layout_of(schema))

        return self._parts.made((folder, commit.id), make)

    def _history(self, path: str, steps: Sequence[Step], folder: Path) -> _Part:
        newest, oldest = steps[-1].version, steps[0].version
        place = folder / "data" / f"{newest.commit.id}-{oldest.commit.id}.parquet"
        if not place.exists():
            write(place, _commits(steps, COMMITS), COMMITS)
        snapshot_id = snapshot_id_of(f"{path}{_BETWEEN}{HISTORY}", newest)
        file = self._spelled(described(place))
        return _Part(newest, snapshot_id, (file,), layout_of(COMMITS))

    def _spelled(self, file: DataFile) -> DataFile:
        """Return a data file that was written under the name that clients are told."""
        return replace(file, path=self._tables.documents.spell(file.path))

    def _assembled(
        self,
        path: str,
        layout: TableMetadata,
        shown: Sequence[_Part],
        folder: Path,
        files: list[str],
        start: Snapshot | None,
    ) -> TableMetadata:
        """Return metadata with a snapshot for each part; what is written is added to `files`."""
        snapshots = [] if start is None else [start]
        rows = size = count = 0
        for place, part in enumerate(shown):
            rows, size, count = rows + part.rows, size + part.size, count + len(part.files)
            parent = snapshots[-1].snapshot_id if snapshots else None
            number = part.version.number
            bare = Snapshot(part.snapshot_id, number, 0, None, parent_id=parent)
            written = self._listed(shown[: place + 1], bare, folder)
            files += map(self._tables.documents.here, written)
            snapshots.append(
                replace(
                    bare,
                    timestamp_ms=part.version.commit.committer.time * 1000,
                    manifest_list=written[0],
                    summary={
                        **summary_of(_entries(part, Status.ADDED), []),
                        **totals(rows, count, size),
                        **told_of(path, part.version, PLAIN),
                    },
                    schema_id=layout.current_schema_id,
                )
            )
        if start is not None:
            snapshots[0] = replace(start, schema_id=layout.current_schema_id)
        if not snapshots:
            return replace(layout, location=self._tables.documents.spell(folder))
        snapshots = in_time(snapshots[::-1])
        newest = snapshots[-1]
        return replace(
            layout,
            location=self._tables.documents.spell(folder),
            last_updated_ms=newest.timestamp_ms,
            last_sequence_number=newest.sequence_number,
            current_snapshot_id=newest.snapshot_id,
            snapshots={each.snapshot_id: each for each in snapshots},
            references={MAIN: Reference(newest.snapshot_id)},
            snapshot_log=tuple(LogEntry(e.timestamp_ms, e.snapshot_id) for e in snapshots),
        )

    def _start(self, folder: Path, files: list[str]) -> Snapshot:
        """Return the snapshot before all others: no row, the same for as long as the feed is.

        Spark looks for the oldest snapshot that there was when a stream began, each time that
        the stream goes on, and gives up where it is gone.
        """
        bare = Snapshot(_START, 0, 0, None)

        def make() -> tuple[str, ...]:
            listed = write_manifest_list(folder, [], bare)
            return (self._tables.documents.spell(listed),)

        (listed,) = self._lists.made((folder, _START, _START), make)
        files.append(self._tables.documents.here(listed))
        told = {**summary_of([], []), **totals(0, 0, 0)}
        return replace(bare, manifest_list=listed, summary=told)

    def _listed(self, parts: Sequence[_Part], snapshot: Snapshot, folder: Path) -> tuple[str, ...]:
        """Have a snapshot's manifests there, and return the list of them, and them.

        Each commit has a manifest of its own, in the list of its own snapshot at the least. Once
        a group of commits is full, one manifest stands for all of theirs.
        """
        first = parts[0].snapshot_id

        def make() -> tuple[str, ...]:
            manifests: list[ManifestFile] = []
            group: list[_Part] = []
            for part in parts[:-1]:
                group.append(part)
                if part.snapshot_id // 2 % _GROUP == 0:
                    manifests.append(self._manifest(group, Status.EXISTING, folder))
                    group = []
            group.append(parts[-1])
            manifests += [self._manifest([part], Status.ADDED, folder) for part in group]
            listed = write_manifest_list(folder, manifests, snapshot)
            return self._tables.documents.spell(listed), *(each.path for each in manifests)

        return self._lists.made((folder, first, snapshot.snapshot_id), make)

    def _manifest(self, parts: Sequence[_Part], status: Status, folder: Path) -> ManifestFile:
        key = (folder, status, parts[0].snapshot_id, parts[-1].snapshot_id)

        def make() -> ManifestFile:
            last = parts[-1]
            snapshot_id = last.snapshot_id if status is Status.ADDED else _GATHERED
            snapshot = Snapshot(snapshot_id, last.version.number, 0, None)
            entries = [entry for each in parts for entry in _entries(each, status)]
            written = write_manifest(
                folder,
                entries,
                last.layout,
                spec_id=0,
                snapshot=snapshot,
                flavour=PLAIN.flavour,
            )
            return self._tables.documents.spelled(written)

        return self._manifests.made(key, make)


def _place(folder: Path, step: Step) -> Path:
    return folder / "data" / f"{step.version.commit.id}.parquet"


def _commits(steps: Sequence[Step], _: Schema) -> Iterator[pa.Table]:
    """Yield the commits of steps as rows."""
    yield commit_rows([step.version.commit for step in steps])


def _entries(part: _Part, status: Status) -> list[ManifestEntry]:
    number = part.version.number
    return [ManifestEntry(status, each, part.snapshot_id, number, number) for each in part.files]


# The past of a feed, before its snapshots: rows of many commits gathered in one file.


@dataclass(frozen=True, slots=True)
class Telling:
    """How a feed tells of steps."""

    rows: Callable[[Sequence[Step], Schema], Iterable[pa.Table]]
    """Yields rows, in some columns."""
    columns: Schema | None = None
    """The columns of all files; None for those that the versions of each have."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A stretch of commits that is told in one file."""

    newest: str
    """The newest commit that is told."""
    file: DataFile
    """Its rows."""
    schemas: tuple[Schema, ...]
    """The columns that the versions have, newest first."""
    before: str | None
    """The commit that the next stretch ends with; None where there is none."""


class FeedPast:
    """Gathers what feeds had before their snapshots begin, and remembers it."""

    def __init__(self, versions: FeedVersions) -> None:
        self._versions = versions
        self._found: Remembered[object, tuple[Gathered | None]] = Remembered(_MOST_KNOWN)

    def forget(self) -> None:
        """Take nothing for written any more."""
        self._found.forget()

    def before(
        self, repo: OpenRepo, path: str, newest: Version, folder: Path, telling: Telling
    ) -> Iterator[Gathered]:
        """Yield what there was up to a version, newest first.

        It ends where a clone does, or where data is kept no longer.
        """
        at: str | None = newest.commit.id
        while at is not None:
            found = self._one(repo, path, at, folder, telling)
            if found is None:
                return
            yield found
            at = found.before

    def _one(
        self, repo: OpenRepo, path: str, commit: str, folder: Path, telling: Telling
    ) -> Gathered | None:
        place = folder / "data" / f"{commit}-past.parquet"

        def make() -> tuple[Gathered | None]:
            if not place.exists() and not self._written(repo, path, commit, place, telling):
                return (None,)
            note = json.loads(note_of(place))
            schemas = tuple(schema_from_json(each, str(place)) for each in note["schemas"])
            return (Gathered(commit, described(place), schemas, note["before"]),)

        return self._found.made(place, make)[0]

    def _written(
        self, repo: OpenRepo, path: str, commit: str, place: Path, telling: Telling
    ) -> bool:
        """Write the file of a stretch; False where nothing is known of it."""
        steps = self._versions.stretch(repo, path, commit)
        if not steps:
            return False
        own = telling.columns
        schemas = self._versions.schemas(repo, path, steps) if own is None else []
        before = steps[0].before
        note = {
            "before": None if before is None else before.commit.id,
            "schemas": [schema_to_json(each) for each in schemas],
        }
        try:
            schema = layout_of(united(path, schemas)).schema if own is None else own
            write(place, telling.rows(steps, schema), schema, json.dumps(note))
        except (DataFileNotFoundError, UnsupportedError):
            return False
        return True


def columns_together(
    path: str, newest: Sequence[Schema], past: Iterable[Gathered]
) -> tuple[Schema, list[Gathered]]:
    """Return the columns of a feed, and what of its past stands in one table with the newest."""
    schemas, found = list(newest), []
    together = united(path, schemas)
    for each in past:
        others = [schema for schema in each.schemas if schema not in schemas]
        try:
            together = united(path, [*schemas, *others]) if others else together
        except UnsupportedError:
            break  # a column was of another type
        schemas += others
        found.append(each)
    return together, found


# The versions that a feed tells of: which dataset they are of, and their columns.


_MOST_VERSIONS = 10_000


@dataclass(frozen=True, slots=True)
class VersionColumns:
    """The columns of a version, and whose they are."""

    identity: str | None
    """Which dataset it is of."""
    schema: Schema
    """Its columns."""


class FeedVersions:
    """Finds the steps of datasets, and remembers the columns of their versions."""

    def __init__(self, tables: TableMaker) -> None:
        self._tables = tables
        self._steps = Steps(tables.history)
        self._columns: Remembered[object, VersionColumns] = Remembered(_MOST_VERSIONS)

    def known(self, repo: OpenRepo, path: str, version: Version) -> VersionColumns:
        """Return what is to be known of a version."""

        def look() -> VersionColumns:
            view = self._tables.stored(repo, path, version)
            return VersionColumns(view.identity, view.schema)

        return self._columns.made((path, version.tree), look)

    def shown(self, repo: OpenRepo, path: str, newest: Version) -> list[Step]:
        """Return the steps that each have a snapshot, oldest first."""
        return self._of_one(repo, path, self._steps.find(repo, newest.commit.id, path))

    def stretch(self, repo: OpenRepo, path: str, commit: str) -> list[Step]:
        """Return the steps of the stretch that ends with a commit, oldest first."""
        return self._of_one(repo, path, self._steps.stretch(repo, commit, path))

    def _of_one(self, repo: OpenRepo, path: str, steps: Sequence[Step]) -> list[Step]:
        """Return the steps of the dataset that stands there now, which others stood before."""
        found: list[Step] = []
        for step in reversed(steps):
            identity = self.known(repo, path, step.version).identity
            if step.before and self.known(repo, path, step.before).identity != identity:
                step = Step(step.version, None)
            found.append(step)
            if step.before is None:
                break
        return found[::-1]

    def schemas(self, repo: OpenRepo, path: str, steps: Sequence[Step]) -> list[Schema]:
        """Return the schemas of all versions that rows are of, newest first, each once."""
        versions = [step.version for step in reversed(steps)]
        versions += [step.before for step in steps[:1] if step.before is not None]
        schemas = [self.known(repo, path, each).schema for each in versions]
        return list({id(schema): schema for schema in schemas}.values())
