"""Tables taken in: sorted and unique by key, whatever order their rows come in."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets import sorting
from havasu_vc.datasets.folder import edited
from havasu_vc.datasets.havasu.build import NewDataset
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import KeyViolationError
from havasu_vc.exchange import importing
from havasu_vc.exchange.importing import Curve, write_table
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, task_of
from havasu_vc.model.types import Field, Geometry, Primitive
from havasu_vc.testing.kernels import given_rows
from havasu_vc.testing.memory import MemoryDatasets, recomputed_digests, rows_in
from havasu_vc.testing.tables import (
    Row,
    batch_of,
    canonical_row,
    key_of,
    key_order,
    rows_of,
    schemas,
)
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

KEYED = Schema(
    (Field(1, "fid", Primitive.LONG, required=True), Field(2, "name", Primitive.STRING)), (1,)
)
GEOMETRY = Field(99, "where", Primitive.BINARY, geometry=Geometry())


@pytest.fixture(autouse=True)
def small_sorts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sorting, "RUN_BYTES", 100)
    monkeypatch.setattr(sorting, "RANGE_BYTES", 100)
    monkeypatch.setattr(sorting, "_SAMPLE", 1)
    monkeypatch.setattr(sorting, "_BATCH", 2)
    monkeypatch.setattr(importing, "RANGES_A_TASK", 2)
    with tiny_thresholds():
        yield


def tasks_of(rows: Sequence[Row], schema: Schema, cut: int) -> list[Task]:
    # A schema for files need not refuse nulls, so that keys can lack values.
    return [
        task_of(given_rows, batch_of(rows[i : i + cut], schema)) for i in range(0, len(rows), cut)
    ]


def imported(
    datasets: MemoryDatasets,
    rows: Sequence[Row],
    schema: Schema,
    *,
    cut: int = 4,
    hilbert: Field | None = None,
    input_bytes: int = 0,
) -> HavasuDataset:
    number = None if hilbert is None else hilbert.id
    new = NewDataset("parcels", schema, table_uuid="test", meta={}, hilbert=number)
    with LocalEngine(threads=2) as engine:
        files = write_table(
            tasks_of(rows, schema, cut),
            new,
            datasets.storage,
            engine,
            input_bytes=input_bytes,
            curve=None if hilbert is None else Curve(hilbert.name),
        )
    return datasets.view(edited(None, new.edit(files)))


def table(rows: Sequence[Row], schema: Schema) -> list[str]:
    return sorted(repr(canonical_row(row, schema)) for row in rows)


@examples(40, deadline=None)
@given(data=st.data(), schema=schemas(), in_order=st.booleans(), hilbert=st.booleans())
def test_every_row_comes_in_once_and_in_order(
    data: st.DataObject,
    schema: Schema,
    in_order: bool,
    hilbert: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    schema = Schema((*schema.fields, GEOMETRY), schema.identifier_ids)
    unique_by = (lambda row: key_of(row, schema)) if schema.key else None
    rows = data.draw(st.lists(rows_of(schema), max_size=24, unique_by=unique_by))
    if in_order and schema.key:
        rows.sort(key=lambda row: key_order(key_of(row, schema)))
    datasets = MemoryDatasets(tmp_path_factory.mktemp("importing"))
    cut = data.draw(st.integers(1, 8))
    large = data.draw(st.sampled_from([0, 1 << 30]))

    view = imported(
        datasets, rows, schema, cut=cut, hilbert=GEOMETRY if hilbert else None, input_bytes=large
    )

    assert table(rows_in(view), schema) == table(rows, schema)
    assert view.rows == len(rows)
    assert view.snapshot.digests == recomputed_digests(view)
    assert not list(datasets.storage.staging.scratch.glob("*"))
    if schema.key and not hilbert:
        for entry in view.data_entries:
            keys = [
                key_order(key_of(row, schema)) for row in rows_of_file(view, entry.file, schema)
            ]
            assert keys == sorted(keys)


def rows_of_file(view: HavasuDataset, file: str, schema: Schema) -> list[Row]:
    from havasu_vc.datasets.havasu.parquet import read_row_groups

    found: list[Row] = []
    for batch in read_row_groups(str(view.storage.path(file)), schema):
        found += [
            {field.id: row[field.name] for field in schema.fields} for row in batch.to_pylist()
        ]
    return found


@pytest.mark.parametrize("places", [(0, 1), (3, 4), (0, 11)])
@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("hilbert", [False, True])
def test_a_key_that_stands_twice_is_refused(
    tmp_path: Path, places: tuple[int, int], in_order: bool, hilbert: bool
) -> None:
    schema = Schema((*KEYED.fields, GEOMETRY), (1,))
    rows: list[Row] = [{1: number, 2: str(number), 99: None} for number in range(12)]
    rows[places[1]][1] = rows[places[0]][1]
    if in_order:
        rows.sort(key=lambda row: row[1])

    with pytest.raises(KeyViolationError, match=f"the key {rows[places[0]][1]} is there twice"):
        imported(MemoryDatasets(tmp_path), rows, schema, hilbert=GEOMETRY if hilbert else None)


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("hilbert", [False, True])
def test_a_key_without_a_value_is_refused(tmp_path: Path, in_order: bool, hilbert: bool) -> None:
    schema = Schema((*KEYED.fields, GEOMETRY), (1,))
    rows: list[Row] = [{1: number, 2: "x", 99: None} for number in range(12)]
    if not in_order:
        rows.reverse()
    rows[7][1] = None

    with pytest.raises(KeyViolationError, match="no value in its key column 'fid'"):
        imported(MemoryDatasets(tmp_path), rows, schema, hilbert=GEOMETRY if hilbert else None)


def test_equal_rows_without_a_key_all_come_in(tmp_path: Path) -> None:
    """Each task makes the same file; all of them must stand."""
    schema = Schema(KEYED.fields[1:])

    view = imported(MemoryDatasets(tmp_path), [{2: "same"}] * 12, schema, input_bytes=1 << 30)

    assert len(view.entries) == 3
    assert rows_in(view) == [{2: "same"}] * 12


def test_the_same_input_gives_the_same_files(tmp_path: Path) -> None:
    rows: list[Row] = [{1: number * 7 % 30, 2: "x" * number} for number in range(30)]

    views = [imported(MemoryDatasets(tmp_path / name), rows, KEYED) for name in ("a", "b")]

    assert list(views[0].entries) == list(views[1].entries)
    assert views[0].folder.tree_id("files") == views[1].folder.tree_id("files")


@pytest.mark.parametrize(
    ("megabytes", "tasks", "lengths"),
    [
        (1, 1, [1]),
        (1, 10, [5, 5]),
        (256, 10, [5, 5]),
        (382, 10, [2, 3, 3, 2]),
        (382, 3, [1, 1, 1]),
        (1300, 60, [5] * 12),
    ],
)
def test_work_is_cut_for_an_even_number(megabytes: int, tasks: int, lengths: list[int]) -> None:
    given = [task_of(given_rows, number) for number in range(tasks)]
    chunks = importing.chunks_of(given, megabytes << 20)
    assert [len(chunk) for chunk in chunks] == lengths
    assert [task for chunk in chunks for task in chunk] == given


def test_an_empty_source_makes_an_empty_dataset(tmp_path: Path) -> None:
    view = imported(MemoryDatasets(tmp_path), [], KEYED)

    assert view.rows == 0
    assert not view.entries
    assert arrow_schema(view.schema) == arrow_schema(KEYED)
