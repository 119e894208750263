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
