"""Owners take the differences of two versions, and rows at known places, out of and into files."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets import dealing
from havasu_vc.datasets.havasu import diff
from havasu_vc.datasets.havasu.diff import plan_diff
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.protocol import Batches
from havasu_vc.formats.havasu.entry import Content, Entry
from havasu_vc.history import owned_changes, owned_deletes, owned_edits
from havasu_vc.history.owned_changes import take_changes
from havasu_vc.history.owned_deletes import for_owners, take_away
from havasu_vc.history.summing import add_up
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task
from havasu_vc.model.types import Field, Geometry, Primitive
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import KartDatasets, MemoryDatasets, recomputed_digests, rows_in
from havasu_vc.testing.tables import Row
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

SCHEMA = Schema(
    (
        Field(1, "id", Primitive.LONG, required=True),
        Field(2, "name", Primitive.STRING),
        Field(3, "shape", Primitive.BINARY, geometry=Geometry()),
    ),
    (1,),
)
TABLE = st.dictionaries(st.integers(0, 30), st.sampled_from("abc"), max_size=20)


def rows_of(table: dict[int, str]) -> list[Row]:
    return [{1: key, 2: name, 3: None} for key, name in table.items()]


def table_of(dataset: HavasuDataset) -> dict[int, str]:
    found = rows_in(dataset)
    assert len({row[1] for row in found}) == len(found)
    return {row[1]: row[2] for row in found}


class Watched(LocalEngine):
    """An engine that notes how it is asked to deal."""

    asked: list[tuple[int, int, bool]]
    """For each time: how many tasks deal, how many own, and whether they may run anywhere."""

    def run_dealt(
        self,
        dealing: Sequence[Task],
        owners: Sequence[Task],
        *,
        description: str = "",
        anywhere: bool = True,
    ) -> Batches:
        """Note it, and run them."""
        self.asked.append((len(dealing), len(owners), anywhere))
        return super().run_dealt(dealing, owners, description=description, anywhere=anywhere)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    set_small(monkeypatch)


def set_small(patch: pytest.MonkeyPatch) -> None:
    """Let owners take what is small, each a row group."""
    patch.setattr(owned_edits, "OWNER_BYTES", 1)
    patch.setattr(owned_changes, "LEAST_ROWS", 0)
    patch.setattr(owned_deletes, "LEAST_ROWS", 0)
    patch.setattr(diff, "SMALL_ROWS", 0)
    patch.setattr(diff, "SMALL_BYTES", 0)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Watched]:
    with watched(tmp_path) as made:
        yield made


def watched(folder: Path) -> Watched:
    made = Watched(threads=1, scratch=folder)
    made.asked = []
    return made


def assert_sound(dataset: HavasuDataset) -> None:
    assert dataset.rows == len(rows_in(dataset))
    assert dataset.digests == recomputed_digests(dataset)


def taken(datasets: MemoryDatasets, old: Any, new: Any, engine: LocalEngine) -> HavasuDataset:
    with Edit(old) as edit:
        take_changes(edit, old, new, engine)
        return datasets.after(old, edit.finish())


@examples(15)
@given(TABLE, TABLE, TABLE, st.randoms(use_true_random=False))
def test_what_differs_is_taken_in_whatever_order_it_lies(
    tmp_path_factory: pytest.TempPathFactory,
    first: dict[int, str],
    before: dict[int, str],
    after: dict[int, str],
    random: Any,
) -> None:
    """Rows in key order are read in place, others are dealt out, and both come to the same."""
    folder = tmp_path_factory.mktemp("owned")
    datasets = MemoryDatasets(folder)
    shuffled = list(after.items())
    random.shuffle(shuffled)
    with pytest.MonkeyPatch.context() as patch, watched(folder) as engine:
        set_small(patch)
        with tiny_thresholds(group_rows=3):
            old = datasets.new(SCHEMA, rows_of(first))
            changes = changes_between(rows_of(first), rows_of(before), SCHEMA)
            old = datasets.apply(old, stream_of(changes, SCHEMA))
            for order in (None, 3):
                new = datasets.new(SCHEMA, rows_of(dict(shuffled)), hilbert=order)
                result = taken(datasets, old, new, engine)
                assert table_of(result) == after
                assert_sound(result)
                if after and after not in (first, before):
                    tasks, _, anywhere = engine.asked[-1]
                    assert (tasks > 0) == (order is not None) and anywhere


@examples(15)
@given(TABLE, TABLE, st.randoms(use_true_random=False))
def test_both_sides_may_be_dealt_out(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[int, str],
    after: dict[int, str],
    random: Any,
) -> None:
    """Two versions of a table in no key order, taken into a dataset; a few rows a batch."""
    folder = tmp_path_factory.mktemp("dealt")
    datasets = MemoryDatasets(folder)
    with pytest.MonkeyPatch.context() as patch, watched(folder) as engine:
        set_small(patch)
        patch.setattr(dealing, "BATCH_ROWS", 2)
        with tiny_thresholds(group_rows=3):
            edited = datasets.new(SCHEMA, rows_of(before))
            sides = []
            for table in (before, after):
                shuffled = list(table.items())
                random.shuffle(shuffled)
                sides.append(datasets.new(SCHEMA, rows_of(dict(shuffled)), hilbert=3))
            with Edit(edited) as edit:
                take_changes(edit, sides[0], sides[1], engine)
                result = datasets.after(edited, edit.finish())
            assert table_of(result) == after
            assert_sound(result)
            if before and after and before != after:
                assert engine.asked[-1][0] == 2


def test_of_a_large_difference_alone_owners_are_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Watched
) -> None:
    set_small(monkeypatch)
    datasets = MemoryDatasets(tmp_path)
    old = datasets.new(SCHEMA, rows_of(dict.fromkeys(range(5), "a")))
    new = datasets.new(SCHEMA, rows_of(dict.fromkeys(range(4), "b")))
    for least, wanted in ((9, []), (8, [(0, 1, True)])):
        engine.asked.clear()
        monkeypatch.setattr(owned_changes, "LEAST_ROWS", least)
        assert table_of(taken(datasets, old, new, engine)) == dict.fromkeys(range(4), "b")
        assert engine.asked == wanted


@pytest.mark.usefixtures("small")
def test_another_kind_is_compared_in_one_go(tmp_path: Path, engine: Watched) -> None:
    datasets = MemoryDatasets(tmp_path)
    old = datasets.new(SCHEMA, rows_of({number: str(number) for number in range(5)}))
    kart = KartDatasets(tmp_path / "kart").new(SCHEMA, rows_of({1: "1", 7: "7"}))
    assert table_of(taken(datasets, old, kart, engine)) == {1: "1", 7: "7"}
    assert not engine.asked


@pytest.mark.usefixtures("small")
def test_rows_of_another_key_are_not_owned(tmp_path: Path) -> None:
    datasets = MemoryDatasets(tmp_path)
    by_name = Schema((SCHEMA.fields[0], replace(SCHEMA.fields[1], required=True)), (2,))
    by_text = Schema((replace(SCHEMA.fields[0], type=Primitive.STRING), SCHEMA.fields[1]), (1,))
    old = datasets.new(SCHEMA, rows_of({1: "a"}))
    required = (SCHEMA.fields[0], by_name.fields[1])
    both, turned = Schema(required, (1, 2)), Schema(required[::-1], (1, 2))
    others: list[tuple[Schema, list[Row]]] = [
        (by_name, [{1: 1, 2: "b"}]),
        (by_text, [{1: "1", 2: "b"}]),
    ]
    with Edit(old) as edit:
        assert owned_changes._for_owners(edit, plan_diff(old, datasets.new(SCHEMA, [])))
        for schema, rows in others:
            assert not owned_changes._for_owners(edit, plan_diff(old, datasets.new(schema, rows)))
    # The same columns in another order are another order of rows.
    pair = [datasets.new(each, [{1: 1, 2: "b"}]) for each in (both, turned)]
    with Edit(pair[0]) as edit:
        plan = plan_diff(pair[0], datasets.new(both, [{1: 2, 2: "c"}]))
        assert owned_changes._for_owners(edit, plan)
        assert not owned_changes._for_owners(edit, replace(plan, new_schema=turned))


@pytest.mark.usefixtures("small")
def test_where_files_are_away_only_what_is_here_is_owned_here(
    tmp_path: Path, engine: Watched
) -> None:
    datasets = MemoryDatasets(tmp_path)
    datasets.storage = replace(datasets.storage, on_demand=True)
    old = datasets.new(SCHEMA, rows_of(dict.fromkeys(range(5), "a")))
    new = datasets.new(SCHEMA, rows_of(dict.fromkeys(range(4), "b")))
    assert table_of(taken(datasets, old, new, engine)) == dict.fromkeys(range(4), "b")
    assert engine.asked == [(0, 1, False)]
    (file,) = old.entries
    plan = plan_diff(old, new)
    with Edit(old) as edit:
        assert for_owners(edit, {file: np.arange(2)})
        place = datasets.storage.path(file)
        place.rename(place.with_suffix(".away"))
        assert not for_owners(edit, {file: np.arange(2)})
        assert not owned_changes._for_owners(edit, plan)
        place.with_suffix(".away").rename(place)
        assert owned_changes._for_owners(edit, plan)


@pytest.mark.usefixtures("small")
def test_in_no_key_order_rows_are_dealt_out_and_files_owned(
    tmp_path: Path, engine: Watched
) -> None:
    datasets = MemoryDatasets(tmp_path)
    old = datasets.new(SCHEMA, rows_of(dict.fromkeys((3, 1, 2), "a")), hilbert=3)
    new = datasets.new(SCHEMA, rows_of({3: "b", 1: "a", 4: "b"}), hilbert=3)
    result = taken(datasets, old, new, engine)
    assert table_of(result) == {3: "b", 1: "a", 4: "b"}
    assert_sound(result)
    (file,) = old.entries
    result = datasets.after(old, without_places(datasets, old, {file: [0, 1]}, (), engine))
    assert len(rows_in(result)) == 1
    assert_sound(result)


@pytest.mark.usefixtures("small")
def test_rows_that_may_go_stand_in_files_of_the_dataset(tmp_path: Path) -> None:
    """In no key order rows are told by their places, which are those of its own files alone."""
    datasets = MemoryDatasets(tmp_path)
    old = datasets.new(SCHEMA, rows_of(dict.fromkeys((3, 1, 2), "a")), hilbert=3)
    new = datasets.new(SCHEMA, rows_of(dict.fromkeys((3, 1, 2), "b")), hilbert=3)
    renamed = replace(SCHEMA, fields=(*SCHEMA.fields[:2], replace(SCHEMA.fields[2], name="form")))
    plan = plan_diff(old, new)
    with Edit(old) as edit:
        assert owned_changes._stands(old, edit, plan)
        assert not owned_changes._stands(old, edit, replace(plan, old_schema=renamed))
        assert not owned_changes._stands(old, edit, replace(plan, new_schema=renamed))
    with Edit(new) as edit:
        assert not owned_changes._stands(new, edit, plan)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("on_demand", [False, True])
def test_what_is_in_files_of_this_machine_is_dealt_out_here(
    tmp_path: Path, engine: Watched, on_demand: bool
) -> None:
    datasets = MemoryDatasets(tmp_path)
    datasets.storage = replace(datasets.storage, on_demand=on_demand)
    old = datasets.new(SCHEMA, rows_of(dict.fromkeys((3, 1, 2), "a")), hilbert=3)
    new = datasets.new(SCHEMA, rows_of(dict.fromkeys((3, 1), "b")), hilbert=3)
    assert table_of(taken(datasets, old, new, engine)) == dict.fromkeys((3, 1), "b")
    assert engine.asked and {anywhere for *_, anywhere in engine.asked} == {not on_demand}


def test_owners_take_away_many_rows_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_small(monkeypatch)
    old = MemoryDatasets(tmp_path).new(SCHEMA, rows_of(dict.fromkeys(range(5), "a")))
    (file,) = old.entries
    with Edit(old) as edit:
        for least, wanted in ((3, False), (2, True)):
            monkeypatch.setattr(owned_deletes, "LEAST_ROWS", least)
            assert for_owners(edit, {file: np.arange(3)}) == wanted


def without_places(
    datasets: MemoryDatasets,
    old: HavasuDataset,
    places: dict[str, list[int]],
    leaving: Sequence[Entry],
    engine: LocalEngine,
) -> TreeEdit:
    """Take rows at places away and files as wholes, as one does who commits a table's deletes."""
    with Edit(old) as edit:
        tasks = [task for entry in leaving for task in old.scan_file(entry, SCHEMA)]
        count, sums = add_up(tasks, SCHEMA, engine)
        edit.touch(None)
        for entry in leaving:
            edit.remove(entry)
        gone = {file: np.array(found) for file, found in places.items()}
        assert for_owners(edit, gone)
        take_away(edit, gone, leaving, engine)
        counts = ChangeCounts(deletes=count + sum(map(len, places.values())))
        edit.count_digests(counts, sums, {})
        return edit.finish(fold=False)


@pytest.mark.usefixtures("small")
def test_an_owner_leaves_what_the_driver_writes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: Watched
) -> None:
    """A large delete file of a file that leaves is written again, so others of it stay whole."""
    datasets = MemoryDatasets(tmp_path)
    table: dict[int, str] = {}
    with tiny_thresholds(group_rows=3, most_deltas=99, small_file=1):
        monkeypatch.setattr(owned_edits, "OWNER_BYTES", 1 << 20)
        old = datasets.new(SCHEMA, [])
        steps: list[dict[int, str]] = [dict.fromkeys(range(n, n + 6), "x") for n in (0, 10, 20)]
        for step in (*steps, {0: "", 10: ""}, {20: ""}):
            after = {key: name for key, name in (table | step).items() if name}
            changes = changes_between(rows_of(table), rows_of(after), SCHEMA)
            old, table = datasets.apply(old, stream_of(changes, SCHEMA)), after
        first, second, third = old.data_entries
        gone = {entry.file: np.array([2]) for entry in (second, third)}
        told: list[Any] = []
        monkeypatch.setattr(owned_deletes, "task_of", lambda *order: told.append(order))
        monkeypatch.setattr(owned_deletes, "collect_owned", lambda edit, run, url: None)
        with Edit(old) as edit:
            take_away(edit, gone, [first], engine)
            take_away(edit, gone, [], engine)
    (_, _, beside, places), (_, _, alone, _) = told
    assert places == gone
    assert {file.name: file.whole for file in beside.files} == {
        second.file: False,
        third.file: True,
    }
    assert [each.targets for each in beside.deletes] == [(third.file,)]
    assert all(file.whole for file in alone.files) and len(alone.files) == 3
    assert len(alone.deletes) == 2


@pytest.mark.usefixtures("small")
@examples(15)
@given(
    st.lists(st.sets(st.integers(0, 5), max_size=6), min_size=3, max_size=3),
    st.sets(st.integers(0, 2), max_size=2),
    st.booleans(),
    st.tuples(st.booleans(), st.booleans()),
    st.data(),
)
def test_rows_at_places_go_beside_files_that_leave(
    tmp_path_factory: pytest.TempPathFactory,
    deleted: list[set[int]],
    leaving: set[int],
    on_demand: bool,
    at_once: tuple[bool, bool],
    data: st.DataObject,
) -> None:
    """A delete file of several files may be of some that leave and of some that stay.

    One owner may have them all, and what is small is written again by the driver alone.
    """
    small, together = at_once
    folder = tmp_path_factory.mktemp("places")
    datasets = MemoryDatasets(folder)
    datasets.storage = replace(datasets.storage, on_demand=on_demand)
    parts = [{10 * part + n: "x" for n in range(6)} for part in range(3)]
    model = parts[0] | parts[1] | parts[2]
    with (
        tiny_thresholds(group_rows=3, most_deltas=99, small_file=1 << 20 if small else 1),
        watched(folder) as engine,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(owned_edits, "OWNER_BYTES", 1 << 20 if together else 1)
        old = datasets.new(SCHEMA, rows_of(parts[0]))
        so_far = dict(parts[0])
        for more in parts[1:]:
            come = changes_between(rows_of(so_far), rows_of(so_far | more), SCHEMA)
            old, so_far = datasets.apply(old, stream_of(come, SCHEMA)), so_far | more
        gone = {10 * part + n for part, found in enumerate(deleted) for n in found}
        rest = {key: name for key, name in model.items() if key not in gone}
        change = changes_between(rows_of(model), rows_of(rest), SCHEMA)
        old = datasets.apply(old, stream_of(change, SCHEMA))
        assert table_of(old) == rest
        files = {
            int(entry.statistics[1].lower or 0) // 10: entry
            for entry in old.entries.values()
            if entry.content is Content.DATA
        }
        places: dict[str, list[int]] = {}
        left = dict(rest)
        for part, entry in files.items():
            here = sorted(key for key in rest if key // 10 == part)
            if part in leaving:
                left = {key: name for key, name in left.items() if key // 10 != part}
            elif here:
                some = data.draw(st.sets(st.sampled_from(here)))
                if some:
                    places[entry.file] = sorted(key % 10 for key in some)
                    left = {key: name for key, name in left.items() if key not in some}
        if not places:
            return
        whole = [files[part] for part in sorted(leaving) if part in files]
        edit = without_places(datasets, old, places, whole, engine)
        result = datasets.after(old, edit)
        assert table_of(result) == left
        assert_sound(result)
        assert edit.counts.deletes == len(rest) - len(left)
        assert engine.asked[-1] == (0, 1 if together else len(places), not on_demand)
