"""The table of bits says of every row whether it is deleted, however rows lie."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.havasu.live import LiveFile
from havasu_vc.spark import deleted
from havasu_vc.testing.memory import MemoryDatasets
from tests.spark.test_reading import BEFORE

positions = st.lists(st.integers(0, 499), unique=True).map(sorted)


@given(st.lists(positions, min_size=1, max_size=5), st.integers(6, 12))
def test_a_bit_is_set_where_a_row_is_deleted(
    tmp_path_factory: pytest.TempPathFactory, gone: list[list[int]], shift: int
) -> None:
    folder = tmp_path_factory.mktemp("bits")
    files = [live_file(folder, number, each) for number, each in enumerate(gone)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deleted, "deleted_positions", lambda file, _: np.array(gone[int(file)]))
        bits = deleted._bits(files, shift)

    for file, first in zip(files, bits.firsts, strict=True):
        found = [row for row in range(500) if is_set(bits, first, row)]
        assert found == gone[int(file.entry.file)]


def is_set(bits: deleted._Bits, first: int, row: int) -> bool:
    """Look a row up as the plan does."""
    if first < 0:
        return False
    begin = bits.pages[first + (row >> bits.shift)]
    inside = row >> 6 & (1 << bits.shift - 6) - 1
    return bool(begin and int(bits.words[begin + inside]) >> (row & 63) & 1)


def live_file(folder: Path, number: int, gone: list[int]) -> LiveFile:
    """Return a file of 500 rows."""
    view = MemoryDatasets(folder).new(BEFORE, [{1: 1, 2: "x"}])
    (entry,) = view.data_entries
    entry = replace(entry, file=str(number), rows=500, size=1000 + number)
    return LiveFile(entry, str(folder / str(number)), ("some",) if gone else (), len(gone))


def test_files_go_along_where_folders_and_sizes_tell_them_apart(tmp_path: Path) -> None:
    plain = live_file(tmp_path, 1, [])

    def file(folder: str, size: int, gone: bool) -> LiveFile:
        entry = replace(plain.entry, size=size)
        return LiveFile(entry, f"/{folder}/f", ("d",) if gone else (), int(gone))

    def groups(*files: LiveFile) -> list[list[int]]:
        return deleted.apart(files, range(len(files)))

    assert groups(file("a", 1, False), file("a", 1, False)) == [[0, 1]]
    assert groups(file("a", 1, False), file("b", 2, True), file("c", 3, True)) == [[1, 2, 0]]
    assert groups(file("a", 1, False), file("b", 1, True)) == [[1], [0]]
    assert groups(file("a", 1, True), file("a", 2, True), file("a", 3, False)) == [[0], [1], [2]]
    many = [file("a", size, True) for size in range(9)]
    assert groups(*many) == [list(range(9))]
