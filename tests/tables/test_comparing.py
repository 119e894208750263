"""Which rows two snapshots do not share."""

import random
from pathlib import Path

import pytest

from havasu_vc.formats.havasu.layout import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.values import DataFile
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.tables.comparing import ComparedFile, compare_rows
from tests.tables.making import TableMaker

ID = Field(1, "id", Primitive.INT)
SCHEMA = Schema((ID, Field(2, "p", Primitive.STRING)))


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    return TableMaker(tmp_path / "t", SCHEMA)


def numbered(*numbers: int) -> list[dict[str, int]]:
    return [{"id": number} for number in numbers]


def compared(maker: TableMaker, old: int | None, new: int | None) -> dict[str, ComparedFile]:
    return {each.location: each for each in compare_rows(maker.table, old, new)}


def test_a_delete_file_that_takes_over_from_another(maker: TableMaker) -> None:
    data = maker.data(numbered(*range(10)))
    maker.commit(data, maker.data(numbered(99)))
    before = maker.deletes(at=[(data, [1, 2])])
    first = maker.commit(before)
    second = maker.commit(maker.deletes(at=[(data, [1, 2, 7])]), removed=[before.path])

    (found,) = compared(maker, first, second).values()
    assert found.location == data.path
    assert found.deleted.tolist() == [7]
    assert found.restored.tolist() == []
    (back,) = compared(maker, second, first).values()
    assert back.restored.tolist() == [7]


def test_positions_that_stay_gone_are_no_difference(maker: TableMaker) -> None:
    data = maker.data(numbered(*range(10)))
    maker.commit(data)
    first = maker.commit(maker.deletes(at=[(data, [1, 2])]))
    second = maker.commit(maker.deletes(at=[(data, [2])]))
    third = maker.commit(maker.equal([{"id": 1}], (1,)))

    assert compared(maker, first, second) == {}
    assert compared(maker, first, third) == {}
    assert compared(maker, first, first) == {}


def test_equality_deletes_become_positions(tmp_path: Path) -> None:
    spec = PartitionSpec((PartitionField(2, 1000, "p", "identity"),))
    maker = TableMaker(tmp_path / "t", SCHEMA, (spec,))
    a = maker.data([{"id": n, "p": "a"} for n in range(5)], partition={1000: "a"})
    b = maker.data([{"id": n, "p": "b"} for n in range(5)], partition={1000: "b"})
    first = maker.commit(a, b)
    second = maker.commit(maker.equal([{"id": 3}], (1,), partition={1000: "b"}))

    (found,) = compared(maker, first, second).values()
    assert (found.location, found.deleted.tolist()) == (b.path, [3])


def test_files_of_one_side_come_with_their_deletes(maker: TableMaker) -> None:
    a, b = maker.data(numbered(1, 2)), maker.data(numbered(3, 4))
    first = maker.commit(a)
    maker.commit(b)
    second = maker.commit(maker.deletes(at=[(b, [0])]), removed=[a.path])

    found = compared(maker, first, second)
    assert found.keys() == {a.path, b.path}
    old, new = found[a.path].old, found[b.path].new
    assert old is not None
    assert found[a.path].new is None
    assert found[b.path].old is None
    assert new is not None
    assert old.deleted.tolist() == []
    assert new.deleted.tolist() == [0]


def test_any_history_of_deletes(tmp_path: Path) -> None:
    """Random files, deletes, compactions of deletes; each pair of snapshots against a model."""
    chance = random.Random(3)
    maker = TableMaker(tmp_path / "t", SCHEMA)
    files: dict[str, DataFile] = {}
    gone: dict[str, frozenset[int]] = {}
    deletes: list[tuple[str, str, frozenset[int]]] = []
    states: dict[int, dict[str, frozenset[int]]] = {}
    for _ in range(30):
        kind = chance.choice(["add", "add", "delete", "delete", "fold", "remove"])
        removed: list[str] = []
        added: list[DataFile] = []
        if kind == "add" or not gone:
            file = maker.data(numbered(*range(6)))
            files[file.path], gone[file.path] = file, frozenset()
            added = [file]
        elif kind == "remove":
            path = chance.choice(sorted(gone))
            del gone[path]
            removed = [path]
        else:
            path = chance.choice(sorted(gone))
            rows = frozenset(chance.sample(range(6), 2))
            if kind == "fold":
                removed = [name for name, target, _ in deletes if target == path]
                rows |= gone[path]
                deletes = [each for each in deletes if each[1] != path]
            written = maker.deletes(at=[(files[path], sorted(rows))])
            if any(name == written.path for name, _, _ in deletes) or written.path in removed:
                continue
            deletes.append((written.path, path, rows))
            gone[path] |= rows
            added = [written]
        states[maker.commit(*added, removed=removed)] = dict(gone)

    pairs = [(old, new) for old in states for new in states]
    for old, new in chance.sample(pairs, 80):
        before, after = states[old], states[new]
        found = compared(maker, old, new)
        assert found.keys() == {
            path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        }
        for path, each in found.items():
            for side, state in ((each.old, before), (each.new, after)):
                assert (None if side is None else frozenset(side.deleted.tolist())) == state.get(
                    path
                )
