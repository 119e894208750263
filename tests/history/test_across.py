"""A Kart dataset and a Havasu one, or one with another key, compared row by row."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.datasets.pairing import pair_rows
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.history import across
from havasu_vc.history.diff import changes_counted, row_changes
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.testing.dataset_contract import (
    FIRST,
    SCHEMA,
    SECOND,
    changes_between,
    compare,
    described,
)
from havasu_vc.testing.memory import KartDatasets, MemoryDatasets
from havasu_vc.testing.tables import canonical_row

WANTED = [
    tuple(None if row is None else canonical_row(row, SCHEMA) for row in change)
    for change in changes_between(FIRST, SECOND, SCHEMA)
]


@pytest.fixture(params=["in memory", "dealt out"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "dealt out":
        monkeypatch.setattr(across, "SMALL_BYTES", -1)
    return str(request.param)


def test_kinds_are_compared_by_key(tmp_path: Path, size: str) -> None:
    kart, havasu = KartDatasets(tmp_path / "kart"), MemoryDatasets(tmp_path / "havasu")
    pairs: list[tuple[Dataset, Dataset]] = [
        (kart.new(SCHEMA, FIRST), havasu.new(SCHEMA, SECOND)),
        (havasu.new(SCHEMA, FIRST), kart.new(SCHEMA, SECOND)),
    ]
    for old, new in pairs:
        assert described(compare(old, new), SCHEMA, SCHEMA) == WANTED
    assert compare(kart.new(SCHEMA, FIRST), havasu.new(SCHEMA, FIRST)) == []


def test_columns_of_other_ids_are_known_by_name(tmp_path: Path, size: str) -> None:
    kart, havasu = KartDatasets(tmp_path / "kart"), MemoryDatasets(tmp_path / "havasu")
    fields = tuple(
        Field(field.id + 40, field.name, field.type, required=field.required)
        for field in SCHEMA.fields
    )
    renumbered = Schema(fields, (41,))
    rows = [{number + 40: value for number, value in row.items()} for row in SECOND]
    found = compare(kart.new(SCHEMA, FIRST), havasu.new(renumbered, rows))
    assert described(found, SCHEMA, SCHEMA) == WANTED


def test_another_key_makes_other_rows(tmp_path: Path, size: str) -> None:
    kart = KartDatasets(tmp_path)
    name = Field(2, "name", Primitive.STRING, required=True)
    other = Schema((Field(1, "fid", Primitive.LONG), name, SCHEMA.fields[2]), (2,))
    rows = [{**row, 2: "first"} if row[1] == 0 else row for row in FIRST]
    found = compare(kart.new(SCHEMA, FIRST), kart.new(other, rows))
    assert sorted((b.counts.inserts, b.counts.updates, b.counts.deletes) for b in found) == [
        (1, 0, 1)
    ]


@pytest.mark.parametrize("key", [(1,), (1, 2)])
def test_many_rows_that_are_dealt_out_come_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: tuple[int, ...]
) -> None:
    """Every part has changes, none is lost, none is large, and nothing stays on disk."""
    held: list[int] = []

    def noting(old: pa.RecordBatch, new: pa.RecordBatch, *schemas: Schema) -> Iterator[ChangeBatch]:
        held.append(len(old) + len(new))
        return pair_rows(old, new, *schemas)

    monkeypatch.setattr(across, "pair_rows", noting)
    monkeypatch.setattr(across, "PART_BYTES", 100)
    monkeypatch.setattr(across, "SMALL_BYTES", -1)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    fields = (
        Field(1, "fid", Primitive.LONG, required=True),
        Field(2, "part", Primitive.STRING, required=True),
        Field(3, "height", Primitive.INT),
    )
    schema = Schema(fields, key)
    rows: list[dict[int, Any]] = [
        {1: number // len(key), 2: f"p{number % 2}", 3: number % 7} for number in range(1000)
    ]
    before = rows[:900]
    after = [{**row, 3: row[3] + number % 2} for number, row in enumerate(rows) if number % 5]
    old = KartDatasets(tmp_path / "kart").new(schema, before)
    new = MemoryDatasets(tmp_path / "havasu").new(schema, after)

    found = described(compare(old, new), schema, schema)

    wanted = changes_between(before, after, schema)
    assert found == [
        tuple(None if row is None else canonical_row(row, schema) for row in change)
        for change in wanted
    ]
    assert len(found) == 80 + 180 + 360
    assert max(held) < 30, "of 1700 rows"
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_dataset_that_comes_or_goes_is_all_rows(tmp_path: Path) -> None:
    dataset = KartDatasets(tmp_path).new(SCHEMA, FIRST)
    with LocalEngine(threads=1) as engine:
        (come,) = row_changes(None, dataset, engine)
        (gone,) = row_changes(dataset, None, engine)
        assert changes_counted(None, dataset, engine) == come.counts
        assert changes_counted(dataset, None, engine) == gone.counts
    assert (come.counts.inserts, gone.counts.deletes) == (len(FIRST), len(FIRST))
    assert come.new_rows().column("fid").to_pylist() == list(range(20))


def test_columns_that_are_known_by_name_alone_take_the_id_they_had() -> None:
    key = Field(1, "id", Primitive.LONG, required=True)
    old = Schema((key, Field(2, "a", Primitive.INT), Field(3, "b", Primitive.INT)), (1,))
    new = Schema(
        (
            Field(9, "id", Primitive.LONG, required=True),  # known by its name
            Field(3, "a", Primitive.INT),  # another's id stays
            Field(8, "b", Primitive.INT),  # whose id is taken already
            Field(7, "c", Primitive.INT),  # new
        ),
        (9,),
    )
    found = across._renumbered(old, new)
    assert [(field.id, field.name) for field in found.fields] == [
        *((1, "id"), (3, "a"), (8, "b"), (7, "c"))
    ]
    assert found.identifier_ids == (1,)
