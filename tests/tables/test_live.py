"""Comparing the files of two snapshots."""

from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.tables.snapshots import SnapshotFile, compare_files
from tests.tables.live import data_file, delete_file

files = st.lists(
    st.builds(
        SnapshotFile,
        st.builds(
            DataFile,
            st.sampled_from("abcd"),
            st.just(1),
            st.just(1),
            st.sampled_from(DataFileContent),
        ),
        st.just(0),
        st.integers(1, 3),
    ),
    max_size=8,
)


def keys(found: tuple[SnapshotFile, ...]) -> list[tuple[int, str]]:
    return sorted((each.file.content, each.file.path) for each in found)


@given(files)
def test_nothing_differs_from_itself(one: list[SnapshotFile]) -> None:
    assert not compare_files(one, reversed(one))


@given(files, files)
def test_the_difference_makes_one_the_other(
    old: list[SnapshotFile], new: list[SnapshotFile]
) -> None:
    found = compare_files(old, new)

    left = keys(tuple(old))
    for key in keys(found.removed):
        left.remove(key)
    assert sorted([*left, *keys(found.added)]) == keys(tuple(new))
    assert not set(keys(found.removed)) & set(keys(found.added))


@given(files, files)
def test_both_ways_say_the_same(old: list[SnapshotFile], new: list[SnapshotFile]) -> None:
    there, back = compare_files(old, new), compare_files(new, old)

    assert keys(there.removed) == keys(back.added)
    assert keys(there.added) == keys(back.removed)


def test_a_file_that_other_deletes_meet_now_is_told_of() -> None:
    old, new = data_file("x", 1), data_file("x", 5)

    found = compare_files([old, data_file("y", 2)], [new, data_file("y", 2)])

    assert found.renumbered == ((old, new),)
    assert not found.removed
    assert not found.added


def test_a_file_named_twice_counts_twice() -> None:
    found = compare_files([data_file("x")], [data_file("x"), data_file("x")])

    assert keys(found.added) == [(0, "x")]


def test_content_tells_files_apart() -> None:
    found = compare_files([data_file("x")], [delete_file("x", 1)])

    assert len(found.removed_data) == len(found.added_deletes) == 1
    assert not found.added_data
    assert not found.removed_deletes
