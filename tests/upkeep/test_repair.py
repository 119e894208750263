"""What a hand made unsound gets fitting markers; what rows must be merged of is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.folder import MemoryFolder, edited
from havasu_vc.datasets.havasu.checks import check_dataset
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import NoChangesError, NotYetSupportedError, UnfinishedMergeError
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.testing.dataset_contract import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets, recomputed_digests, rows_in
from havasu_vc.testing.tables import Row
from havasu_vc.upkeep.sums_anew import repair_dataset
from tests.datasets.thresholds import tiny_thresholds
from tests.support.examples import examples

KEYED = Schema(
    (Field(1, "fid", Primitive.LONG, required=True), Field(2, "name", Primitive.STRING)), (1,)
)
KEYLESS = Schema((Field(1, "fid", Primitive.LONG), Field(2, "name", Primitive.STRING)))
ROWS: list[Row] = [{1: number, 2: f"name {number}"} for number in range(12)]


@pytest.fixture
def datasets(tmp_path: Path) -> MemoryDatasets:
    return datasets_in(tmp_path)


def datasets_in(folder: Path) -> MemoryDatasets:
    datasets = MemoryDatasets(folder)
    object.__setattr__(datasets.storage, "staging", datasets.storage.files)
    return datasets


def changed(datasets: MemoryDatasets, view: HavasuDataset, *after: Row) -> HavasuDataset:
    """Return the dataset with some rows replaced or, where only the key is given, deleted."""
    rows = {row[1]: row for row in rows_in(view)}
    new = {**rows, **{row[1]: row for row in after}}
    kept = [row for row in new.values() if 2 in row]
    stream = stream_of(changes_between(list(rows.values()), kept, view.schema), view.schema)
    return datasets.apply(view, stream)


def merged_by_git(base: HavasuDataset, ours: HavasuDataset, theirs: HavasuDataset) -> HavasuDataset:
    """Return what git makes of two sides: file by file, and ours where both changed one."""
    folders = [side.folder for side in (base, ours, theirs)]
    assert all(isinstance(folder, MemoryFolder) for folder in folders)
    before, mine, other = (folder.files for folder in folders)  # type: ignore[attr-defined]
    files = dict(mine)
    for path in other.keys() | before.keys():
        if mine.get(path) == before.get(path) and other.get(path) != before.get(path):
            if path in other:
                files[path] = other[path]
            else:
                files.pop(path, None)
    return HavasuDataset(base.path, MemoryFolder(files), base.storage)


def repaired(view: HavasuDataset, *parents: HavasuDataset) -> HavasuDataset:
    with LocalEngine(threads=1) as engine:
        edit = repair_dataset(view, engine, parents=parents)
        found = HavasuDataset(view.path, edited(view.folder, edit), view.storage)
        assert list(check_dataset(found, engine, full=True)) == []
    return found


def names(view: HavasuDataset) -> dict[int, str]:
    return {row[1]: row[2] for row in rows_in(view)}


def torn(view: HavasuDataset) -> HavasuDataset:
    """Return a dataset whose markers a hand changed."""
    files = {**view.folder.files, "edits/0/ab/cdef01": b"\0by hand"}  # type: ignore[attr-defined]
    found = HavasuDataset(view.path, MemoryFolder(files), view.storage)
    with pytest.raises(UnfinishedMergeError):
        found.check_guard()
    return found


def test_edits_of_different_rows_are_no_damage(datasets: MemoryDatasets) -> None:
    base = datasets.new(KEYED, ROWS)
    ours = changed(datasets, base, {1: 1, 2: "ours"}, {1: 20, 2: "new"})
    theirs = changed(datasets, base, {1: 7, 2: "theirs"}, {1: 3})

    merged = merged_by_git(base, ours, theirs)

    merged.check_guard()
    wanted = {row[1]: row[2] for row in ROWS} | {1: "ours", 20: "new", 7: "theirs"}
    del wanted[3]
    assert names(merged) == wanted
    assert merged.snapshot.digests == recomputed_digests(merged)


def test_files_that_are_sound_get_markers_that_fit(datasets: MemoryDatasets) -> None:
    view = changed(datasets, datasets.new(KEYED, ROWS), {1: 1, 2: "changed"}, {1: 3})

    found = repaired(torn(view))

    assert names(found) == names(view)
    assert found.snapshot.digests == view.snapshot.digests
    assert found.epoch.number == 1
    again = changed(datasets, found, {1: 5, 2: "later"})
    again.check_guard()
    assert names(again) == {**names(view), 5: "later"}


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        ({1: 1, 2: "ours"}, {1: 1, 2: "theirs"}),  # both edit
        ({1: 1, 2: "ours"}, {1: 1}),  # one edits, one deletes
        ({1: 30, 2: "ours"}, {1: 30, 2: "theirs"}),  # both insert
    ],
)
def test_edits_of_one_row_are_refused(datasets: MemoryDatasets, mine: Row, other: Row) -> None:
    base = datasets.new(KEYED, ROWS)
    extra: Row = {1: 11}
    ours, theirs = changed(datasets, base, mine), changed(datasets, base, other, extra)
    merged = merged_by_git(base, ours, theirs)
    with pytest.raises(UnfinishedMergeError, match="markers"):
        merged.check_guard()

    with pytest.raises(NotYetSupportedError) as caught:
        repaired(merged, ours, theirs)

    assert caught.value.hints


@pytest.mark.parametrize("schema", [KEYED, KEYLESS])
def test_one_sides_files_take_its_markers(datasets: MemoryDatasets, schema: Schema) -> None:
    with tiny_thresholds():
        base = datasets.new(schema, ROWS)
        theirs = changed(datasets, base, {1: 1, 2: "theirs"})

        found = repaired(torn(theirs), base, theirs)

    assert found.snapshot == theirs.snapshot
    assert names(found)[1] == "theirs"


def test_rows_without_a_key_are_not_merged(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100):
        base = datasets.new(KEYLESS, ROWS)
        ours = changed(datasets, base, {1: 20, 2: "ours"})
        theirs = changed(datasets, base, {1: 21, 2: "theirs"})

        with pytest.raises(NotYetSupportedError, match="no key"):
            repaired(torn(merged_by_git(base, ours, theirs)))


def test_a_sound_dataset_needs_no_repair(datasets: MemoryDatasets) -> None:
    view = datasets.new(KEYED, ROWS)

    with pytest.raises(NoChangesError):
        repaired(view)


EDITS = st.lists(
    st.builds(
        lambda key, name: {1: key} if name is None else {1: key, 2: name},
        st.integers(0, 15),
        st.sampled_from([None, "a", "b"]),
    ),
    max_size=4,
    unique_by=lambda row: row[1],
)


@pytest.mark.thorough
@examples(60, deadline=None)
@given(mine=EDITS, other=EDITS)
def test_what_git_puts_together_is_right_or_refused(
    mine: list[Row], other: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    datasets = datasets_in(tmp_path_factory.mktemp("repair"))
    base = datasets.new(KEYED, ROWS)
    ours, theirs = changed(datasets, base, *mine), changed(datasets, base, *other)
    before, first, second = names(base), names(ours), names(theirs)
    # Where both changed one file, ours: as after `git merge -X ours`.
    merged = merged_by_git(base, ours, theirs)
    both = [
        key
        for key in before.keys() | first.keys() | second.keys()
        if first.get(key) != before.get(key) and second.get(key) != before.get(key)
    ]
    try:
        merged.check_guard()
    except UnfinishedMergeError:
        assert both
        return
    found = names(merged)
    for key in before.keys() | first.keys() | second.keys():
        sides = {side.get(key) for side in (first, second)} - {before.get(key)}
        assert len(sides) <= 1
        assert found.get(key) == (sides.pop() if sides else before.get(key))
