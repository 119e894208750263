"""Rasters of a dataset without their pixels: whole tables are described by a few bytes a row.

Parquet keeps each part of a raster in a column of its own, so what is left out is not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.parquet import (
    Positions,
    file_name,
    open_parquet,
    row_group_starts,
)
from havasu_vc.datasets.havasu.projection import plan_projection
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.geo.raster_v1_outlines import OUTLINE_LEAVES
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.rasters import RASTER_TYPE
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of

__all__ = ["plan_outlines"]


def plan_outlines(view: DatasetInFiles, raster: str, others: Sequence[str] = ()) -> list[Task]:
    """Return tasks that yield the live rows: some columns, and a raster without its pixels."""
    number = view.schema.by_name[raster].id
    schema = view.schema.select(tuple(others))
    entries = list(view.data_entries)
    view.bring(entries)
    return [
        task_of(outlines, view.file_path(each), schema, number, raster, view.delete_paths(each))
        for each in entries
    ]


@kernel
def outlines(
    path: str, schema: Schema, raster_id: int, name: str, deletes: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a data file, its raster column without pixels and last."""
    deleted = deleted_positions(file_name(path), deletes)
    with open_parquet(path) as file:
        found = file.schema_arrow
        plan = plan_projection(found, schema, file_name(path))
        known = {(field.metadata or {}).get(FIELD_ID): field.name for field in found}
        physical = known.get(str(raster_id).encode())
        leaves = [] if physical is None else [f"{physical}.{leaf}" for leaf in OUTLINE_LEAVES]
        starts = row_group_starts(file)
        for group in range(file.num_row_groups):
            at = int(starts[group])
            for batch in file.iter_batches(
                row_groups=[group], columns=[*plan.names, *leaves], use_threads=False
            ):
                column = (
                    pa.nulls(batch.num_rows, RASTER_TYPE)
                    if physical is None
                    else batch.column(physical)
                )
                rows = plan.apply(batch).append_column(name, column)
                keep = _live(at, batch.num_rows, deleted)
                at += batch.num_rows
                yield rows if keep is None else rows.filter(keep)


def _live(start: int, count: int, deleted: Positions | None) -> pa.BooleanArray | None:
    if deleted is None or not len(deleted):
        return None
    keep = np.ones(count, bool)
    inside = deleted[(deleted >= start) & (deleted < start + count)] - start
    keep[inside] = False
    return pa.array(keep)
