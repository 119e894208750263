"""Writing delete files: the positions that go, and what the rows there said.

The columns are those of `deletes`. Values above 64 KiB are carried as digests, since
the data file that holds them stays as long as its rows may be shown.

Rows that an edit takes away, put aside by data file until a delete file is written of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.deletes import (
    Deletion,
    are_large,
    can_be_large,
    large_digest,
    read_deleted_rows,
    read_positions,
)
from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.projection import plan_projection
from havasu_vc.datasets.havasu.writing import GROUP_ROWS, WrittenFile, split_offsets
from havasu_vc.datasets.sorting import Spool
from havasu_vc.errors import StorageError
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import FIELD_ID, arrow_schema, gathered
from havasu_vc.model.rasters import without_gaps
from havasu_vc.model.schema import Schema
from havasu_vc.store.disk import reason_of
from havasu_vc.store.files import DataFileStore

__all__ = ["LARGE_TYPE", "GoingRows", "set_large_aside", "write_delete_file"]

_FILE = pa.field("file", pa.string(), nullable=False, metadata={FIELD_ID: b"2147483546"})
_POS = pa.field("pos", pa.int64(), nullable=False, metadata={FIELD_ID: b"2147483545"})
_DIGEST = pa.struct([("field", pa.int32()), ("sha256", pa.binary(32))])
LARGE_TYPE = pa.list_(_DIGEST)
"""The Arrow type of what stands for the large values of a row."""
_LARGE = pa.field("large", LARGE_TYPE)


def write_delete_file(
    deletions: Iterable[Deletion], layout: FileLayout, store: DataFileStore, *, origin: Origin
) -> WrittenFile | None:
    """Write deletions, in order of data file, to one delete file; None when there are none."""
    import pyarrow.parquet as pq

    # A large value of a required column is null here too.
    physical = [f.with_nullable(True) for f in arrow_schema(layout.schema, physical=True)]
    row = pa.field("row", pa.struct(physical), metadata={FIELD_ID: b"2147483544"})
    schema = pa.schema([_FILE, _POS, row, _LARGE])
    targets: dict[str, int] = {}
    temporary = store.temporary()
    try:
        with (
            pa.OSFile(str(temporary), "wb") as sink,
            pq.ParquetWriter(
                sink,
                schema,
                compression="zstd",
                compression_level=3,
                use_dictionary=_dictionary_columns(schema),
                column_encoding={"pos": "DELTA_BINARY_PACKED"},
                store_schema=False,
            ) as writer,
        ):
            for batch in _cut(_delete_batches(deletions, layout.schema, schema, targets)):
                writer.write_batch(batch, row_group_size=GROUP_ROWS)
        if not targets:
            return None
        metadata = pq.read_metadata(temporary)
        file, size = store.put(temporary)
    except OSError as error:
        raise StorageError(f"a delete file cannot be written: {reason_of(error)}") from error
    finally:
        temporary.unlink(missing_ok=True)
    return WrittenFile(
        Entry(
            file,
            Content.DELETES,
            size,
            metadata.num_rows,
            layout.schema_hash,
            layout.partition_hash,
            layout.sort_hash,
            origin,
            splits=split_offsets(metadata),
            targets=targets,
        )
    )


def _dictionary_columns(schema: pa.Schema) -> list[str]:
    repeating = (pa.types.is_string, pa.types.is_floating)
    fields = schema.field("row").type
    return ["file", *(f"row.{f.name}" for f in fields if any(is_(f.type) for is_ in repeating))]


def _delete_batches(
    deletions: Iterable[Deletion], schema: Schema, target: pa.Schema, targets: dict[str, int]
) -> Iterator[pa.RecordBatch]:
    last = ""
    for deletion in deletions:
        if not len(deletion.positions):
            continue
        if deletion.file < last:
            raise ValueError("deletions are not in order of data file")
        last = deletion.file
        count = len(deletion.positions)
        targets[deletion.file] = targets.get(deletion.file, 0) + count
        rows, large = deletion.rows, deletion.large
        if large is None:
            rows, large = set_large_aside(rows, schema)
        fields = list(target.field("row").type)
        columns = [without_gaps(*each) for each in zip(rows.columns, fields, strict=True)]
        yield pa.RecordBatch.from_arrays(
            [
                pa.repeat(deletion.file, count),
                arrow_array(deletion.positions),
                pa.StructArray.from_arrays(columns, fields=fields),
                large,
            ],
            schema=target,
        )


def _cut(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches, so that many targets do not mean many row groups."""
    yield from map(pa.concat_batches, gathered(batches, GROUP_ROWS, lambda batch: batch.num_rows))


def set_large_aside(rows: pa.RecordBatch, schema: Schema) -> tuple[pa.RecordBatch, pa.ListArray]:
    """Return rows without their large values, and the digests of these."""
    found: dict[int, list[dict[str, object]]] = {}
    columns = list(rows.columns)
    keys = set(schema.identifier_ids)
    for index, field in enumerate(schema.fields):
        if not can_be_large(field) or field.id in keys:
            continue
        column = columns[index]
        big = are_large(column, field)
        if not big.any():
            continue
        for row in np.flatnonzero(big):
            digest = large_digest(column[int(row)].as_py())
            found.setdefault(int(row), []).append({"field": field.id, "sha256": digest})
        columns[index] = pc.if_else(arrow_array(big), pa.scalar(None, column.type), column)
    if not found:
        return rows, pa.nulls(rows.num_rows, _LARGE.type)
    large = pa.array([found.get(row) for row in range(rows.num_rows)], _LARGE.type)
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema), large


_KEPT_LARGE = "_large"


class GoingRows:
    """Positions in data files, and what the rows there say."""

    def __init__(self, schema: Schema, path: str, new_spool: Callable[[], Spool]) -> None:
        """Keep rows in the columns of a schema; `path` is of their dataset, for errors."""
        self._schema = schema
        self._path = path
        self._new_spool = new_spool
        self._positions: dict[str, list[Positions]] = {}
        self._rows: dict[str, Spool] = {}
        self._carried: dict[str, list[Deletion]] = {}

    @property
    def files(self) -> Set[str]:
        """The data files that rows were taken from, those of replaced delete files apart."""
        return self._positions.keys()

    def positions(self, file: str) -> Positions:
        """Return the positions of a data file that were taken so far."""
        pieces = self._positions.get(file)
        return np.concatenate(pieces) if pieces else np.empty(0, np.int64)

    def add(
        self,
        file: str,
        positions: Positions,
        rows: pa.RecordBatch,
        large: pa.ListArray | None = None,
    ) -> None:
        """Take rows away; `large` stands for values that are set aside already."""
        self._positions.setdefault(file, []).append(positions)
        if file not in self._rows:
            self._rows[file] = self._new_spool()
        kept = self._projected(rows)
        if large is None:
            kept, large = set_large_aside(kept, self._schema)
        self._rows[file].add(kept.append_column(_KEPT_LARGE, large))

    def carry(self, path: str, kept: Sequence[str], places: dict[str, str]) -> None:
        """Take over what a delete file that is replaced says of the data files that stay."""
        if not kept:
            return
        positions = read_positions(path)
        wanted = {file: positions[file] for file in kept if file in positions}
        data = {file: places[file] for file in wanted}
        for deletion in read_deleted_rows(path, self._schema, wanted, data):
            rows, large = set_large_aside(deletion.rows, self._schema)
            aside = Deletion(deletion.file, deletion.positions, rows, large)
            self._carried.setdefault(deletion.file, []).append(aside)

    def deletions(self, leaving: Set[str]) -> Iterator[Deletion]:
        """Yield all that a delete file is to hold, in order of data file, but of those leaving."""
        for file in sorted((self._carried.keys() | self._rows.keys()) - leaving):
            parts = list(self._carried.get(file, ()))
            if file in self._rows:
                rows = pa.concat_batches(list(self._rows[file].batches()))
                large = rows.column(rows.num_columns - 1)
                rows = rows.select(list(range(rows.num_columns - 1)))
                parts.append(Deletion(file, self.positions(file), rows, large))
            positions = np.concatenate([part.positions for part in parts])
            rows = pa.concat_batches([self._projected(part.rows) for part in parts])
            large = pa.concat_arrays([part.large for part in parts if part.large is not None])
            order = arrow_array(np.argsort(positions, kind="stable"))
            yield Deletion(
                file, positions[order.to_numpy()], pc.take(rows, order), pc.take(large, order)
            )

    def _projected(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        return plan_projection(rows.schema, self._schema, self._path).apply(rows)
