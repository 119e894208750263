"""Conditions on changed rows: an SQL expression, or a box that geometries meet.

A change meets a condition where the row does as it was or as it is now, so an edit that moves a
row out of a box is as much the box's as one that moves it in. Of conditions that stand together
it is one of the two that meets all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.boxes import Box, parse_box
from havasu_vc.exchange.duckdb import RowExpressions
from havasu_vc.exchange.sources import rows_meeting
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema

__all__ = ["changes_meeting"]

Mask: TypeAlias = npt.NDArray[np.bool_]


def changes_meeting(
    changes: Iterable[ChangeBatch],
    conditions: Sequence[Sequence[tuple[str, str]]],
    sides: Iterable[Schema],
    path: str,
) -> Iterator[tuple[ChangeBatch, Mask]]:
    """Yield changes, and which of them meet any of some conditions.

    Each is what a row has to meet at once: kinds with their texts.
    """
    by_names = {schema.names: schema for schema in sides}
    expressions = [text for each in conditions for kind, text in each if kind == "where"]
    with ExitStack() as stack:
        database = stack.enter_context(RowExpressions()) if expressions else None
        if database is not None:
            database.add_functions(*expressions)

        def test_of(kind: str, text: str) -> Callable[[pa.RecordBatch], Mask]:
            if kind == "box":
                return partial(_in_box, box=parse_box(text), schemas=by_names, path=path)
            assert database is not None
            return partial(database.true_rows, expression=text)

        tests = [[test_of(*part) for part in each] for each in conditions]
        for batch in changes:
            met = np.zeros(len(batch), bool)
            for side in (batch.old, batch.new):
                there = pc.is_valid(side).to_numpy(zero_copy_only=False)
                if there.any():
                    rows = pa.RecordBatch.from_struct_array(side)
                    for test in tests:
                        met |= there & np.logical_and.reduce([part(rows) for part in test])
            yield batch, met


def _in_box(
    rows: pa.RecordBatch, *, box: Box, schemas: Mapping[tuple[str, ...], Schema], path: str
) -> Mask:
    schema = schemas.get(tuple(rows.schema.names))
    geometries = () if schema is None else schema.geometries
    if not geometries or geometries[0].geometry is None:
        raise InvalidArgumentError(
            f"{path} has no geometry column that a box could choose rows by",
            hints=("name the datasets that are meant",),
        )
    field = geometries[0]
    assert field.geometry is not None
    return rows_meeting(rows.column(field.name), field.geometry.encoding, box, field.edges)
