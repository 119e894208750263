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
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from havasu_vc.datasets.kinds import findings_in
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    CorruptionError,
    CrsError,
    HavasuError,
    InvalidArgumentError,
    StateError,
)
from havasu_vc.exchange.source import Source, SourceOptions
from havasu_vc.exchange.sources import open_sources, parse_table_location
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.raster_v1_pixels import ALLOWED
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.upkeep.value_rules import Level, broken_rules

__all__ = ["Issue", "Level", "Validation", "check_keys", "check_rows"]


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
            path, _, at = target.partition("@")
            if target in known:
                yield from self._dataset(target, revision, warnings=warnings)
            elif os.path.exists(target) or parse_table_location(target) is not None:
                yield from self._location(target, tuple(primary_key), warnings=warnings)
            elif at and not os.path.exists(path):
                yield from self._dataset(path, at, warnings=warnings)
            else:
                raise InvalidArgumentError(
                    f"there is no dataset and no file {target!r}",
                    hints=(f"datasets are {', '.join(sorted(known)) or 'none'}",),
                )

    def _dataset(self, path: str, revision: str, *, warnings: bool) -> Iterator[Issue]:
        try:
            view = self._repo.dataset(path, revision)
        except (CorruptionError, StateError) as error:
            yield Issue(path, Level.ERROR, "broken", error.message)
            return
        tasks, unreadable = None, ""
        try:
            # Before anything is looked at: files come that plain git left at the remote.
            tasks = view.scan()
        except HavasuError as error:
            unreadable = error.message
        with self._repo.settings.open_engine(view.size) as engine:
            broken = False
            for issue in _of_dataset(path, view, engine):
                broken = True
                yield issue
            if tasks is None:
                if not broken:
                    yield Issue(path, Level.ERROR, "unreadable", unreadable)
                return
            srids = _srids(view.schema, view.crs)
            yield from check_rows(
                path, tasks, view.schema, srids, engine, warnings=warnings, allowed=self._allowed
            )

    def _location(self, location: str, key: tuple[str, ...], *, warnings: bool) -> Iterator[Issue]:
        options = SourceOptions(primary_key=key or None)
        for source in open_sources(location, options=options):
            name = location if source.name in location else f"{location}:{source.name}"
            with self._repo.settings.open_engine(source.input_bytes) as engine:
                yield from _of_source(
                    name, source, engine, warnings=warnings, allowed=self._allowed
                )


def _of_dataset(path: str, view: Dataset, engine: Engine) -> Iterator[Issue]:
    """Yield what `fsck` finds in one dataset."""
    for found in findings_in(view, engine, full=True):
        where = found.where.removeprefix(path).lstrip("/: ")
        cause = f"{where}: {found.message}" if where else found.message
        yield Issue(path, Level.ERROR, "stored", cause, found.column)


def _of_source(
    name: str, source: Source, engine: Engine, *, warnings: bool, allowed: Sequence[str]
) -> Iterator[Issue]:
    srids = _srids(source.schema, source.crs)
    broken = False
    how: dict[str, Any] = {"warnings": warnings, "allowed": allowed}
    rows = check_rows(name, source.tasks(), source.schema, srids, engine, **how)
    for issue in rows:
        broken = broken or issue.rule == "unreadable"
        yield issue
    if source.schema.key.names and not broken:
        keys = source.tasks(source.schema.key.names)
        yield from check_keys(name, keys, source.schema, source.rows, engine)


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
) -> Iterator[Issue]:
    """Yield what is wrong with the rows of tasks; `srids` are those of geometry columns.

    `allowed` are the places where files of rasters may be looked for.
    """
    how = (schema, dict(srids), warnings, tuple(allowed))
    checking = [task_of(broken_rows, task, *how) for task in tasks]
    for _, batch in engine.run_each(checking, description=f"Checking {name}"):
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
