"""Rows dealt out to files by a partition spec, as far as that is decided here.

A first pass over the rows finds which partitions there are (`partitions`). Each gets a
number, in the order of their values; a second pass gives every row a place that begins
with its partition's number and goes on along a Hilbert curve, or as rows came
(`with_places`). Sorted by place, the rows of a partition stand together, and
`write_places` begins a new file wherever the number changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.build import reported
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.writing import WrittenFile, write_data_files
from havasu_vc.datasets.sorting import HILBERT, RunReader, SortRange, with_hilbert
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.formats.havasu.entry import Origin, to_scalar
from havasu_vc.formats.havasu.properties import PartitionSpec
from havasu_vc.formats.iceberg.transforms import parse_transform, partition_types
from havasu_vc.model.bounds import Bounds
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task
from havasu_vc.records import dataclass
from havasu_vc.store.files import DataFileStore

__all__ = [
    "PLACE",
    "RowPartitions",
    "files_of_places",
    "numbered",
    "partitions",
    "with_places",
    "write_places",
]

PLACE = "_place"
"""The name of the column that holds a row's place."""
_BITS = 33
"""A place within a partition: 32 bits, and one more for what is nowhere."""


@dataclass(frozen=True, slots=True)
class RowPartitions:
    """Which partitions there are, and where rows lie in them."""

    schema: Schema
    """The columns."""
    spec: PartitionSpec
    """How rows are dealt out."""
    values: pa.RecordBatch
    """The values of each partition, by its number; columns as `partition_columns`."""
    geometry: str | None = None
    """The geometry column whose curve rows lie along."""
    extent: Bounds | None = None
    """The extent that the curve goes through."""

    def entry_values(self, number: int) -> dict[str, Any]:
        """Return the values of a partition as an entry keeps them."""
        return {
            str(field_id): to_scalar(self.values.column(index)[number].as_py(), type_)
            for index, (field_id, _, type_) in enumerate(partition_types(self.spec, self.schema))
        }


def _columns(batch: pa.RecordBatch, schema: Schema, spec: PartitionSpec) -> pa.Table:
    """Return what the fields of a spec make of each row."""
    made = []
    for part in spec.fields:
        source = schema.by_id[part.source_id]
        transform = parse_transform(part.transform)
        try:
            made.append(transform.apply_array(batch.column(source.name), source.type))
        except InvalidArgumentError as error:
            raise InvalidArgumentError(
                f"{source.name} cannot be partitioned by {transform}: {error.message}",
                hints=error.hints,
            ) from error
    return pa.table(made, names=[str(index) for index in range(len(made))])


@kernel
def partitions(task: Task, schema: Schema, spec: PartitionSpec) -> Iterator[pa.RecordBatch]:
    """Yield the partitions that the rows of a task lie in, each once."""
    found: pa.Table | None = None
    for batch in run_task(task):
        new = _columns(batch, schema, spec)
        found = _once(new if found is None else pa.concat_tables([found, new]))
    if found is not None:
        yield from found.combine_chunks().to_batches()


def _once(values: pa.Table) -> pa.Table:
    return values.group_by(values.column_names).aggregate([]).select(values.column_names)


def numbered(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return all partitions in order of their values, None when there are none."""
    every = [batch for batch in batches if batch.num_rows]
    if not every:
        return None
    found = _once(pa.Table.from_batches(every))
    ordered = found.sort_by([(name, "ascending") for name in found.column_names])
    (batch,) = ordered.combine_chunks().to_batches()
    return batch


@kernel
def with_places(task: Task, number: int, places: RowPartitions) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task with their place in a last column; it is the n-th task."""
    if places.geometry is None or places.extent is None:
        batches = run_task(task)
    else:
        batches = with_hilbert(task, places.schema, places.geometry, places.extent)
    names = places.values.schema.names
    known = pa.table(
        [*places.values.columns, pa.array(np.arange(places.values.num_rows))],
        names=[*names, PLACE],
    )
    for batch in batches:
        values = _columns(batch, places.schema, places.spec)
        rows = values.append_column("row", pa.array(np.arange(batch.num_rows)))
        found = _looked_up(rows, known, names)
        place = found.astype(np.uint64) << np.uint64(_BITS)
        if places.geometry is not None:
            along = batch.column(HILBERT).to_numpy()
            place |= np.minimum(along, np.uint64(1 << 32))
            batch = batch.drop_columns([HILBERT])
        else:
            place |= np.uint64(number)
        yield batch.append_column(PLACE, pa.array(place))


def _looked_up(rows: pa.Table, known: pa.Table, names: list[str]) -> np.ndarray[Any, Any]:
    """Return the number of each row's partition; nulls are values like others."""
    numbers = np.zeros(rows.num_rows, np.int64)
    parts = pa.concat_tables(
        [
            known.select(names).append_column("row", pa.array(-1 - np.arange(known.num_rows))),
            rows,
        ]
    )
    # Each group has one partition, at a negative row, and the rows that lie in it.
    grouped = parts.group_by(names).aggregate([("row", "list")])
    for listed in grouped.column("row_list").combine_chunks():
        group = listed.values.to_numpy()
        numbers[group[group >= 0]] = -1 - group.min()
    return numbers


@kernel
def write_places(
    runs: Sequence[str],
    ranges: Sequence[SortRange],
    names: tuple[str, ...],
    layout: FileLayout,
    places: RowPartitions,
    where: tuple[str, str | None],
) -> Iterator[pa.RecordBatch]:
    """Write some ranges of runs sorted by place, no file for two partitions; yield their rows."""
    reader = RunReader(runs, names)
    store = DataFileStore(Path(where[0]))
    keys = None if where[1] is None else Path(where[1])
    rows = (batch for each in ranges if (batch := reader.rows(each)) is not None)
    yield reported(files_of_places(rows, layout, places, store, keys), b"")


def files_of_places(
    batches: Iterable[pa.RecordBatch],
    layout: FileLayout,
    places: RowPartitions,
    store: DataFileStore,
    keys: Path | None,
    *,
    copy: int = 0,
) -> list[WrittenFile]:
    """Write rows that come in order of their places, no file for two partitions.

    `copy` makes of the same rows other files.
    """
    columns = list(layout.schema.names)
    files: list[WrittenFile] = []

    def pieces() -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in batches:
            partition = batch.column(PLACE).to_numpy() >> np.uint64(_BITS)
            cuts = [0, *(np.flatnonzero(np.diff(partition)) + 1).tolist(), batch.num_rows]
            for start, end in pairwise(cuts):
                yield int(partition[start]), batch.select(columns).slice(start, end - start)

    for number, group in groupby(pieces(), key=itemgetter(0)):
        values: Mapping[str, Any] = places.entry_values(number)
        rows = (batch for _, batch in group)
        written = write_data_files(rows, layout, store, keys, origin=Origin.IMPORT, copy=copy)
        files += [replace(file, entry=replace(file.entry, partition=values)) for file in written]
    return files
