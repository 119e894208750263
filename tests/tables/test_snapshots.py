"""The files of snapshots of tables that our codec wrote, and of damaged ones."""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from havasu_vc.errors import (
    CorruptionError,
    HavasuError,
    NotFoundError,
    NotYetSupportedError,
)
from havasu_vc.formats.iceberg.values import DataFile, Snapshot
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.tables.snapshots import difference, live_files, manifests_of
from havasu_vc.tables.table import read_table
from tests.tables.making import TableMaker

SCHEMA = Schema((Field(1, "id", Primitive.LONG),))


@pytest.fixture(params=[1, 2])
def maker(tmp_path: Path, request: pytest.FixtureRequest) -> TableMaker:
    return TableMaker(tmp_path / "t", SCHEMA, format_version=request.param)


def row(maker: TableMaker, number: int) -> DataFile:
    return maker.data([{"id": number}])


def paths(maker: TableMaker, snapshot_id: int | None = None) -> list[str]:
    table = read_table(maker.location)
    return sorted(each.file.path for each in live_files(table, snapshot_id))


def test_a_table_without_rows_has_no_files(maker: TableMaker) -> None:
    assert live_files(maker.table) == ()
    assert not difference(maker.table, None, None)


@pytest.mark.rule("ICE-10")
def test_files_come_and_go(maker: TableMaker) -> None:
    a, b, c = (row(maker, n) for n in range(3))
    first = maker.commit(a, b)
    second = maker.commit(c, removed=[a.path])

    assert paths(maker, first) == sorted([a.path, b.path])
    assert paths(maker, second) == paths(maker) == sorted([b.path, c.path])
    found = difference(maker.table, first, second)
    assert [each.file.path for each in found.removed] == [a.path]
    assert [each.file.path for each in found.added] == [c.path]
    assert {each.file.path for each in difference(maker.table, None, second).added} == {
        b.path,
        c.path,
    }


@pytest.mark.rule("ICE-15", "ICE-16")
def test_numbers_are_inherited_and_stay(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path / "t", SCHEMA)
    a, b = row(maker, 1), row(maker, 2)
    first = maker.commit(a, b)
    maker.commit(row(maker, 3))
    maker.commit(removed=[a.path])

    (found,) = (each for each in live_files(maker.table) if each.file.path == b.path)
    assert (found.sequence_number, found.file_sequence_number, found.snapshot_id) == (1, 1, first)


def test_versions_upgraded_from_one_have_number_zero(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path / "t", SCHEMA, format_version=1)
    maker.commit(row(maker, 1))
    maker.change(format_version=2)
    maker.format_version = 2
    maker.commit(row(maker, 2))

    assert [each.sequence_number for each in live_files(maker.table)] == [0, 1]


@pytest.mark.rule("ICE-1")
def test_manifests_that_version_1_names_without_a_list(tmp_path: Path) -> None:
    maker = TableMaker(tmp_path / "t", SCHEMA, format_version=1)
    a = row(maker, 1)
    old = maker.commit(a)
    snapshot = maker.table.metadata.snapshots[old]
    named = tuple(each.path for each in manifests_of(maker.table, snapshot))
    maker.publish(Snapshot(5, 0, 9, None, parent_id=old, manifests=named))

    assert paths(maker) == [a.path]
    assert not difference(read_table(maker.location), old, 5)


def test_any_history_makes_the_right_difference(tmp_path: Path) -> None:
    """Commits, rewritten manifests and rollbacks, in a random order."""
    chance = random.Random(7)
    maker = TableMaker(tmp_path / "t", SCHEMA)
    state: frozenset[str] = frozenset()
    there: dict[int, frozenset[str]] = {}
    for number in range(25):
        if there and chance.random() < 0.2:
            snapshot = chance.choice(sorted(there))
            maker.change(current_snapshot_id=snapshot, references={})
            state = there[snapshot]
            continue
        gone = frozenset(chance.sample(sorted(state), min(len(state), chance.randrange(3))))
        new = [row(maker, number) for _ in range(chance.randrange(3))]
        state = (state - gone) | {each.path for each in new}
        there[maker.commit(*new, removed=sorted(gone))] = state

    for old in there:
        for other in there:
            found = difference(maker.table, old, other)
            assert {each.file.path for each in found.removed} == there[old] - there[other]
            assert {each.file.path for each in found.added} == there[other] - there[old]
            assert not found.renumbered


@pytest.mark.rule("ICE-11")
def test_shared_manifests_are_not_read(maker: TableMaker) -> None:
    first = maker.commit(row(maker, 1))
    (shared,) = manifests_of(maker.table, maker.table.metadata.snapshot)
    second = maker.commit(row(maker, 2))
    Path(shared.path).unlink()

    assert len(difference(maker.table, first, second).added) == 1


def test_a_snapshot_that_expired(maker: TableMaker) -> None:
    with pytest.raises(NotFoundError, match="no snapshot 77"):
        live_files(maker.table, 77)


@pytest.mark.parametrize("place", ["list", "manifest"])
@pytest.mark.parametrize("damage", ["gone", "cut", "empty", "other"])
def test_damaged_documents(maker: TableMaker, place: str, damage: str) -> None:
    maker.commit(row(maker, 1))
    snapshot = maker.table.metadata.snapshot
    assert snapshot is not None
    assert snapshot.manifest_list is not None
    path = Path(
        snapshot.manifest_list if place == "list" else manifests_of(maker.table, snapshot)[0].path
    )
    match damage:
        case "gone":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[:-30])
        case "empty":
            path.write_bytes(b"")
        case "other":
            shutil.copy(maker.table.metadata_file, path)

    with pytest.raises(CorruptionError, match=path.name) as told:
        live_files(maker.table)
    assert told.value.hints
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize("location", ["/etc/passwd", "file:/etc/passwd", "s3://b/k", "relative"])
def test_a_stranger_names_a_list_outside(maker: TableMaker, location: str) -> None:
    number = 1 if maker.format_version > 1 else 0
    maker.publish(Snapshot(5, number, 9, location, {"operation": "append"}))

    with pytest.raises(HavasuError):
        live_files(maker.table)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"file_format": "AVRO"}, NotYetSupportedError),
        ({"file_format": "orc"}, NotYetSupportedError),
        ({"key_metadata": b"k"}, NotYetSupportedError),
    ],
)
@pytest.mark.rule("HAV-3")
def test_files_that_are_not_read(
    maker: TableMaker, change: dict[str, object], error: type[HavasuError]
) -> None:
    maker.commit(replace(row(maker, 1), **change))  # type: ignore[arg-type]

    with pytest.raises(error):
        live_files(maker.table)
