"""Checking files against what their entries say, and a dataset's digests against its rows.

Each data file is a task of its own, which tells what is wrong and what its live rows
sum up to; an error inside becomes a finding, so that the other files are checked too.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.dealing import repeated_keys
from havasu_vc.datasets.digest import Digests, format_digests, hash_rows, parse_digests
from havasu_vc.datasets.havasu.far import is_apart
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.keys import KeyCache
from havasu_vc.datasets.havasu.locate import sound_key_cache
from havasu_vc.datasets.havasu.parquet import (
    Positions,
    file_name,
    open_parquet,
    read_row_groups,
    read_rows,
)
from havasu_vc.datasets.havasu.projection import lacks
from havasu_vc.datasets.havasu.verify import (
    mark_verified,
    verify_delete_file,
    verify_deleted_rows,
)
from havasu_vc.datasets.havasu.writing import split_offsets
from havasu_vc.datasets.pairing import describe_key
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.errors import (
    CorruptDataFileError,
    CorruptDatasetError,
    DataFileNotFoundError,
    GeometryError,
    HavasuError,
)
from havasu_vc.formats.havasu.entry import Content, Entry, format_entry, from_scalar, parse_entry
from havasu_vc.geo.bounds import bounds_of
from havasu_vc.geo.raster_v1 import raster_headers
from havasu_vc.geo.raster_v1_checks import first_unsound
from havasu_vc.geo.raster_v1_outlines import Places, places_of_rasters
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.findings import Finding, Findings
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import RunsEach, Task, kernel, task_of
from havasu_vc.model.types import Encoding, Field, children
from havasu_vc.records import dataclass
from havasu_vc.store.object_systems import object_system, reporting_store_errors
from havasu_vc.store.object_urls import is_url, shown_url

__all__ = ["ValueCheck", "check_data_file", "check_files", "duplicate_keys", "parse_bound"]


_REPORT = pa.schema([(name, pa.string()) for name in ("message", "hint", "column", "digests")])


def check_files(
    view: DatasetInFiles,
    here: Mapping[str, Entry],
    engine: RunsEach,
    checked: set[str],
    *,
    whole: bool,
    summed: bool,
) -> Iterator[Finding]:
    """Yield what is wrong with the files of a dataset that are in the store, or in a bucket.

    `whole` says that these are all, so that they can be added up, and `summed` that
    there is a snapshot to compare that with.
    """
    deletes = [entry for entry in here.values() if entry.content is Content.DELETES]
    findings = Findings()
    tasks: list[Task] = []
    files: list[Entry] = []
    apart = is_apart(view)
    if apart:
        # Nobody else reads what is in a bucket.
        sound = deletes
        for entry in deletes:
            with findings.catching(f"{view.path}: delete file {entry.file}"):
                hashed = entry.file not in checked and entry.file not in view.derived_files
                tasks.append(_task_of_deletes(view, entry, here, hashed=hashed))
                files.append(entry)
    else:
        sound = [
            each for each in deletes if _check_delete_file(view, each, here, findings, checked)
        ]
    for entry in here.values():
        if entry.content is Content.DATA:
            with findings.catching(f"{view.path}: data file {entry.file}"):
                tasks.append(_task(view, entry, sound, hashed=entry.file not in checked))
                files.append(entry)
    digests = Digests()
    what = f"Checking {view.path}"
    for number, batch in engine.run_each(tasks, description=what, anywhere=apart):
        for row in batch.to_pylist():
            if row["digests"] is not None:
                digests.add(parse_digests(row["digests"]))
                continue
            kind = "data" if files[number].content is Content.DATA else "delete"
            where = f"{view.path}: {kind} file {files[number].file}"
            findings.add(where, row["message"], row["hint"], row["column"])
    checked |= {entry.file for entry in files}
    yield from findings.found
    if whole and not findings.found:
        # What is missing or damaged cannot be added up.
        if summed:
            yield from _check_digests(view, digests)
        yield from _repeated_keys(view, engine) if apart else duplicate_keys(view, files)


def _repeated_keys(view: DatasetInFiles, engine: RunsEach) -> Iterator[Finding]:
    """Yield the keys that more than one live row has, found where no key caches are."""
    names = view.key.names
    if names:
        keys = view.scan(names)
        for batch in repeated_keys(engine, keys, names, view.rows, MOST_FINDINGS):
            for *key, _ in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield Finding(view.path, f"the key {describe_key(tuple(key))} stands twice")


def _check_digests(view: DatasetInFiles, digests: Digests) -> Iterator[Finding]:
    found = digests.of(view.schema.by_id)
    wrong = [
        field.name
        for field in view.schema.fields
        if view.snapshot.digests.get(field.id) != found[field.id]
    ]
    if wrong:
        yield Finding(
            f"{view.path}/files",
            f"the rows do not have the digests that deltas add up to, in column {', '.join(wrong)}",
            f"`havasu-vc repair {shlex.quote(view.path)}` makes them anew from the rows",
        )


def _check_delete_file(
    view: DatasetInFiles,
    entry: Entry,
    here: Mapping[str, Entry],
    findings: Findings,
    checked: set[str],
) -> bool:
    """Check one delete file; return whether it can be read."""
    count = len(findings.found)
    with findings.catching(f"{view.path}: delete file {entry.file}"):
        if entry.file not in checked and entry.file not in view.derived_files:
            view.storage.files.verify(entry.file)
            checked.add(entry.file)
        if entry.targets.keys() <= here.keys():
            verify_delete_file(view, entry)
            mark_verified(view.storage.keys, entry.file)
    return len(findings.found) == count


def _task(view: DatasetInFiles, entry: Entry, deletes: Sequence[Entry], *, hashed: bool) -> Task:
    paths = tuple(view.file_path(delete) for delete in deletes if entry.file in delete.targets)
    return task_of(
        check_data_file,
        view.file_path(entry),
        format_entry(entry),
        view.past_schema(entry.schema),
        view.schema,
        paths,
        hashed,
    )


def _task_of_deletes(
    view: DatasetInFiles, entry: Entry, here: Mapping[str, Entry], *, hashed: bool
) -> Task:
    data = {file: view.file_path(here[file]) for file in entry.targets if file in here}
    schema = view.past_schema(entry.schema)
    return task_of(
        check_delete_file, view.file_path(entry), format_entry(entry), schema, data, hashed
    )


@kernel
def check_delete_file(
    path: str, document: bytes, schema: Schema, data: dict[str, str], hashed: bool
) -> Iterator[pa.RecordBatch]:
    """Yield a row for what is wrong with a delete file; `data` are the files it deletes from."""
    file = file_name(path)
    entry = parse_entry(document, file, file)
    try:
        if hashed:
            _check_hash(path)
        verify_deleted_rows(path, entry, schema, data)
    except HavasuError as error:
        yield _failed(file, error)


@kernel
def check_data_file(
    path: str,
    document: bytes,
    written: Schema,
    schema: Schema,
    deletes: tuple[str, ...],
    hashed: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each thing that is wrong with a data file, then the digests of its live rows.

    `written` is the schema that the entry names, `schema` the dataset's; with `hashed`
    the bytes of the file are hashed too.
    """
    file = file_name(path)
    entry = parse_entry(document, file, file)
    try:
        if hashed:
            _check_hash(path)
        check = ValueCheck(entry, written)
        for column, message in _problems(path, entry, written, check):
            yield _report(message, column=column)
        if not check.is_readable:
            return  # what cannot be read has no digest
        deleted = deleted_positions(file, deletes)
        digests = Digests()
        for rows in read_row_groups(path, schema, deleted=deleted):
            digests.add(hash_rows(rows, schema).digests)
        yield _report(digests=digests)
    except HavasuError as error:
        yield _failed(file, error)


def _failed(file: str, error: HavasuError) -> pa.RecordBatch:
    """Return a row for a file that cannot be used, which the finding names besides."""
    message = error.message
    if isinstance(error, CorruptDataFileError) and error.file == file:
        message = f"it is damaged: {error.reason}"
    elif isinstance(error, CorruptDatasetError) and error.path == file:
        message = error.reason
    return _report(message, error.hints[0] if error.hints else None)


def _check_hash(path: str) -> None:
    name = file_name(path)
    if is_url(path):
        found = _hash_at(path)
    else:
        with Path(path).open("rb", buffering=0) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != name:
        raise CorruptDataFileError(name, f"its bytes have the hash {found}")


def _hash_at(url: str) -> str:
    """Return the hash of an object, which is read as a stream."""
    found = hashlib.sha256()
    system, path = object_system(url)
    with reporting_store_errors(shown_url(url), "read"):
        try:
            with system.open_input_stream(path) as stream:
                while data := stream.read(1 << 20):
                    found.update(data)
        except FileNotFoundError:
            raise DataFileNotFoundError(file_name(url)) from None
    return found.hexdigest()


def _problems(
    path: str, entry: Entry, written: Schema, check: ValueCheck
) -> Iterator[tuple[str | None, str]]:
    with open_parquet(path) as file:
        if file.metadata.num_rows != entry.rows:
            yield None, f"it has {file.metadata.num_rows} rows, its entry says {entry.rows}"
        if entry.splits and split_offsets(file.metadata) != entry.splits:
            yield None, "its row groups do not begin where its entry says"
        if lacks(file.schema_arrow, written):
            yield None, "it lacks columns of the schema that its entry names"
    for rows in read_row_groups(path, written):
        check.add(rows)
    yield from check.problems()


def _report(
    message: str | None = None,
    hint: str | None = None,
    *,
    column: str | None = None,
    digests: Digests | None = None,
) -> pa.RecordBatch:
    text = None if digests is None else format_digests(digests.sums)
    row = {"message": message, "hint": hint, "column": column, "digests": text}
    return pa.RecordBatch.from_pylist([row], schema=_REPORT)


# Checking values against the statistics and bounds of their file's entry.
#
# Statistics may be wider than the values, never narrower: a query passes over a file by
# them, so a value outside of them is a row that is never found.

_GLOBE = Bounds(-180, -90, 180, 90)


class ValueCheck:
    """Sees the rows of a file, then tells which columns its entry is wrong about."""

    def __init__(self, entry: Entry, schema: Schema) -> None:
        self._entry = entry
        self._schema = schema
        self._nulls = dict.fromkeys(schema.by_id, 0)
        self._bounds: dict[int, Bounds] = {}
        self._outside: set[int] = set()
        self._unreadable: dict[int, str] = {}
        self._with_srid: set[int] = set()
        self._unsound: dict[int, str] = {}
        self._places: dict[int, list[Places]] = {}
        self._limits = {field.id: _limits(field, entry) for field in schema.fields}

    def add(self, rows: pa.RecordBatch) -> None:
        """Look at some rows."""
        for field, column in zip(self._schema.fields, rows.columns, strict=True):
            self._nulls[field.id] += column.null_count
            if field.geometry is not None:
                self._look_at_geometries(field, field.geometry.encoding, column)
            elif field.raster is not None:
                self._look_at_rasters(field, rows, column)
            elif not self._inside(column, self._limits[field.id]):
                self._outside.add(field.id)

    def _look_at_geometries(self, field: Field, encoding: Encoding, column: pa.Array) -> None:
        if field.id in self._unreadable:
            return
        try:
            found = bounds_of(column, encoding)
            if encoding is Encoding.WKB and to_canonical(column, "wkb")[1] is not None:
                self._with_srid.add(field.id)
        except GeometryError as error:
            self._unreadable[field.id] = error.message
            return
        known = self._bounds.get(field.id)
        if found is not None:
            self._bounds[field.id] = found if known is None else known.union(found)

    def _look_at_rasters(self, field: Field, rows: pa.RecordBatch, column: pa.Array) -> None:
        found = first_unsound(column)
        if found is not None:
            names = self._schema.key.names or self._schema.names[:1]
            key = ",".join(str(rows.column(name)[found[0]].as_py()) for name in names)
            self._unsound.setdefault(field.id, f"in row {key}: {found[1]}")
            return
        self._places.setdefault(field.id, []).append(places_of_rasters(raster_headers(column)))

    @property
    def is_readable(self) -> bool:
        """Whether all geometries seen could be read."""
        return not self._unreadable

    @staticmethod
    def _inside(column: pa.Array, limits: tuple[pa.Scalar | None, pa.Scalar | None]) -> bool:
        low, high = limits
        beyond = [
            compare(column, limit)
            for compare, limit in ((pc.less, low), (pc.greater, high))
            if limit is not None
        ]
        return not any(pc.any(mask).as_py() for mask in beyond)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield columns and what is wrong with them, one line for each."""
        for field in self._schema.fields:
            for problem in self._problems_of(field):
                yield field.name, problem

    def _problems_of(self, field: Field) -> Iterator[str]:
        if field.required and self._nulls[field.id]:
            yield f"column {field.name!r} is required and has nulls"
        statistics = self._entry.statistics.get(field.id)
        # Of a nested column the leaves are counted, one by one.
        if statistics is not None and not children(field.type):
            if statistics.values != self._entry.rows:
                count = statistics.values
                yield f"the statistics of column {field.name!r} are of {count} values"
            if statistics.nulls != self._nulls[field.id]:
                yield (
                    f"column {field.name!r} has {self._nulls[field.id]} nulls, "
                    f"its statistics say {statistics.nulls}"
                )
        if field.id in self._outside:
            yield f"column {field.name!r} has values outside of its statistics"
        yield from self._bounds_problem(field)
        yield from self._geometry_problems(field)
        yield from self._raster_problems(field)

    def _raster_problems(self, field: Field) -> Iterator[str]:
        reason = self._unsound.get(field.id)
        if reason is not None:
            yield f"column {field.name!r} has a raster that cannot be one, {reason}"
        said = self._entry.areas.get(field.id)
        places = self._places.get(field.id, [])
        if said is None or not places:
            return
        if None in places:
            yield f"column {field.name!r} has bounds, and rasters that could be anywhere"
        elif any(said.union(area) != said for place in places for area in place or ()):
            yield f"column {field.name!r} has rasters outside of its bounds"

    def _geometry_problems(self, field: Field) -> Iterator[str]:
        if field.geometry is None:
            return
        encoding = field.geometry.encoding.value
        if field.id in self._unreadable:
            reason = self._unreadable[field.id]
            yield f"column {field.name!r} has values that are no {encoding}: {reason}"
        if field.id in self._with_srid:
            yield f"column {field.name!r} has values with an SRID, which {encoding} cannot have"
        box = self._bounds.get(field.id)
        on_globe = field.edges is not None
        if on_globe and box is not None and not _GLOBE.covers(box):
            yield f"column {field.name!r} has geometries that are not on the globe"

    def _bounds_problem(self, field: Field) -> Iterator[str]:
        said, found = self._entry.bounds.get(field.id), self._bounds.get(field.id)
        if said is not None and found is not None and not said.covers(found):
            yield f"column {field.name!r} has geometries outside of its bounds"


def _limits(field: Field, entry: Entry) -> tuple[pa.Scalar | None, pa.Scalar | None]:
    statistics = entry.statistics.get(field.id)
    if statistics is None or field.geometry is not None or children(field.type):
        return None, None
    return parse_bound(statistics.lower, field), parse_bound(statistics.upper, field)


def parse_bound(value: Any, field: Field) -> pa.Scalar | None:
    """Return a bound of an entry as a value of its column; None where it cannot be one."""
    if value is None:
        return None
    try:
        # Bytes of fixed length that were cut to 16 are no value: what was cut may be anything.
        return pa.scalar(from_scalar(value, field.type), arrow_type(field.type))
    except (ValueError, TypeError, ArithmeticError, pa.ArrowException):
        return None


# Finding keys that stand twice among the live rows of a dataset, in bounded memory.
#
# Key caches hold the hashes of keys in order, so they are compared interval by interval
# of hashes; only where hashes agree are the keys themselves read.

INTERVAL_ROWS = 1 << 20
"""About as many keys are in memory at a time."""
MOST_FINDINGS = 20
"""Keys that are named; more of them say nothing new."""


@dataclass(frozen=True, slots=True)
class _File:
    entry: Entry
    cache: KeyCache
    deleted: Positions


def duplicate_keys(view: DatasetInFiles, entries: Sequence[Entry]) -> Iterator[Finding]:
    """Yield the keys that more than one live row has."""
    if not view.key or not entries:
        return
    files = [_opened(view, entry) for entry in entries]
    parts = max(sum(entry.rows for entry in entries) // INTERVAL_ROWS, 1)
    edges = [(part << 64) // parts for part in range(1, parts)]
    found = 0
    low: int | None = None
    for high in (*edges, None):
        for pair in _equal_hashes(files, low, high):
            keys = [_key(view, file, position) for file, position in pair]
            if keys[0] == keys[1]:
                found += 1
                if found > MOST_FINDINGS:
                    yield Finding(view.path, "more keys stand twice")
                    return
                names = " and ".join(sorted({file.entry.file for file, _ in pair}))
                yield Finding(
                    view.path, f"the key {describe_key(keys[0])} stands twice, in {names}"
                )
        low = high


def _opened(view: DatasetInFiles, entry: Entry) -> _File:
    deleted = deleted_positions(entry.file, view.delete_paths(entry))
    nothing = np.empty(0, np.int64)
    return _File(entry, sound_key_cache(view, entry), nothing if deleted is None else deleted)


def _equal_hashes(
    files: Sequence[_File], low: int | None, high: int | None
) -> Iterator[tuple[tuple[_File, int], tuple[_File, int]]]:
    """Yield neighbouring live rows of equal key hash, with `low` <= hash < `high`."""
    hashes: list[npt.NDArray[np.uint64]] = []
    positions: list[npt.NDArray[np.int64]] = []
    which: list[npt.NDArray[np.int64]] = []
    for index, file in enumerate(files):
        start = 0 if low is None else int(np.searchsorted(file.cache.keys, np.uint64(low)))
        end = None if high is None else int(np.searchsorted(file.cache.keys, np.uint64(high)))
        where = file.cache.positions[start:end].astype(np.int64)
        live = ~np.isin(where, file.deleted)
        hashes.append(file.cache.keys[start:end][live])
        positions.append(where[live])
        which.append(np.full(len(positions[-1]), index, np.int64))
    keys, places, sources = (np.concatenate(part) for part in (hashes, positions, which))
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    for at in np.flatnonzero(ordered[1:] == ordered[:-1]):
        first, second = order[at], order[at + 1]
        yield (
            (files[int(sources[first])], int(places[first])),
            (files[int(sources[second])], int(places[second])),
        )


def _key(view: DatasetInFiles, file: _File, position: int) -> tuple[object, ...]:
    schema = view.schema.select(view.key.names)
    rows = read_rows(view.file_path(file.entry), schema, np.array([position]))
    return tuple(column[0].as_py() for column in rows.columns)
