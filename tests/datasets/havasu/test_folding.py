"""Which small files fold: few stand at any time, and a row is rewritten few times."""

import math

import pytest

from havasu_vc.datasets.havasu.edit import MOST_DELTAS, SMALL_FILE, files_to_fold
from havasu_vc.formats.havasu.entry import Content, Entry, Origin


def delta(number: int, size: int, origin: Origin = Origin.EDIT) -> Entry:
    name = f"{number:064x}"
    return Entry(name, Content.DATA, size, 1, "schema", "spec", "order", origin)


@pytest.mark.parametrize("commits", [100, 1000])
def test_a_row_is_rewritten_a_logarithmic_number_of_times(commits: int) -> None:
    standing: dict[str, Entry] = {}
    rewritten = 0
    for number in range(commits):
        merged = files_to_fold(standing.values(), coming=1)
        size = 1000 + sum(standing[file].size for file in merged)
        rewritten += size - 1000
        for file in merged:
            del standing[file]
        standing[f"{number:064x}"] = delta(number, size)
        assert len(standing) <= MOST_DELTAS
    assert rewritten <= 1000 * commits * math.log2(commits) / 4


def test_small_files_that_others_outweigh_fold_alone() -> None:
    small = [delta(number, 1000 + number) for number in range(MOST_DELTAS)]
    large = [delta(100 + number, 4_000_000) for number in range(3)]
    assert files_to_fold([*large, *small]) == {entry.file for entry in small}


def test_the_file_that_is_coming_counts() -> None:
    full = [delta(number, 1000) for number in range(MOST_DELTAS)]
    assert files_to_fold(full) == set()
    assert files_to_fold(full, coming=1) == {entry.file for entry in full}


def test_imported_and_large_files_stay() -> None:
    full = [delta(number, 1000) for number in range(MOST_DELTAS + 1)]
    others = [delta(100, 1000, Origin.IMPORT), delta(101, SMALL_FILE)]
    assert files_to_fold([*others, *full]) == {entry.file for entry in full}
    assert files_to_fold([*others, *full[1:]]) == set()


def folds(*sizes: int) -> int:
    """Return how many files of some sizes fold, the smallest first."""
    files = [delta(number, size) for number, size in enumerate(sorted(sizes))]
    found = files_to_fold(files)
    assert found == {entry.file for entry in files[: len(found)]}
    return len(found)


def test_how_many_may_stand() -> None:
    assert (MOST_DELTAS, SMALL_FILE) == (32, 8 << 20)
    assert folds(*[100] * 32) == 0
    assert folds(*[100] * 33) == 33
    assert folds(*[SMALL_FILE - 1] * 33) == 33
    assert folds(*[SMALL_FILE] * 33) == 0


def test_the_next_tier_begins_where_a_file_has_a_quarter_of_what_is_merged() -> None:
    few = [100] * 17
    for size, count in ((425, 33), (426, 17), (SMALL_FILE - 1, 17)):
        assert folds(*few, *[size] * 16) == count
    # By a byte.
    assert folds(*[100] * 16, 103, *[426] * 16) == 17
    assert folds(*[100] * 16, 104, *[426] * 16) == 33
    # Half of those that may stand are merged in any case.
    assert folds(*[1] * 12, *[100] * 21) == 33
    assert folds(*[1] * 16, *[100] * 17) == 17
