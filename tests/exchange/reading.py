"""Sources read whole, for tests."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from havasu_vc.exchange.source import MOST_BATCH_ROWS, Source, SourceOptions
from havasu_vc.exchange.sources import open_sources
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.task import run_task


def open_one(location: Path | str, layer: str | None = None, **options: Any) -> Source:
    layers = () if layer is None else (layer,)
    (source,) = open_sources(str(location), layers, options=SourceOptions(**options))
    return source


def read_all(source: Source, columns: tuple[str, ...] | None = None) -> pa.Table:
    """Return all rows of a source, checking what it promises of its batches."""
    schema = source.schema if columns is None else source.schema.select(columns)
    batches = [batch for task in source.tasks(columns) for batch in run_task(task)]
    for batch in batches:
        assert 0 < batch.num_rows <= MOST_BATCH_ROWS
        assert batch.schema.equals(arrow_schema(schema), check_metadata=True)
    table = pa.Table.from_batches(batches, arrow_schema(schema))
    table.validate(full=True)
    if source.rows is not None:
        assert table.num_rows == source.rows
    return table


def read_table(location: Path | str, layer: str | None = None, **options: Any) -> pa.Table:
    return read_all(open_one(location, layer, **options))
