"""How a large merge is dealt out to owners: where keys are cut, and what is written again."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.dealing import Cuts
from havasu_vc.datasets.havasu import diff
from havasu_vc.datasets.havasu import edit as editing
from havasu_vc.datasets.havasu.diff import DiffPlan, MergePlans, plan_merge
from havasu_vc.datasets.havasu.parquet import group_bytes
from havasu_vc.datasets.havasu.pieces import DeletedPiece, FilePiece, Interval, Piece
from havasu_vc.engine.local import LocalEngine
from havasu_vc.formats.havasu.entry import Content, Entry, Origin
from havasu_vc.history import owned_merges
from havasu_vc.history.conflicts import MergePolicy, MergeSchemas, conflict_schema
from havasu_vc.history.owned_merges import (
    SidePieces,
    _cut,
    _shares,
    _sizes,
    _to_be_rewritten,
    can_merge_owned,
    owned_glance,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets
from havasu_vc.testing.tables import Row
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

SCHEMA = Schema(
    (Field(1, "id", Primitive.LONG, required=True), Field(2, "name", Primitive.STRING)), (1,)
)
SCHEMAS = MergeSchemas(SCHEMA, SCHEMA, SCHEMA, SCHEMA)
ROWS: list[Row] = [{1: n, 2: f"name {n}"} for n in range(40)]


def merge_of(*theirs: Piece) -> Any:
    """Return as much of the plans of a merge as tells what is read."""
    plan = SimpleNamespace(old=theirs[:1], new=theirs[1:])
    return SimpleNamespace(theirs=plan, pieces=theirs)


def file_of(path: Path, keys: Sequence[int], groups: int = 1, *, known: bool = True) -> FilePiece:
    """Write a file with row groups of so many rows, each of the same size."""
    column = pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})
    table = pa.table([pa.array(keys, pa.int64())], schema=pa.schema([column]))
    pq.write_table(
        table,
        path,
        row_group_size=groups,
        write_statistics=known,
        compression="none",
        use_dictionary=False,
    )
    return FilePiece(str(path), (), len(keys), 99)


# Where keys are cut

TABLE: Any = SimpleNamespace(schema=SCHEMA)


def in_shares(found: Sequence[int], least: int, each: int) -> list[list[int]]:
    """Return numbers in runs, each ended as soon as what it holds, of `each` bytes, is enough."""
    runs: list[list[int]] = [[]]
    for number in found:
        if len(runs[-1]) * each >= least and runs[-1]:
            runs.append([])
        runs[-1].append(number)
    return runs


@examples(60)
@given(st.sets(st.integers(-50, 50), min_size=1, max_size=20), st.data())
def test_keys_are_cut_for_owners_and_for_what_is_in_memory(
    tmp_path_factory: pytest.TempPathFactory, keys: set[int], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("cuts")
    every = sorted(keys)
    half = data.draw(st.integers(1, len(every)))
    pieces = [file_of(folder / "b", every[half:]), file_of(folder / "a", every[:half])]
    ((_, size), *more) = group_bytes(pieces[1].path)
    assert {each for _, each in more} <= {size}
    about = st.builds(
        lambda count, more: max(count * size + more, 1), st.integers(0, 6), st.integers(-1, 1)
    )
    share, reads = data.draw(about), data.draw(about)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owned_merges, "LEAST_BYTES", share)
        patch.setattr(owned_merges, "MOST_BYTES", share)
        patch.setattr(owned_merges, "READ_BYTES", reads)
        cuts, parts = _cut(TABLE, merge_of(*pieces), 1)

    owners = in_shares(every, share, size)
    assert cuts == Cuts(("id",), tuple(owner[0] for owner in owners[1:]))
    edges = [None, *cuts.values, None]
    assert len(parts) == len(owners)
    for (low, high), owner, found in zip(pairwise(edges), owners, parts, strict=True):
        within = [run[0] for run in in_shares(owner, min(share, reads), size)[1:]]
        assert [(each.low, each.high) for each in found] == list(pairwise([low, *within, high]))
        assert {each.field_id for each in found} == {1}


def test_an_owner_has_a_quarter_of_all_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    piece = file_of(tmp_path / "a", range(20))
    ((_, size), *_) = group_bytes(piece.path)
    for least, most, count in ((0, 99, 5), (0, 4, 4), (7, 99, 7)):
        monkeypatch.setattr(owned_merges, "LEAST_BYTES", least * size)
        monkeypatch.setattr(owned_merges, "MOST_BYTES", most * size)
        cuts, _ = _cut(TABLE, merge_of(piece), 1)
        assert list(cuts.values) == list(range(count, 20, count))


def test_row_groups_that_begin_alike_are_cut_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = [file_of(tmp_path / str(n), [0, 5, 7]) for n in range(3)]
    ((_, size), *_) = group_bytes(pieces[0].path)
    for name in ("LEAST_BYTES", "MOST_BYTES"):
        monkeypatch.setattr(owned_merges, name, size)
    cuts, parts = _cut(TABLE, merge_of(*pieces), 1)
    assert cuts.values == (0, 5, 7)
    for name in ("LEAST_BYTES", "MOST_BYTES"):
        monkeypatch.setattr(owned_merges, name, 100 * size)
    monkeypatch.setattr(owned_merges, "READ_BYTES", size)
    cuts, parts = _cut(TABLE, merge_of(*pieces), 1)
    assert (cuts.values, len(parts)) == ((), 1)
    assert [each.low for each in parts[0]] == [None, 0, 5, 7]


def test_what_is_read_of_row_groups(tmp_path: Path) -> None:
    piece = file_of(tmp_path / "a", [3, 4, 5, 6, 8, 9, 12], 3)
    ((_, first), (_, second), (_, third)) = group_bytes(piece.path)
    assert list(_sizes(piece, 1)) == [(3, first), (6, second), (12, third)]
    assert list(_sizes(file_of(tmp_path / "b", [3, 4], 1, known=False), 1)) == []
    # Of a delete file too, as much as is wanted of it.
    deleted = DeletedPiece(piece.path, {"a": 3, "b": 1}, {}, 9)
    assert list(_sizes(deleted, 1)) == [
        (least, size * 4 // 7) for least, size in ((3, first), (6, second), (12, third))
    ]


# What is written again


FACTS = ("schema", "partition", "order", Origin.IMPORT)


def data(name: str, rows: int, **more: Any) -> Entry:
    return Entry(name, Content.DATA, 10, rows, *FACTS, **more)


def deletes(name: str, size: int, **targets: int) -> Entry:
    return Entry(name, Content.DELETES, size, sum(targets.values()), *FACTS, targets=targets)


def table_of(*entries: Entry) -> Any:
    """Return as much of a dataset as tells of some files."""
    found = [each for each in entries if each.content is Content.DELETES]
    live = [each for each in entries if each.content is Content.DATA]
    return SimpleNamespace(
        data_entries=live,
        delete_entries=found,
        deletes={
            entry.file: [each for each in found if entry.file in each.targets] for entry in live
        },
    )


def goes(name: str, count: int) -> FilePiece:
    return FilePiece(f"folder/{name}", (), count, 9)


def goes_in_part(**wanted: int) -> DeletedPiece:
    return DeletedPiece("x", wanted, {}, 9)


@pytest.fixture(autouse=True)
def small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owned_merges, "MOST_KEYS", 20)
    monkeypatch.setattr(editing, "SMALL_FILE", 100)


def test_what_is_mostly_deleted_is_written_again() -> None:
    """Three tenths of the rows of a file are most of them."""
    table = table_of(
        data("some", 20),
        data("most", 20),
        data("before", 20),
        data("twice", 20),
        data("linked", 20, location="file:///elsewhere"),
        data("other", 20),
        deletes("small", 10, before=1, other=20),
    )
    plans = merge_of(
        goes_in_part(some=5, most=6, before=5, linked=6),
        goes("twice", 3),
        goes_in_part(twice=3),
        goes("not ours", 20),
    )
    assert _to_be_rewritten(table, plans) == {"most", "before", "twice"}


@pytest.mark.parametrize(("count", "found"), [(20, set()), (21, {"a"})])
def test_few_rows_leave_files_as_they_are(count: int, found: set[str]) -> None:
    assert _to_be_rewritten(table_of(data("a", 30)), merge_of(goes("a", count))) == found
    in_two = merge_of(goes("a", 10), goes("a", count - 10))
    assert _to_be_rewritten(table_of(data("a", 30)), in_two) == found


@examples(100)
@given(
    st.dictionaries(
        st.sampled_from("pqrs"), st.sets(st.sampled_from("abcdef"), min_size=1), max_size=4
    ),
    st.sets(st.sampled_from("abcdef")),
    st.sets(st.sampled_from("pqrs")),
)
def test_no_large_delete_file_is_half_replaced(
    over: dict[str, set[str]], leave: set[str], small: set[str]
) -> None:
    table = table_of(
        *(data(name, 100) for name in "abcdef"),
        *(deletes(n, 99 if n in small else 100, **dict.fromkeys(t, 1)) for n, t in over.items()),
    )
    plans = merge_of(goes("elsewhere", 21), *(goes(name, 90) for name in leave))
    found = _to_be_rewritten(table, plans)
    # The most that leave are those of which all whom a delete file ties to them leave too.
    tied = [targets for name, targets in over.items() if name not in small]
    wanted = set()
    for name in leave:
        bound = {name}
        for _ in tied:
            bound |= {other for targets in tied if targets & bound for other in targets}
        if bound <= leave:
            wanted.add(name)
    assert found == wanted


# Which merges owners make, and of what


def forked(
    datasets: MemoryDatasets, ours: list[Row], theirs: list[Row], schema: Schema = SCHEMA
) -> MergePlans:
    """Return the plans of a merge of two tables into which the usual one was edited."""
    base = datasets.new(schema, ROWS)
    sides = [
        datasets.apply(base, stream_of(changes_between(ROWS, rows, schema), schema))
        for rows in (ours, theirs)
    ]
    return plan_merge(base, *sides)


def renamed(*keys: int, name: str) -> list[Row]:
    return [{**row, 2: name} if row[1] in keys else row for row in ROWS]


def test_which_merges_owners_make(tmp_path: Path) -> None:
    datasets = MemoryDatasets(tmp_path)
    plans = forked(datasets, renamed(3, name="ours"), renamed(9, name="theirs"))
    other = Schema((SCHEMA.fields[0], replace(SCHEMA.fields[1], required=True)), (2,))
    assert can_merge_owned(plans, SCHEMAS)
    assert can_merge_owned(plans, replace(SCHEMAS, without=SCHEMA)), "columns that come back"
    for schemas in (
        replace(SCHEMAS, merged=replace(SCHEMA, identifier_ids=())),
        replace(SCHEMAS, base=other),
        replace(SCHEMAS, theirs=other),
        MergeSchemas(other, other, other, other),
    ):
        assert not can_merge_owned(plans, schemas)
    for side in ("ours", "theirs"):
        dealt = replace(plans, **{side: replace(getattr(plans, side), dealt=True)})
        assert can_merge_owned(dealt, SCHEMAS), "rows that are dealt out have owners as well"


def test_files_that_are_away_keep_owners_from_merging(tmp_path: Path) -> None:
    datasets = MemoryDatasets(tmp_path)
    datasets.storage = replace(datasets.storage, on_demand=True)
    plans = forked(datasets, renamed(3, name="ours"), renamed(9, name="theirs"))
    assert can_merge_owned(plans, SCHEMAS)
    for side in plans.views[1:]:
        (file,) = (e.file for e in side.data_entries if e.file not in plans.views[0].entries)
        place = datasets.storage.path(file)
        place.rename(place.with_suffix(".away"))
        assert not can_merge_owned(plans, SCHEMAS)
        place.with_suffix(".away").rename(place)
    assert can_merge_owned(plans, SCHEMAS)


def answers_of(keys: Sequence[int]) -> pa.Table:
    """Return conflicts of some rows, as people have answered them."""
    sides = [{"id": key, "name": "x"} for key in keys]
    every = [{"kind": "edit", "columns": ["name"], "theirs": row, "merged": row} for row in sides]
    return pa.Table.from_pylist(every, schema=conflict_schema(SCHEMA))


def keys_in(answers: pa.Table | None) -> list[int]:
    assert answers is not None
    return [row["theirs"]["id"] for row in answers.to_pylist()]


def owned_of(datasets: MemoryDatasets, patch: pytest.MonkeyPatch, share: int) -> MergePlans:
    """Return the plans of a merge of which owners have so many row groups, of three rows each."""
    for name in ("LEAST_BYTES", "MOST_BYTES"):
        patch.setattr(owned_merges, name, share)
    patch.setattr(owned_merges, "READ_BYTES", 1)
    patch.setattr(diff, "SMALL_ROWS", 0)
    with tiny_thresholds(group_rows=3):
        return forked(
            datasets,
            renamed(*range(0, 40, 2), name="ours"),
            renamed(*range(0, 40, 3), name="theirs"),
        )


@pytest.mark.parametrize("share", [1, 400, 1 << 20])
def test_each_owner_has_what_may_differ_of_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    plans = owned_of(MemoryDatasets(tmp_path), monkeypatch, share)
    answers = answers_of([-5, *range(0, 40, 6), 99])
    policy = MergePolicy()
    cuts, shares = _shares(plans, SCHEMAS, policy, answers)
    assert [each.number for each in shares] == list(range(len(cuts.values) + 1))
    assert any(len(each.intervals) > 1 for each in shares) or share == 1
    found = [key for each in shares for key in keys_in(each.answers)]
    assert found == [-5, *range(0, 40, 6), 99]
    changed: list[tuple[list[int], list[int]]] = []
    for each, (low, high) in zip(shares, pairwise((None, *cuts.values, None)), strict=True):
        assert (each.intervals[0].low, each.intervals[-1].high) == (low, high)
        for key in keys_in(each.answers):
            assert (low is None or key >= low) and (high is None or key < high)
        sides: list[list[int]] = []
        for side in (each.ours, each.theirs):
            batches = list(side.changes(each.intervals))
            assert all(map(len, batches)), "no batch is empty"
            sides.append([row["id"] for b in batches for row in b.new_rows().to_pylist()])
        changed.append((sides[0], sides[1]))
    assert [key for ours, _ in changed for key in ours] == list(range(0, 40, 2))
    assert [key for _, theirs in changed for key in theirs] == list(range(0, 40, 3))
    assert all(each.answers is None for each in _shares(plans, SCHEMAS, policy, None)[1])
    none = _shares(plans, SCHEMAS, policy, answers.slice(0, 0))[1]
    assert [keys_in(each.answers) for each in none] == [[] for _ in shares]


def test_an_owner_has_no_pieces_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = owned_of(MemoryDatasets(tmp_path), monkeypatch, 1)
    (file,) = plans.ours.new
    assert isinstance(file, FilePiece)
    plan = DiffPlan((), (file,), SCHEMA, SCHEMA)
    alone = MergePlans(plans.views, plan, replace(plan, new=()))
    _, shares = _shares(alone, SCHEMAS, MergePolicy(), None)
    assert {each.ours for each in shares} == {SidePieces((), (file,), SCHEMA, SCHEMA)}
    assert {each.theirs for each in shares} == {SidePieces((), (), SCHEMA, SCHEMA)}


@pytest.mark.parametrize("most", [1, 3, 100])
def test_a_glance_tells_the_first_conflicts_by_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    plans = owned_of(MemoryDatasets(tmp_path), monkeypatch, 400)
    with LocalEngine(threads=1, scratch=tmp_path) as engine:
        count, found = owned_glance(plans, SCHEMAS, MergePolicy(), most, engine)
    every = list(range(0, 40, 6))
    assert count == len(every)
    assert [row["ours"]["id"] for b in found for row in b.to_pylist()] == every[:most]


def test_an_interval_with_every_key_takes_all_answers() -> None:
    whole = Interval(1, None, None)
    answers = answers_of([3, 1])
    assert owned_merges._within(answers, whole, SCHEMAS) is answers
