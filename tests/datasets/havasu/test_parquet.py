"""Rows read by position are those of the whole file, however its columns are encoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.datasets.havasu import parquet
from havasu_vc.datasets.havasu.parquet import open_parquet, read_row_groups, read_rows
from havasu_vc.model.arrow import FIELD_ID
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive, Struct

ROWS = 500
TEXTS = {
    "few": [("north", "south", None, "")[n % 4] for n in range(ROWS)],
    "null": [None] * ROWS,
    "many": [f"text {n} {'x' * (n % 50)}" for n in range(ROWS)],
    "a.b": [("one", "two")[n % 2] for n in range(ROWS)],
    ".few": [("é", "\0", "x")[n % 3] for n in range(ROWS)],
}
BYTES = [(b"\0\1", None, b"")[n % 3] for n in range(ROWS)]


def fields() -> tuple[Field, ...]:
    texts = [Field(2 + n, name, Primitive("string")) for n, name in enumerate(TEXTS)]
    part = Struct((Field(21, "b", Primitive("string")), Field(22, "few", Primitive("string"))))
    return (
        Field(1, "id", Primitive("long"), required=True),
        *texts,
        Field(10, "bytes", Primitive("binary")),
        Field(20, "a", part),
    )


def table() -> pa.Table:
    def numbered(number: int) -> dict[bytes, bytes]:
        return {FIELD_ID: str(number).encode()}

    part = pa.struct(
        [
            pa.field("b", pa.string(), metadata=numbered(21)),
            pa.field("few", pa.string(), metadata=numbered(22)),
        ]
    )
    columns: list[tuple[str, Any, pa.DataType, int]] = [
        ("id", list(range(ROWS)), pa.int64(), 1),
        *((name, values, pa.string(), 2 + n) for n, (name, values) in enumerate(TEXTS.items())),
        ("bytes", BYTES, pa.binary(), 10),
        ("a", [{"b": "in", "few": ("p", None)[n % 2]} for n in range(ROWS)], part, 20),
    ]
    return pa.Table.from_arrays(
        [pa.array(values, type_) for _, values, type_, _ in columns],
        schema=pa.schema(
            [
                pa.field(name, type_, nullable=number > 1, metadata=numbered(number))
                for name, _, type_, number in columns
            ]
        ),
    )


@pytest.mark.parametrize("dictionary", [True, False, ["few", "bytes"]])
@pytest.mark.parametrize("limit", [1 << 20, 64])
def test_some_rows_are_read_as_they_are_among_all(
    dictionary: bool | list[str], limit: int, tmp_path: Path
) -> None:
    """Dictionaries that grew beyond the limit are followed by plain pages."""
    path = str(tmp_path / "file.parquet")
    pq.write_table(
        table(),
        path,
        row_group_size=130,
        use_dictionary=dictionary,
        dictionary_pagesize_limit=limit,
        write_batch_size=20,
    )
    schema = Schema(fields(), (1,))
    whole = pa.Table.from_batches(list(read_row_groups(path, schema)))
    for positions in ([0], [129, 130], [3, 4, 200, 499], list(range(ROWS))):
        for threads in (False, True):
            found = read_rows(path, schema, np.array(positions), threads=threads)
            assert found.schema == whole.schema
            assert found.to_pylist() == whole.take(positions).to_pylist()
    assert read_rows(path, schema, np.empty(0, np.int64)).num_rows == 0


def test_texts_with_a_dictionary_are_not_all_written_out(tmp_path: Path) -> None:
    path = str(tmp_path / "file.parquet")
    pq.write_table(table(), path)
    with open_parquet(path) as file:
        coded = set(parquet._coded(file))
    assert {"few", "bytes"} <= coded
    assert not coded & {"id", "many", "a", "a.b", ".few"}
