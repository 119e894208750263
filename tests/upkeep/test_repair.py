"""What git merged soundly gets right sums; what it did not is refused, never guessed."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from havasu_vc.datasets.folder import MemoryFolder, edited
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import NoChangesError, NotYetSupportedError, UnfinishedMergeError
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.testing.changes import changes_between, stream_of
from havasu_vc.testing.memory import MemoryDatasets, recomputed_digests, rows_in
from havasu_vc.testing.tables import Row
from havasu_vc.upkeep.fsck import check_dataset
from havasu_vc.upkeep.repair import repair_dataset
from tests.datasets.thresholds import tiny_thresholds

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


def test_edits_of_different_rows_are_a_sound_merge(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100):
        base = datasets.new(KEYED, ROWS)
        ours = changed(datasets, base, {1: 1, 2: "ours"}, {1: 20, 2: "new"})
        theirs = changed(datasets, base, {1: 7, 2: "theirs"}, {1: 3})
        merged = merged_by_git(base, ours, theirs)
        with pytest.raises(UnfinishedMergeError):
            merged.check_guard()

        found = repaired(merged)

    wanted = {row[1]: row[2] for row in ROWS} | {1: "ours", 20: "new", 7: "theirs"}
    del wanted[3]
    assert names(found) == wanted
    assert found.snapshot.digests == recomputed_digests(found)


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        ({1: 1, 2: "ours"}, {1: 1, 2: "theirs"}),  # both edit
        ({1: 1, 2: "ours"}, {1: 1}),  # one edits, one deletes
        ({1: 30, 2: "ours"}, {1: 30, 2: "theirs"}),  # both insert
    ],
)
def test_edits_of_one_row_are_refused(datasets: MemoryDatasets, mine: Row, other: Row) -> None:
    with tiny_thresholds(most_deltas=100):
        base = datasets.new(KEYED, ROWS)
        extra: Row = {1: 11}
        ours, theirs = changed(datasets, base, mine), changed(datasets, base, other, extra)

        with pytest.raises(NotYetSupportedError) as caught:
            repaired(merged_by_git(base, ours, theirs), ours, theirs)

    assert caught.value.hints


def test_deletes_of_one_row_on_both_sides_are_refused(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100):
        base = datasets.new(KEYED, ROWS)
        ours = changed(datasets, base, {1: 1}, {1: 2})
        theirs = changed(datasets, base, {1: 1}, {1: 3})

        with pytest.raises(NotYetSupportedError, match="both sides deleted the same rows"):
            repaired(merged_by_git(base, ours, theirs))


def test_deletes_from_a_file_that_the_other_side_rewrote_are_refused(
    datasets: MemoryDatasets,
) -> None:
    with tiny_thresholds(most_deltas=100):
        base = datasets.new(KEYED, ROWS)
        ours = changed(datasets, base, *({1: number} for number in range(6)))
        theirs = changed(datasets, base, {1: 7, 2: "theirs"})
        assert not ours.deletes

        with pytest.raises(NotYetSupportedError, match="no live data file"):
            repaired(merged_by_git(base, ours, theirs))


@pytest.mark.parametrize("schema", [KEYED, KEYLESS])
def test_one_sides_files_take_its_sums(datasets: MemoryDatasets, schema: Schema) -> None:
    with tiny_thresholds():
        base = datasets.new(schema, ROWS)
        theirs = changed(datasets, base, {1: 1, 2: "theirs"})
        # Someone took their files and kept our snapshot.
        files = {
            **theirs.folder.files,  # type: ignore[attr-defined]
            "snapshot.json": base.folder.read("snapshot.json") or b"",
        }
        taken = HavasuDataset(base.path, MemoryFolder(files), base.storage)

        found = repaired(taken, base, theirs)

    assert found.snapshot == theirs.snapshot
    assert names(found)[1] == "theirs"


def test_rows_without_a_key_are_not_merged(datasets: MemoryDatasets) -> None:
    with tiny_thresholds(most_deltas=100):
        base = datasets.new(KEYLESS, ROWS)
        ours = changed(datasets, base, {1: 20, 2: "ours"})
        theirs = changed(datasets, base, {1: 21, 2: "theirs"})

        with pytest.raises(NotYetSupportedError, match="no key"):
            repaired(merged_by_git(base, ours, theirs))


def test_conflict_marks_in_the_snapshot_do_not_matter(datasets: MemoryDatasets) -> None:
    with tiny_thresholds():
        view = datasets.new(KEYED, ROWS)
        view.folder.files["snapshot.json"] = b"<<<<<<< ours\n{}\n=======\n>>>>>>> theirs\n"  # type: ignore[attr-defined]

        found = repaired(datasets.view(view.folder))  # type: ignore[arg-type]

    assert found.rows == len(ROWS)


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


@settings(max_examples=60, deadline=None)
@given(mine=EDITS, other=EDITS)
def test_a_repair_is_the_merge_of_rows_or_refused(
    mine: list[Row], other: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    datasets = datasets_in(tmp_path_factory.mktemp("repair"))
    with tiny_thresholds(most_deltas=100):
        base = datasets.new(KEYED, ROWS)
        ours, theirs = changed(datasets, base, *mine), changed(datasets, base, *other)
        before, first, second = names(base), names(ours), names(theirs)
        merged = merged_by_git(base, ours, theirs)
        with pytest.raises((NotYetSupportedError, NoChangesError)):
            # With a parent that it does not equal, it was merged with a commit not known.
            repaired(replace(merged), datasets.new(KEYED, ROWS[1:]))
        # That a row which one side changed is deleted by the other, no file tells.
        for one, another in ((first, second), (second, first)):
            assume(
                all(one[key] == before[key] for key in one.keys() & before.keys() - another.keys())
            )
        try:
            merged.check_guard()
        except UnfinishedMergeError:
            pass
        else:
            assert names(merged) in (first, second)
            return
        try:
            found = names(repaired(replace(merged)))
        except NotYetSupportedError:
            return
    for key in before.keys() | first.keys() | second.keys():
        sides = {side.get(key) for side in (first, second)} - {before.get(key)}
        assert len(sides) <= 1
        assert found.get(key) == (sides.pop() if sides else before.get(key))
