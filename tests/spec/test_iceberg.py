"""Iceberg tables as a whole: what a reader sees, opens and waits for."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.writing import write_data_files
from havasu_vc.errors import SchemaViolationError
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.model.evolution import check_evolution, field_ids, match_by_name
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Primitive, Struct, Type
from havasu_vc.store.files import DataFileStore
from havasu_vc.tables.table import read_table
from tests.tables.making import TableMaker
from tests.tables.test_scanning import NAME, SCHEMA, ids, numbered

KEY = Field(1, "id", Primitive.LONG, required=True)
INT = Field(3, "x", Primitive.INT)


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    return TableMaker(tmp_path / "t", SCHEMA)


@pytest.mark.rule("ICE-3")
def test_a_reader_sees_the_snapshot_that_it_opened(maker: TableMaker) -> None:
    maker.commit(maker.data(numbered(1, 2)))
    opened = read_table(maker.location)

    maker.commit(maker.data(numbered(3)))

    assert ids(opened) == [1, 2]
    assert ids(read_table(maker.location)) == [1, 2, 3]


@pytest.mark.rule("ICE-5", "ICE-7")
def test_files_are_found_by_manifests_and_no_folder_is_listed(
    maker: TableMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = maker.data(numbered(1))
    maker.commit(kept)
    maker.data(numbered(7))  # in the folder, but in no manifest

    with listed(monkeypatch) as folders:
        assert ids(read_table(maker.location)) == [1]

    assert folders == []


@contextmanager
def listed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Give the folders that are listed."""
    found: list[str] = []
    with monkeypatch.context() as patch:
        for name in ("listdir", "scandir"):
            function = getattr(os, name)

            def watched(path: Any = ".", function: Any = function) -> Any:
                found.append(str(path))
                return function(path)

            patch.setattr(os, name, watched)
        yield found


@pytest.mark.rule("ICE-40")
def test_no_column_is_left_out_in_writing(tmp_path: Path) -> None:
    layout = FileLayout(Schema((KEY, NAME), (1,)), "", "", "")
    batch = pa.record_batch({"id": pa.array([1], pa.int64())})

    with pytest.raises((ValueError, pa.ArrowException)):
        list(write_data_files([batch], layout, DataFileStore(tmp_path), None, origin=Origin.IMPORT))


@pytest.mark.rule("ICE-43")
def test_a_column_that_comes_again_is_another() -> None:
    old = Schema((KEY, NAME), (1,))
    without = match_by_name(old, Schema((KEY,), (1,)), field_ids(9, source=random.Random(1)))

    again = match_by_name(without, old, field_ids(9, source=random.Random(2)))

    assert without.names == ("id",)
    assert again.names == ("id", "name")
    assert again.fields[1].id > 9


NESTED = [
    (Primitive.INT, Struct((INT,))),
    (Struct((INT,)), Primitive.INT),
    (Struct((INT,)), List(INT)),
    (
        Map(Field(4, "key", Primitive.STRING, required=True), Field(5, "value", Primitive.INT)),
        Map(Field(4, "key", Primitive.STRING, required=True), Field(5, "value", Struct((INT,)))),
    ),
]


@pytest.mark.rule("ICE-45")
@pytest.mark.parametrize(("old", "new"), NESTED)
def test_simple_columns_stay_simple_and_nested_ones_nested(old: Type, new: Type) -> None:
    before, after = (Schema((KEY, Field(9, "c", each)), (1,)) for each in (old, new))

    with pytest.raises(SchemaViolationError, match="cannot become"):
        check_evolution(before, after)


@pytest.mark.rule("ICE-44")
def test_columns_move_neither_into_others_nor_out_of_them() -> None:
    flat = Schema((KEY, INT, Field(9, "s", Struct((Field(10, "y", Primitive.INT),)))), (1,))
    inside = Schema((KEY, Field(9, "s", Struct((Field(10, "y", Primitive.INT), INT)))), (1,))

    for old, new in ((flat, inside), (inside, flat)):
        with pytest.raises(SchemaViolationError, match="'x' cannot move") as caught:
            check_evolution(old, new)
        assert caught.value.hints
