"""Orders to owners of intervals of keys: where keys are cut, and who has which files and rows."""

from collections.abc import Generator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.dealing import Cuts
from havasu_vc.datasets.havasu import edit as editing
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.owners import OwnerReport, report_batch
from havasu_vc.datasets.havasu.pieces import DeletedPiece, FilePiece
from havasu_vc.datasets.havasu.writing import WrittenFile
from havasu_vc.errors import EngineError
from havasu_vc.formats.havasu.entry import ColumnStatistics, Content, Entry, Origin
from havasu_vc.history import owned_edits
from havasu_vc.history.owned_edits import (
    can_be_owned,
    collect_owned,
    cuts_of,
    key_edges,
    owner_values,
    pieces_of,
)
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Geometry, Primitive
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row
from tests.support.examples import examples

SCHEMA = Schema(
    (Field(1, "id", Primitive.LONG, required=True), Field(2, "name", Primitive.STRING)), (1,)
)
GEOMETRY = Field(99, "where", Primitive.BINARY, geometry=Geometry())
ROWS: list[Row] = [{1: n, 2: f"name {n}"} for n in range(40)]


def data(name: str, low: Any, high: Any, *, size: int = 10, **more: Any) -> Entry:
    """Return the entry of a data file whose keys are between two, where that is known."""
    known = {} if low is None and high is None else {1: ColumnStatistics(9, 0, 9, None, low, high)}
    facts = ("schema", "partition", "order", Origin.IMPORT)
    return Entry(name, Content.DATA, size, 9, *facts, statistics=known, **more)


def deletes(name: str, *targets: str, size: int = 10) -> Entry:
    facts = ("schema", "partition", "order", Origin.EDIT)
    return Entry(name, Content.DELETES, size, 9, *facts, targets=dict.fromkeys(targets, 3))


def edit_of(entries: Sequence[Entry], folder: Path = Path()) -> Any:
    """Return as much of an edit as tells of some files."""
    every = {each.file: each for each in entries}
    storage = SimpleNamespace(
        staging=SimpleNamespace(root=folder / "new" / "staging"), keys=folder / "keys"
    )
    dataset = SimpleNamespace(
        path="parcels",
        schema=SCHEMA,
        key=SCHEMA.key,
        entries=every,
        data_entries=[each for each in entries if each.content is Content.DATA],
        storage=storage,
        file_path=lambda entry: f"here/{entry.file}",
        delete_paths=lambda entry: tuple(
            f"here/{each.file}" for each in entries if entry.file in each.targets
        ),
    )
    return SimpleNamespace(dataset=dataset, schema=SCHEMA, layout="the layout")


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [(None, None, (None, None)), (3, None, (None, None)), (None, 3, (None, None)), (3, 5, (3, 5))],
)
def test_the_edges_of_a_file_are_known_together(low: Any, high: Any, found: Any) -> None:
    assert key_edges(edit_of([]).dataset, data("a", low, high)) == found


def test_edges_that_are_no_keys_are_not_known() -> None:
    dated = Schema((Field(1, "day", Primitive.DATE, required=True),), (1,))
    dataset: Any = SimpleNamespace(key=dated.key)
    assert key_edges(dataset, data("a", "no day", "2024-01-01")) == (None, None)


@examples(200)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 3)), unique_by=lambda file: file[0]),
    st.integers(1, 8),
)
def test_keys_are_cut_once_there_is_enough_between(
    files: list[tuple[int, int]], least: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owned_edits, "OWNER_BYTES", least)
        cuts = cuts_of(edit_of([data(str(low), low, 99, size=size) for low, size in files])).values
    wanted, waiting = [], 0
    for low, size in sorted(files):
        if waiting >= least:
            wanted.append(low)
            waiting = 0
        waiting += size
    assert list(cuts) == wanted


def test_files_that_begin_alike_are_cut_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 10)
    lows = [0, 5, 5, 5, 7, 7, 7, None]
    edit = edit_of([data(str(n), low, low and 99) for n, low in enumerate(lows)])
    assert cuts_of(edit) == Cuts(("id",), (5, 7))


@pytest.fixture
def large_from_100(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editing, "SMALL_FILE", 100)


CUTS = Cuts(("id",), (10, 20))


@pytest.mark.usefixtures("large_from_100")
def test_owners_are_told_of_their_files(tmp_path: Path) -> None:
    entries = [
        data("first", 0, 9),
        data("second", 10, 19),
        data("linked", 10, 12, location="file:///elsewhere"),
        data("both", 5, 15),
        data("third", 20, 29),
        data("more", 21, 22),
        data("unknown", None, None),
        deletes("small", "second", "third"),
        deletes("of one", "first", size=100),
        deletes("of a small one", "second"),
        deletes("of two", "third", "second", size=100),
        deletes("of more", "more", size=200),
    ]
    edit = edit_of(entries, tmp_path)
    for _ in range(2):  # the folder may be there already
        owners = owner_values(edit, CUTS, "change")
        assert (tmp_path / "new" / "staging").is_dir()
    assert [(each.interval.low, each.interval.high) for each in owners] == [
        (None, 10),
        (10, 20),
        (20, None),
    ]
    assert [{file.name: file.whole for file in each.files} for each in owners] == [
        {"first": True, "both": False, "unknown": False},
        {"second": False, "linked": False, "both": False, "unknown": False},
        {"third": False, "more": True, "unknown": False},
    ]
    assert [[each.name for each in owner.deletes] for owner in owners] == [
        ["of one"],
        [],
        ["of more"],
    ]
    (of_one,) = owners[0].deletes
    assert (of_one.path, of_one.targets) == ("here/of one", ("first",))
    first = owners[0].files[0]
    assert (first.path, first.rows, first.origin) == ("here/first", 9, Origin.IMPORT)
    assert first.deletes == ("here/of one",)
    for owner in owners:
        assert (owner.path, owner.mode) == ("parcels", "change")
        assert owner.layout is edit.layout
        assert owner.interval.field_id == 1
        assert owner.place == str(tmp_path / "new" / "staging")
        assert owner.keys == str(tmp_path / "keys")
        assert owner.few == owned_edits.FEW_ROWS // 3


@pytest.mark.usefixtures("large_from_100")
def test_large_deletes_of_files_of_two_owners_keep_these(tmp_path: Path) -> None:
    entries = [data("a", 0, 9), data("b", 10, 19), data("c", 11, 12), data("d", 20, 29)]
    found = [deletes("ab", "a", "b", size=100), deletes("cd", "c", "d", size=100)]
    for spanning, whole in ((found, []), (found[:1], ["c", "d"]), ([], ["a", "b", "c", "d"])):
        owners = owner_values(edit_of([*entries, *spanning], tmp_path), CUTS, "change")
        assert [file.name for each in owners for file in each.files if file.whole] == whole
        assert not any(each.deletes for each in owners)


def test_who_writes_to_a_url_makes_no_key_caches(tmp_path: Path) -> None:
    edit = edit_of([data("a", 0, 9)], tmp_path)
    (owner,) = owner_values(edit, Cuts(("id",), ()), "upsert", url="s3://bucket/new")
    assert (owner.place, owner.keys, owner.mode) == ("s3://bucket/new", None, "upsert")


# Pieces of a comparison


def file_with(path: Path, keys: Sequence[int], groups: int, *, known: bool = True) -> str:
    """Write a file with row groups of so many rows, whose least and greatest keys may be known."""
    column = pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})
    table = pa.table([pa.array(keys, pa.int64())], schema=pa.schema([column]))
    pq.write_table(table, path, row_group_size=groups, write_statistics=known)
    return str(path)


def delete_file_with(path: Path, keys: Sequence[int], groups: int, *, known: bool) -> str:
    """Write a delete file that carries the keys of its rows."""
    row = pa.struct([pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})])
    columns = {
        "file": ["a"] * len(keys),
        "pos": list(range(len(keys))),
        "row": pa.array([{"id": key} for key in keys], row),
    }
    schema = pa.schema([("file", pa.string()), ("pos", pa.int64()), pa.field("row", row)])
    pq.write_table(pa.table(columns, schema), path, row_group_size=groups, write_statistics=known)
    return str(path)


def spans(known: tuple[int | None, int | None], cuts: Sequence[int]) -> list[int]:
    """Return which intervals hold a key between two, as one looks for a thing in boxes."""
    low, high = known
    edges = [-(1 << 60), *cuts, 1 << 60]
    low, high = (edges[0] if low is None else low), (edges[-1] if high is None else high)
    return [n for n in range(len(cuts) + 1) if low < edges[n + 1] and high >= edges[n]]


@examples(100)
@given(st.data())
def test_owners_get_the_deleted_rows_that_may_be_theirs(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.sets(st.integers(0, 40), max_size=4)))
    groups = data.draw(st.integers(1, 5))
    keys = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True))
    known = data.draw(st.booleans())
    path = delete_file_with(tmp_path_factory.mktemp("p") / "d", keys, groups, known=known)
    some = [keys[start : start + groups] for start in range(0, len(keys), groups)]
    edges = [(min(group), max(group)) if known else (None, None) for group in some]
    piece = DeletedPiece(path, {"a": len(keys)}, {"a": "nowhere"}, 8)
    found = list(pieces_of(piece, Cuts(("id",), tuple(cuts)), 1, {}))

    assert [owner for owner, _ in found] == sorted({n for each in edges for n in spans(each, cuts)})
    assert all(each == piece for _, each in found)


def test_a_file_goes_to_all_whose_keys_it_may_hold() -> None:
    piece = FilePiece("folder/a", (), 9, 10)
    for edges in ((0, 9), (10, 10), (9, 10), (5, 25), (19, 20), (20, None), (None, 3)):
        found = list(pieces_of(piece, CUTS, 1, {"a": edges}))
        assert found == [(owner, piece) for owner in spans(edges, CUTS.values)]
    assert list(pieces_of(piece, CUTS, 1, {})) == [(0, piece), (1, piece), (2, piece)]


# What comes back


def reporting(*reports: OwnerReport) -> Generator[pa.RecordBatch, None, None]:
    yield from map(report_batch, reports)


def test_tables_in_key_order_may_be_owned(tmp_path: Path) -> None:
    datasets = MemoryDatasets(tmp_path)
    view = datasets.new(SCHEMA, ROWS)
    assert can_be_owned(view, SCHEMA)
    other = Schema((*SCHEMA.fields[:1], replace(SCHEMA.fields[1], required=True)), (2,))
    assert not can_be_owned(view, other)
    where = Schema((*SCHEMA.fields, GEOMETRY), (1,))
    rows: list[Row] = [{**row, 99: None} for row in ROWS]
    assert can_be_owned(datasets.new(where, rows), where)
    assert not can_be_owned(datasets.new(where, rows, hilbert=99), where)


def test_files_of_owners_must_be_here_unless_they_went_to_a_url(tmp_path: Path) -> None:
    view = MemoryDatasets(tmp_path).new(SCHEMA, ROWS)
    absent = WrittenFile(replace(next(iter(view.entries.values())), file="f" * 64))
    report = OwnerReport(files=(absent,), counts=ChangeCounts(1, 2, 3), host="there")
    with Edit(view) as edit:
        with pytest.raises(EngineError, match=r"worker on there wrote is not here: f{64}$"):
            collect_owned(edit, lambda: reporting(report))
        assert edit.counts == ChangeCounts()
        assert collect_owned(edit, lambda: reporting(report), url="s3://bucket") == []
        assert edit.counts == ChangeCounts(1, 2, 3)


def test_what_owners_set_aside_comes_in_key_order(tmp_path: Path) -> None:
    view = MemoryDatasets(tmp_path).new(SCHEMA, ROWS)
    aside = [pa.record_batch({"number": [n]}) for n in range(3)]
    reports = [
        OwnerReport(counts=ChangeCounts(1), number=2, aside=(aside[1], aside[2])),
        OwnerReport(counts=ChangeCounts(1), number=1),
        OwnerReport(counts=ChangeCounts(1), number=0, aside=(aside[0],)),
    ]
    assert OwnerReport().number == 0
    with Edit(view) as edit:
        assert collect_owned(edit, lambda: reporting(*reports)) == aside
        assert edit.counts.inserts == 3
