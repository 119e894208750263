"""Which delete files apply to which data files: each rule, and all against a plain reading."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.values import DataFileContent
from havasu_vc.tables.scanning import DeleteIndex
from havasu_vc.tables.snapshots import SnapshotFile, partition_key
from tests.tables.live import data_file, delete_file

NONE = PartitionSpec()
BY_A = PartitionSpec((PartitionField(1, 1000, "a", "identity"),), 1)
VOID = PartitionSpec((PartitionField(1, 1000, "a", "void"),), 2)
SPECS = {0: NONE, 1: BY_A, 2: VOID}


def applying(data: SnapshotFile, *deletes: SnapshotFile) -> list[str]:
    index = DeleteIndex(deletes, SPECS)
    found = index.position_deletes(data) + index.equality_deletes(data)
    return [each.file.path for each in found]


@pytest.mark.parametrize(("number", "applies"), [(4, False), (5, True), (6, True)])
@pytest.mark.rule("ICE-22")
def test_positions_go_from_files_as_old(number: int, applies: bool) -> None:
    assert bool(applying(data_file("x", 5), delete_file("d", number))) == applies


@pytest.mark.parametrize(("number", "applies"), [(4, False), (5, False), (6, True)])
@pytest.mark.rule("ICE-22")
def test_equal_rows_go_from_older_files(number: int, applies: bool) -> None:
    assert bool(applying(data_file("x", 5), delete_file("d", number, equality=True))) == applies


@pytest.mark.rule("ICE-22")
def test_positions_stay_in_their_partition() -> None:
    data = data_file("x", 1, spec=1, a="q")

    assert applying(data, delete_file("d", 1, spec=1, a="q"))
    assert not applying(data, delete_file("d", 1, spec=1, a="r"))
    assert not applying(data, delete_file("d", 1, spec=1, a=None))
    assert not applying(data, delete_file("d", 1, spec=0))
    assert not applying(data, delete_file("d", 1, spec=2, a=None))


@pytest.mark.parametrize(("spec", "partition"), [(0, {}), (2, {"a": None})])
@pytest.mark.rule("ICE-22")
def test_equal_rows_go_everywhere_without_partitions(spec: int, partition: dict[str, None]) -> None:
    delete = delete_file("d", 2, spec=spec, equality=True, **partition)

    assert applying(data_file("x", 1, spec=1, a="q"), delete)
    assert applying(data_file("x", 1, spec=0), delete)


def test_equal_rows_stay_in_their_partition() -> None:
    data = data_file("x", 1, spec=1, a="q")

    assert applying(data, delete_file("d", 2, spec=1, equality=True, a="q"))
    assert not applying(data, delete_file("d", 2, spec=1, equality=True, a="r"))


@pytest.mark.rule("ICE-23")
def test_a_delete_of_one_file_finds_it() -> None:
    data, other = data_file("x", 1), data_file("xy", 1)
    for delete in (
        delete_file("d", 1, referenced="x"),
        delete_file("d", 1, bounds=("x", "x")),
        delete_file("d", 1, referenced="x", bounds=("a", "z")),
    ):
        assert applying(data, delete)
        assert not applying(other, delete)
    assert applying(other, delete_file("d", 1, bounds=("x", "z")))
    assert not applying(data_file("x", 2), delete_file("d", 1, referenced="x"))


def test_odd_numbers_as_partitions() -> None:
    zero, minus, nan, other = (
        partition_key(data_file("x", spec=1, a=value).file)
        for value in (0.0, -0.0, math.nan, -math.nan)
    )

    assert zero != minus
    assert nan == other
    assert nan != zero


PLACES: list[tuple[int, dict[str, Any]]] = [
    (0, {}),
    (1, {"a": "q"}),
    (1, {"a": None}),
    (2, {"a": None}),
]
partitions = st.sampled_from(PLACES)
numbers = st.integers(1, 4)


@st.composite
def some_deletes(draw: st.DrawFn) -> SnapshotFile:
    spec, partition = draw(partitions)
    equality = draw(st.booleans())
    referenced = None if equality else draw(st.sampled_from([None, "x", "y"]))
    return delete_file(
        draw(st.text("def", max_size=2)),
        draw(numbers),
        spec=spec,
        equality=equality,
        referenced=referenced,
        **partition,
    )


@given(partitions, numbers, st.sampled_from(["x", "y", "z"]), st.lists(some_deletes(), max_size=6))
def test_all_rules_at_once(
    place: tuple[int, dict[str, Any]], number: int, path: str, deletes: list[SnapshotFile]
) -> None:
    spec, partition = place
    data = data_file(path, number, spec=spec, **partition)
    index = DeleteIndex(deletes, SPECS)

    def rule(delete: SnapshotFile) -> bool:
        together = delete.spec_id == spec and delete.file.partition == data.file.partition
        if delete.file.content is DataFileContent.EQUALITY_DELETES:
            return number < delete.sequence_number and (together or delete.spec_id in (0, 2))
        if delete.file.referenced_data_file is not None:
            together = delete.file.referenced_data_file == path
        return together and number <= delete.sequence_number

    found = [*index.position_deletes(data), *index.equality_deletes(data)]
    assert sorted(map(id, found)) == sorted(id(each) for each in deletes if rule(each))
    assert bool(index) == bool(deletes)
