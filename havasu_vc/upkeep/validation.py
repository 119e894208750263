"""Validation of data: that rows of datasets, and of files to import, are what columns say.

for issue in Validation(repo.opened).run(["parcels", "../new.parquet"]):
    print(issue.dataset, issue.key, issue.column, issue.cause)

Checking rows against the rules, wherever they are: in a dataset or in a file to import.

Tasks that yield rows are wrapped in tasks that yield what is wrong with them, so rows
are checked where any engine reads them. Of each rule that a column breaks in a task the
first rows are named and the others counted. Keys are compared in parts that hold equal
keys together; in a dataset of ours that, the statistics and the bounds are what `fsck`
checks, and it is asked.
"""

from __future__ import annotations

import datetime
import itertools
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.dealing import repeated_keys
from havasu_vc.datasets.havasu.far import as_seen, is_apart
from havasu_vc.datasets.kinds import findings_in
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    CorruptionError,
    CrsError,
    GeometryError,
    HavasuError,
    InvalidArgumentError,
    MissingProgramError,
    StateError,
    nearest,
)
from havasu_vc.exchange.source import Source, SourceOptions
from havasu_vc.exchange.sources import open_sources, parse_table_location
from havasu_vc.geo.bounds import row_bounds
from havasu_vc.geo.buffers import byte_column, overlapping
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.raster_v1 import Raster, parse_rasters
from havasu_vc.geo.raster_v1_pixels import ALLOWED, PlaceOfPixels
from havasu_vc.geo.sketching import geometry_labels, invalid_rows, invalidity
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.geo.wkt import beyond_geos
from havasu_vc.model import compute as pc
from havasu_vc.model.names import parted_at_revision
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.model.types import Encoding, Field
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.object_urls import is_url

__all__ = ["Broken", "Issue", "Level", "Validation", "broken_rules", "check_keys", "check_rows"]


class Validation:
    """Checks the data of a repository, or of files, against the rules."""

    def __init__(self, repo: OpenRepo) -> None:
        self._repo = repo
        self._allowed = repo.git.config.all(ALLOWED)

    def run(
        self,
        targets: Sequence[str] = (),
        revision: str = "HEAD",
        *,
        primary_key: Sequence[str] = (),
        warnings: bool = True,
    ) -> Iterator[Issue]:
        """Yield what is wrong with datasets and files; without targets with all datasets.

        A target that is a dataset is one; any other is a location as `import` takes it,
        whose key is `primary_key`, or what the file says.
        """
        known = set(self._repo.datasets(revision))
        for target in targets or sorted(known):
            path, _, at = parted_at_revision(target, known)
            if target in known:
                yield from self._dataset(target, revision, warnings=warnings)
            elif _is_location(target):
                yield from self._location(target, tuple(primary_key), warnings=warnings)
            elif at and not os.path.exists(path):
                yield from self._dataset(path, at, warnings=warnings)
            else:
                raise InvalidArgumentError(
                    f"there is no dataset and no file {target!r}",
                    hints=(
                        *nearest(target, known),
                        f"datasets are {', '.join(sorted(known)) or 'none'}",
                    ),
                )

    def _dataset(self, path: str, revision: str, *, warnings: bool) -> Iterator[Issue]:
        try:
            view = self._repo.dataset(path, revision)
        except (CorruptionError, StateError) as error:
            yield Issue(path, Level.ERROR, "broken", error.message)
            return
        tasks, unreadable, broken = None, "", False
        with self._repo.settings.open_engine(view.size) as engine:
            try:
                view = as_seen(view) if engine.apart else view
                # Before anything is looked at: files come that plain git left at the remote.
                tasks = view.scan()
            except HavasuError as error:
                unreadable = error.message
            for issue in _of_dataset(path, view, engine):
                broken = True
                yield issue
            if tasks is None:
                if not broken:
                    yield Issue(path, Level.ERROR, "unreadable", unreadable)
                return
            srids = _srids(view.schema, view.crs)
            how: dict[str, Any] = {"warnings": warnings, "allowed": self._allowed}
            how["anywhere"] = is_apart(view)
            yield from check_rows(path, tasks, view.schema, srids, engine, **how)

    def _location(self, location: str, key: tuple[str, ...], *, warnings: bool) -> Iterator[Issue]:
        options = SourceOptions(primary_key=key or None)
        with ExitStack() as stack:
            engine_of = self._repo.settings.opened_once(stack)
            sources = open_sources(location, options=options, engine_of=engine_of)
            size = max((source.input_bytes for source in sources), default=0)
            for source in sources:
                name = location if source.name in location else f"{location}:{source.name}"
                yield from _of_source(
                    name,
                    source,
                    engine_of(size),
                    warnings=warnings,
                    allowed=self._allowed,
                    anywhere=is_url(location),
                )


def _is_location(target: str) -> bool:
    """Whether a target is a place that `import` takes a table from."""
    return os.path.exists(target) or is_url(target) or parse_table_location(target) is not None


def _of_dataset(path: str, view: Dataset, engine: Engine) -> Iterator[Issue]:
    """Yield what `fsck` finds in one dataset."""
    for found in findings_in(view, engine, full=True):
        where = found.where.removeprefix(path).lstrip("/: ")
        cause = f"{where}: {found.message}" if where else found.message
        yield Issue(path, Level.ERROR, "stored", cause, found.column)


def _of_source(
    name: str,
    source: Source,
    engine: Engine,
    *,
    warnings: bool,
    allowed: Sequence[str],
    anywhere: bool,
) -> Iterator[Issue]:
    srids = _srids(source.schema, source.crs)
    broken = False
    how: dict[str, Any] = {"warnings": warnings, "allowed": allowed, "anywhere": anywhere}
    rows = check_rows(name, source.tasks(), source.schema, srids, engine, **how)
    for issue in rows:
        broken = broken or issue.rule == "unreadable"
        yield issue
    if source.schema.key.names and not broken:
        keys = source.tasks(source.schema.key.names)
        check = check_dealt_keys if anywhere and engine.apart else check_keys
        yield from check(name, keys, source.schema, source.rows, engine)


def _srids(schema: Schema, definitions: Mapping[str, str]) -> dict[str, int]:
    """Return the SRIDs of geometry columns whose system is known."""
    found = {}
    for field in schema.geometries:
        crs = None if field.geometry is None else field.geometry.crs
        if crs is None:
            continue
        for text in (crs, definitions.get(crs)):
            try:
                if text is not None:
                    found[field.name] = parse_crs(text).srid
                    break
            except CrsError:
                continue
    return found


MOST_ROWS = 20
"""Rows that are named for each rule that a column breaks in a task."""
_ROWS_A_PART = 1 << 20
_REPORT = pa.schema(
    [
        ("level", pa.string()),
        ("rule", pa.string()),
        ("column", pa.string()),
        ("cause", pa.string()),
        ("key", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Issue:
    """Something that is wrong with a value, a row, or a dataset."""

    dataset: str
    """The dataset, or the file."""
    level: Level
    """How much it matters."""
    rule: str
    """The rule that is broken."""
    cause: str
    """The fault."""
    column: str | None = None
    """The column; None for the row or the dataset as a whole."""
    key: Mapping[str, Any] | None = None
    """The key of the row, as JSON values; None without a row or a key."""


def check_rows(
    name: str,
    tasks: Sequence[Task],
    schema: Schema,
    srids: Mapping[str, int],
    engine: Engine,
    *,
    warnings: bool,
    allowed: Sequence[str] = (),
    anywhere: bool = False,
) -> Iterator[Issue]:
    """Yield what is wrong with the rows of tasks; `srids` are those of geometry columns.

    `allowed` are the places where files of rasters may be looked for. Tasks that need no file of
    this machine may run `anywhere`.
    """
    how = (schema, dict(srids), warnings, tuple(allowed))
    checking = [task_of(broken_rows, task, *how) for task in tasks]
    what = f"Checking {name}"
    for _, batch in engine.run_each(checking, description=what, anywhere=anywhere):
        yield from _issues(name, batch)


def check_keys(
    name: str, tasks: Sequence[Task], schema: Schema, rows: int | None, engine: Engine
) -> Iterator[Issue]:
    """Yield the keys that several rows have; the tasks yield the key columns."""
    keys = schema.select(schema.key.names)
    parts = max((rows or 0) // _ROWS_A_PART, len(tasks) if rows is None else 1, 1)
    dealt = engine.partition(list(tasks), schema.key.names, parts)
    checking = [task_of(equal_keys, task, keys) for task in dealt]
    for _, batch in engine.run_each(checking, description=f"Comparing the keys of {name}"):
        yield from _issues(name, batch)


def check_dealt_keys(
    name: str, tasks: Sequence[Task], schema: Schema, rows: int | None, engine: Engine
) -> Iterator[Issue]:
    """Yield the same where machines share no folder, so that keys are dealt out by their values."""
    keys = schema.select(schema.key.names)
    for batch in repeated_keys(engine, tasks, keys.names, rows, MOST_ROWS):
        for row, times in enumerate(batch.column("times").to_pylist()):
            key = {each: _json_value(batch.column(each)[row].as_py()) for each in keys.names}
            yield Issue(name, Level.ERROR, "key", f"{times} rows have this key", None, key)


def _issues(name: str, batch: pa.RecordBatch) -> Iterator[Issue]:
    for row in batch.to_pylist():
        key = None if row["key"] is None else json.loads(row["key"])
        level = Level(row["level"])
        yield Issue(name, level, row["rule"], row["cause"], row["column"], key)


@kernel
def broken_rows(
    task: Task,
    schema: Schema,
    srids: dict[str, int],
    warnings: bool,
    allowed: tuple[str, ...] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each value of a task that breaks a rule, the first ones of each rule."""
    counts: dict[tuple[str, str], int] = {}
    levels: dict[tuple[str, str], Level] = {}
    try:
        for batch in run_task(task):
            found = []
            for broken in broken_rules(batch, schema, srids, warnings=warnings, allowed=allowed):
                what = broken.rule, broken.column
                counts[what] = counts.get(what, 0) + 1
                levels[what] = broken.level
                if counts[what] <= MOST_ROWS:
                    key = _key_text(batch, schema, broken.row)
                    found.append(_row(broken.level, broken.rule, broken.cause, broken.column, key))
            if found:
                yield pa.RecordBatch.from_pylist(found, _REPORT)
    except HavasuError as error:
        yield pa.RecordBatch.from_pylist([_row(Level.ERROR, "unreadable", error.message)], _REPORT)
    more = [
        _row(levels[what], what[0], f"{count - MOST_ROWS} more rows are like that", what[1])
        for what, count in counts.items()
        if count > MOST_ROWS
    ]
    if more:
        yield pa.RecordBatch.from_pylist(more, _REPORT)


@kernel
def equal_keys(task: Task, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield a row for each key that several rows of a task have."""
    batches = list(run_task(task))
    if not batches:
        return
    names = list(schema.names)
    counted = pa.Table.from_batches(batches).group_by(names).aggregate([([], "count_all")])
    twice = counted.filter(pc.greater(counted["count_all"], 1)).combine_chunks()
    found = []
    for batch in twice.slice(0, MOST_ROWS).to_batches():
        for row in range(batch.num_rows):
            times = batch.column("count_all")[row].as_py()
            key = _key_text(batch, schema, row)
            found.append(_row(Level.ERROR, "key", f"{times} rows have this key", key=key))
    if twice.num_rows > MOST_ROWS:
        more = f"{twice.num_rows - MOST_ROWS} more keys stand twice"
        found.append(_row(Level.ERROR, "key", more))
    if found:
        yield pa.RecordBatch.from_pylist(found, _REPORT)


def _row(
    level: Level, rule: str, cause: str, column: str | None = None, key: str | None = None
) -> dict[str, str | None]:
    return {"level": level.value, "rule": rule, "column": column, "cause": cause, "key": key}


def _key_text(batch: pa.RecordBatch, schema: Schema, row: int) -> str | None:
    names = schema.key.names
    if not names:
        return None
    return json.dumps({name: _json_value(batch.column(name)[row].as_py()) for name in names})


def _json_value(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case Decimal() | datetime.date() | datetime.time():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


# Rules for rows, whatever file they are in: each finds the rows that break it.
#
#     error      null          a required column, or one of the key, has no value
#                encoding      bytes or text that are no geometry of the declared encoding
#                raster        a raster that cannot be one: lengths, pixel types, georeference, a
#                              system that is none, a file with its pixels that is missing or has
#                              other bands, pixels, cells or another system than the raster says
#                srid          an SRID that is not that of the column's system, or where none can be
#                type          a geometry of another type than is declared
#                globe         a geography that is not on the globe
#     warning    ring          a ring that does not end where it begins
#                validity      a geometry against the rules of its type: one that crosses itself
#                unchecked     what nobody here knows the rules of, or may look at: arcs, surfaces,
#                              files of rasters that the settings do not allow to be opened
#
# A column is looked at as a whole; only in a batch that breaks a rule are rows looked
# at one by one.


_MOST_UNREADABLE = 64
"""Values of a batch that are looked for one by one; with more of them nothing else is checked."""
Bools = npt.NDArray[np.bool_]


class Level(StrEnum):
    """How much it matters that a rule is broken."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Broken:
    """A value that breaks a rule."""

    level: Level
    """How much that matters."""
    rule: str
    """Which rule it is."""
    column: str
    """The column of the value."""
    cause: str
    """The fault of the value."""
    row: int
    """Where in the batch it is."""


def broken_rules(
    rows: pa.RecordBatch,
    schema: Schema,
    srids: dict[str, int],
    *,
    warnings: bool,
    allowed: Sequence[str] = (),
) -> Iterator[Broken]:
    """Yield what is wrong with some rows; `srids` are those of geometry columns' systems.

    `allowed` are the places where files of rasters may be looked for.
    """
    for field, column in zip(schema.fields, rows.columns, strict=True):
        if field.required and column.null_count:
            for row in _rows(np.asarray(column.is_null())):
                yield Broken(Level.ERROR, "null", field.name, "it is required and null", row)
        if field.geometry is not None:
            yield from _of_geometries(field, column, srids.get(field.name), warnings=warnings)
        elif field.raster is not None:
            yield from _of_rasters(field, column, allowed, warnings=warnings)


def _of_rasters(
    field: Field, column: pa.Array, allowed: Sequence[str], *, warnings: bool
) -> Iterator[Broken]:
    bad = list(itertools.islice(_unreadable(column, parse_rasters), _MOST_UNREADABLE))
    for row, cause in bad:
        yield Broken(Level.ERROR, "raster", field.name, cause, row)
    if len(bad) == _MOST_UNREADABLE:
        return
    if bad:
        mask = np.zeros(len(column), np.bool_)
        mask[[row for row, _ in bad]] = True
        column = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
    place = PlaceOfPixels(allowed)
    for row, raster in enumerate(parse_rasters(column)):
        if raster is None:
            continue
        unknown = None if raster.crs_wkt is None else _unknown_system(raster.crs_wkt)
        if unknown is not None:
            yield Broken(Level.ERROR, "raster", field.name, unknown, row)
        complete = unknown is None
        for url in sorted({band.out_db_url for band in raster.bands if band.out_db_url}):
            known, missing = place.problem(url)
            complete = complete and missing is None
            if missing is not None and (known or warnings):
                level = Level.ERROR if known else Level.WARNING
                rule = "raster" if known else "unchecked"
                yield Broken(level, rule, field.name, missing, row)
        if complete:
            yield from _of_files(field, place, raster, row, warnings=warnings)


def _of_files(
    field: Field, place: PlaceOfPixels, raster: Raster, row: int, *, warnings: bool
) -> Iterator[Broken]:
    try:
        wrong = place.mismatch(raster)
    except MissingProgramError as error:
        if warnings:
            yield Broken(Level.WARNING, "unchecked", field.name, error.message, row)
        return
    if wrong is not None:
        yield Broken(Level.ERROR, "raster", field.name, wrong, row)


@lru_cache(maxsize=256)
def _unknown_system(text: str) -> str | None:
    """Return what is wrong with the text that says the system of a raster."""
    try:
        parse_crs(text)
    except CrsError as error:
        return f"its crs_wkt cannot be understood: {error.message}"
    return None


def _of_geometries(
    field: Field, column: pa.Array, srid: int | None, *, warnings: bool
) -> Iterator[Broken]:
    if field.geometry is None:
        raise ValueError(f"{field.name!r} is no geometry column")
    encoding = field.geometry.encoding
    reading = _unreadable(column, lambda values: to_canonical(values, encoding))
    bad = list(itertools.islice(reading, _MOST_UNREADABLE))
    for row, cause in bad:
        yield Broken(Level.ERROR, "encoding", field.name, f"it is no {encoding}: {cause}", row)
    if len(bad) == _MOST_UNREADABLE:
        return
    if bad:
        # What is left can be looked at as a whole.
        mask = np.zeros(len(column), np.bool_)
        mask[[row for row, _ in bad]] = True
        column = pc.if_else(pa.array(mask), pa.scalar(None, column.type), column)
    wkb, found = to_canonical(column, encoding)
    if found is not None:
        yield from _of_srids(field, encoding, found, srid)
    yield from _of_types(field, wkb)
    if field.edges is not None:
        bounds = row_bounds(wkb, "wkb")
        most = np.array([180.0, 90.0, 180.0, 90.0])
        for row in _rows(np.asarray((np.abs(bounds) > most).any(axis=1))):
            yield Broken(Level.ERROR, "globe", field.name, "it is not on the globe", row)
    if warnings:
        yield from _of_unchecked(field, wkb)
        for row in _rows(invalid_rows(wkb)):
            cause, is_open = invalidity(wkb[row].as_py())
            yield Broken(Level.WARNING, "ring" if is_open else "validity", field.name, cause, row)


def _of_unchecked(field: Field, wkb: pa.Array) -> Iterator[Broken]:
    """Yield the geometries of which it is not known whether they follow the rules."""
    rows = _rows(beyond_geos(wkb))
    if not rows:
        return
    for row, words in zip(rows, geometry_labels(wkb.take(pa.array(rows))).to_pylist(), strict=True):
        cause = f"whether it is valid cannot be checked: {words}"
        yield Broken(Level.WARNING, "unchecked", field.name, cause, row)


def _of_srids(
    field: Field, encoding: Encoding, found: npt.NDArray[np.int32], srid: int | None
) -> Iterator[Broken]:
    if encoding is not Encoding.EWKB:
        for row in _rows(np.asarray(found != 0)):
            cause = f"it has the SRID {int(found[row])}, which {encoding} cannot have"
            yield Broken(Level.ERROR, "srid", field.name, cause, row)
    elif srid is not None:
        wrong = np.asarray((found != 0) & (found != srid))
        for row in _rows(wrong):
            cause = f"it has the SRID {int(found[row])}, its column has {srid}"
            yield Broken(Level.ERROR, "srid", field.name, cause, row)


_DIMENSIONS = ("", " Z", " M", " ZM")
_KINDS = (
    "GEOMETRY", "POINT", "LINESTRING", "POLYGON", "MULTIPOINT", "MULTILINESTRING",
    "MULTIPOLYGON", "GEOMETRYCOLLECTION",
)  # fmt: skip


def _of_types(field: Field, wkb: pa.Array) -> Iterator[Broken]:
    shape = None if field.geometry is None else field.geometry.shape
    if shape is None:
        return
    kind, _, dimensions = shape.partition(" ")
    column = byte_column(wkb)
    if kind not in _KINDS or not len(column.starts):
        return
    words = overlapping(column.data, "<u4")[column.starts + 1].astype(np.int64)
    wanted = _KINDS.index(kind)
    wrong = (words // 1000) != _DIMENSIONS.index(f" {dimensions}" if dimensions else "")
    if wanted:
        wrong |= (words % 1000) != wanted
    for index in _rows(wrong):
        word = int(words[index])
        number = word % 1000
        name = _KINDS[number] if number < len(_KINDS) else f"type {number}"
        cause = f"it is a {name}{_DIMENSIONS[word // 1000]}, its column is of {shape}"
        yield Broken(Level.ERROR, "type", field.name, cause, int(column.rows[index]))


def _unreadable(column: pa.Array, read: Callable[[pa.Array], object]) -> Iterator[tuple[int, str]]:
    """Yield the rows that cannot be read, each found by halving what has one."""
    left = [(0, len(column))]
    while left:
        start, end = left.pop()
        try:
            read(column.slice(start, end - start))
        except GeometryError as error:
            if end - start == 1:
                yield start, error.message.partition("cannot be used: ")[2] or error.message
                continue
            middle = (start + end) // 2
            left += [(middle, end), (start, middle)]


def _rows(mask: Bools) -> list[int]:
    found: list[int] = np.flatnonzero(mask).tolist()
    return found
