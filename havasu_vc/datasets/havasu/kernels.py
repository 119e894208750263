"""Kernels over Havasu files: functions that tasks name, which run wherever an engine says."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.deletes import read_positions
from havasu_vc.datasets.havasu.parquet import (
    NOWHERE,
    Positions,
    file_name,
    read_row_groups,
    read_rows,
)
from havasu_vc.datasets.havasu.projection import READ_ALL
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.model.arrays import distinct
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import kernel

__all__ = ["deleted_positions", "positions_but", "rows_at", "scan"]


def deleted_positions(file: str, deletes: tuple[str, ...]) -> Positions | None:
    """Return the positions of a data file that some delete files take away."""
    found = [read_positions(path).get(file) for path in deletes]
    present = [positions for positions in found if positions is not None]
    if not present:
        return None
    return present[0] if len(present) == 1 else distinct(np.concatenate(present))


@lru_cache(maxsize=8)
def positions_but(path: str, file: str, others: tuple[str, ...]) -> Positions:
    """Return the positions of a data file that a delete file takes away, and some others do not.

    The tasks of a diff ask the same again and again.
    """
    found = deleted_positions(file, (path,))
    left_out = deleted_positions(file, others)
    if found is None or left_out is None:
        return NOWHERE if found is None else found
    return np.setdiff1d(found, left_out, assume_unique=True)


@kernel
def scan(
    path: str, schema: Schema, deletes: tuple[str, ...], groups: tuple[int, ...] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the live rows of a data file, or of some of its row groups."""
    deleted = deleted_positions(file_name(path), deletes)
    for batch in read_row_groups(path, schema, groups=groups, deleted=deleted):
        for field, column in zip(schema.fields, batch.columns, strict=True):
            if field.required and column.null_count:
                reason = f"its required column {field.name!r} has nulls"
                raise CorruptDatasetError(file_name(path), reason, READ_ALL)
        yield batch


@kernel
def rows_at(path: str, schema: Schema, positions: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
    """Yield some rows of a data file."""
    yield read_rows(path, schema, np.array(positions, np.int64))
