"""Datasets that DuckDB reads by way of our own tasks, as a dataset of Arrow.

DuckDB asks for the columns and the rows that it wants, so others are not read or go at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import HavasuError
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.task import run_task

__all__ = ["ScannedRows"]


class ScannedRows(pads.Dataset):  # type: ignore[misc]
    """The rows of a dataset, which DuckDB asks for the columns and rows that it wants."""

    def __init__(self, view: Dataset, names: Sequence[str]) -> None:
        self._view = view
        self.error: HavasuError | None = None
        """The error in it, which DuckDB does not hand on."""
        self._names = dict(zip(names, view.schema.names, strict=True))

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        stored = arrow_schema(self._view.schema)
        return pa.schema(
            [field.with_name(name) for name, field in zip(self._names, stored, strict=True)]
        )

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any = None, **options: Any
    ) -> pads.Scanner:
        """Return a scan of some columns and of the rows that pass an expression."""
        wanted = list(self._names) if columns is None else list(columns)
        # Of no columns DuckDB wants to know how many rows there are.
        asked = wanted or list(self._names)[:1]
        schema = pa.schema([self.schema.field(name) for name in asked])
        return pads.Scanner.from_batches(self._batches(asked, schema, filter), schema=schema)

    def _batches(
        self, names: Sequence[str], schema: pa.Schema, chosen: Any
    ) -> Iterator[pa.RecordBatch]:
        try:
            for task in self._view.scan([self._names[name] for name in names]):
                for batch in run_task(task):
                    rows = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
                    if chosen is None:
                        yield rows
                    else:
                        yield from pa.Table.from_batches([rows]).filter(chosen).to_batches()
        except HavasuError as error:
            self.error = error
            raise
