"""Whole rows are looked for only in files, and row groups, whose statistics allow them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.datasets.havasu.locate import entries_holding
from havasu_vc.datasets.havasu.parquet import read_row_groups
from havasu_vc.datasets.havasu.ruling_out import files_of_rows, groups_of_rows
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.tables import NO_KEY, write
from tests.support.templates import empty_repo

Row = dict[str, Any]


def shape(place: int | None) -> bytes | None:
    return None if place is None else shapely.to_wkb(shapely.Point(place, 5))


def row(number: int | None, text: str | None, place: int | None, day: int = 1) -> Row:
    return {"number": number, "text": text, "geom": shape(place), "real": float(day)}


FILES: list[list[Row]] = [
    [row(1, "a", 10), row(9, "b" * 20, 11), row(4, "az", 19), row(5, "b", 12)],
    [row(20, "k", 40), row(25, None, 45), row(22, "l", None), row(29, "m", 49)],
    [row(None, "k", 41), row(25, "\U0010ffff" * 20, 42), row(21, "", 49), row(2, "k", 42)],
]
SCHEMA = pa.schema(
    {"number": pa.int32(), "text": pa.string(), "geom": pa.binary(), "real": pa.float64()}
)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    found = empty_repo(tmp_path / "repo")
    pieces = [pa.Table.from_pylist(rows, schema=SCHEMA) for rows in FILES]
    with tiny_thresholds(most_deltas=9, group_rows=2):
        found.import_(write(tmp_path / "t.parquet", pieces[0]), "t", options=NO_KEY)
        for piece in pieces[1:]:
            found.write("t", piece, mode="append")
    return found


def view_of(repo: Repo) -> HavasuDataset:
    view = repo.dataset("t")
    assert isinstance(view, HavasuDataset)
    return view


def places(view: HavasuDataset, *rows: Row) -> dict[int, list[int]]:
    """Return the row groups of each file, by its number, that may have one of some rows."""
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(view.schema))
    text = view.schema.by_name["text"].id
    lowest: dict[str, Any] = {e.file: e.statistics[text].lower for e in view.data_entries}
    number = {"a": 0, "k": 1, "": 2}
    return {
        number[lowest[entry.file]]: groups_of_rows(view.file_path(entry), batch, view.schema)
        for entry in entries_holding(view, batch)
    }


def test_no_row_is_ruled_out_where_it_is(repo: Repo) -> None:
    view = view_of(repo)
    for entry in view.data_entries:
        path = view.file_path(entry)
        for group in (0, 1):
            (rows,) = read_row_groups(path, view.schema, groups=[group])
            for each in (rows, *(rows.slice(index, 1) for index in range(rows.num_rows))):
                assert entry in entries_holding(view, each)
                assert group in groups_of_rows(path, each, view.schema)


def test_a_row_is_looked_for_where_all_of_its_columns_may_be(repo: Repo) -> None:
    view = view_of(repo)
    assert set(places(view, row(4, "az", 19))) == {0}
    assert places(view, row(4, "az", 50)) == {}, "no file has anything there"
    assert set(places(view, row(25, None, 45))) == {1}, "the others have no text that is null"
    assert 0 not in places(view, row(None, "az", 12)), "it has no number that is null"
    assert set(places(view, row(4, "az", 12), row(29, "m", 49))) == {0, 1}
    assert len(places(view, row(1, "a", 10))[0]) == 1, "no other group has such a number"


def test_a_file_that_lacks_a_column_has_nulls_there(repo: Repo) -> None:
    view = view_of(repo)
    new = Field(view.schema.last_id + 1, "new", Primitive.LONG)
    schema = Schema((*view.schema.fields, new), ())
    for value, files in ((None, 1), (7, 0)):
        rows = [{**row(4, "b", 12), "new": value}]
        batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))
        found = files_of_rows(view.data_entries, batch, schema, lambda _: view.schema)
        assert len(found) == files, value
