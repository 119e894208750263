"""Rows that an edit takes away, put aside by data file until a delete file is written of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.delete_writing import set_large_aside
from havasu_vc.datasets.havasu.deletes import Deletion, read_deleted_rows, read_positions
from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.datasets.havasu.projection import plan_projection
from havasu_vc.datasets.spool import Spool
from havasu_vc.model import kernels as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.schema import Schema

__all__ = ["GoingRows"]

_LARGE = "_large"


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
        self._rows[file].add(kept.append_column(_LARGE, large))

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
