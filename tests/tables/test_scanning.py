"""The rows of snapshots of tables that our codec wrote."""

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import CorruptionError, HavasuError
from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.schema import NAME_MAPPING, format_name_mapping, mapping_of
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Map, Primitive, Struct
from havasu_vc.tables.scanning import row_sources, scan_tasks, schema_of
from havasu_vc.tables.table import Table, read_table
from tests.tables.making import TableMaker

ID = Field(1, "id", Primitive.INT)
NAME = Field(2, "name", Primitive.STRING)
SCHEMA = Schema((ID, NAME))


def rows(table: Table, **options: Any) -> list[dict[str, Any]]:
    tasks = pickle.loads(pickle.dumps(scan_tasks(table, **options)))
    wanted = options.get("schema") or schema_of(table, options.get("snapshot_id"))
    with LocalEngine(threads=2) as engine:
        batches = list(engine.run(tasks))
    assert all(batch.schema.equals(arrow_schema(wanted)) for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def ids(table: Table, **options: Any) -> list[int]:
    return sorted(row["id"] for row in rows(table, **options))


def numbered(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}"} for number in numbers]


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    return TableMaker(tmp_path / "t", SCHEMA)


def test_nothing(maker: TableMaker) -> None:
    assert scan_tasks(maker.table) == []
    maker.commit(maker.data([]))
    assert rows(maker.table) == []


@pytest.mark.rule("ICE-2", "ICE-20")
def test_positions_are_left_out(maker: TableMaker) -> None:
    one, two = maker.data(numbered(*range(40))), maker.data(numbered(*range(100, 105)))
    first = maker.commit(one, two)
    maker.commit(maker.deletes(at=[(one, [0, 39, 3, 4]), (two, [2])]))
    maker.commit(maker.deletes(at=[(one, [4, 5, 1000])]))

    gone = {0, 39, 3, 4, 5, 102}
    assert ids(maker.table) == [n for n in (*range(40), *range(100, 105)) if n not in gone]
    assert len(ids(maker.table, snapshot_id=first)) == 45
    assert len(scan_tasks(maker.table)) == 3  # the larger file in two parts


@pytest.mark.rule("ICE-21")
def test_equal_rows_are_left_out_of_older_files(maker: TableMaker) -> None:
    maker.commit(maker.data(numbered(1, 2, 3)))
    maker.commit(maker.data(numbered(2, 4)), maker.equal([{"id": 2}, {"id": 9}], (1,)))
    maker.commit(maker.data(numbered(4)))
    maker.commit(maker.equal([{"id": 4, "name": "other"}, {"id": 3, "name": "n3"}], (1, 2)))

    assert ids(maker.table) == [1, 2, 4, 4]


def test_equal_rows_by_a_column_of_another_time(maker: TableMaker) -> None:
    maker.commit(maker.data(numbered(1, 2)))
    old = maker.schema
    maker.evolve(Schema((replace(ID, type=Primitive.LONG), Field(3, "new", Primitive.LONG))))
    maker.commit(maker.data([{"id": 5, "new": 7}, {"id": 6, "new": None}]))
    maker.commit(maker.equal([{"name": "n2"}], (2,), schema=old))
    maker.commit(maker.equal([{"new": 7}], (3,)))
    assert rows(maker.table) == [{"id": 1, "new": None}, {"id": 6, "new": None}]

    maker.commit(maker.equal([{"new": None}], (3,)))
    assert rows(maker.table) == []


@pytest.mark.rule("ICE-6", "ICE-52")
def test_columns_are_found_by_id(maker: TableMaker) -> None:
    nested = Struct((Field(11, "x", Primitive.INT), Field(12, "y", Primitive.STRING)))
    maker.evolve(
        Schema(
            (
                ID,
                NAME,
                Field(10, "s", nested),
                Field(13, "l", List(Field(14, "element", Primitive.FLOAT))),
                Field(
                    15,
                    "m",
                    Map(
                        Field(16, "key", Primitive.STRING, required=True),
                        Field(17, "value", nested_in(18)),
                    ),
                ),
            )
        )
    )
    maker.commit(
        maker.data(
            [
                {
                    "id": 1,
                    "name": "a",
                    "s": {"x": 1, "y": "p"},
                    "l": [1.5, None],
                    "m": [("k", {"x": 5})],
                },
                {"id": 2, "name": None, "s": None, "l": None, "m": None},
            ]
        )
    )
    swapped = Struct((Field(12, "x", Primitive.STRING), Field(20, "y", Primitive.DATE)))
    maker.evolve(
        Schema(
            (
                replace(NAME, name="id"),
                Field(10, "t", swapped),
                Field(13, "l", List(Field(14, "element", Primitive.DOUBLE))),
                Field(
                    15,
                    "m",
                    Map(
                        Field(16, "key", Primitive.STRING, required=True),
                        Field(17, "value", Struct((Field(18, "z", Primitive.LONG),))),
                    ),
                ),
                replace(ID, name="name", type=Primitive.LONG),
            )
        )
    )

    assert rows(maker.table) == [
        {
            "id": "a",
            "t": {"x": "p", "y": None},
            "l": [1.5, None],
            "m": [("k", {"z": 5})],
            "name": 1,
        },
        {"id": None, "t": None, "l": None, "m": None, "name": 2},
    ]


def nested_in(number: int) -> Struct:
    return Struct((Field(number, "x", Primitive.INT),))


@pytest.mark.rule("ICE-53", "ICE-54")
def test_files_without_ids_are_read_by_the_name_mapping(tmp_path: Path) -> None:
    nested = Struct((Field(4, "x", Primitive.LONG), Field(5, "a.b", Primitive.STRING)))
    many = List(Field(7, "element", Struct((Field(8, "q", Primitive.INT),))))
    lookup = Map(
        Field(10, "key", Primitive.STRING, required=True), Field(11, "value", Primitive.LONG)
    )
    schema = Schema((ID, NAME, Field(3, "s", nested), Field(6, "l", many), Field(9, "m", lookup)))
    maker = TableMaker(
        tmp_path / "t", schema, properties={NAME_MAPPING: format_name_mapping(mapping_of(schema))}
    )
    bare = pa.schema(
        [
            ("s", pa.struct([("a.b", pa.string()), ("x", pa.int32())])),
            ("stranger", pa.int64()),
            ("l", pa.list_(pa.field("item", pa.struct([("q", pa.int32())])))),
            ("m", pa.map_(pa.string(), pa.int32())),
            ("id", pa.int32()),
        ]
    )
    row = {"s": {"a.b": "t", "x": 3}, "stranger": 1, "l": [{"q": 2}], "m": [("k", 1)], "id": 9}
    maker.commit(maker.data([row], schema=bare))
    maker.evolve(Schema((replace(ID, name="key"), *schema.fields[1:])))

    assert rows(maker.table) == [
        {"key": 9, "name": None, "s": {"x": 3, "a.b": "t"}, "l": [{"q": 2}], "m": [("k", 1)]}
    ]


def test_files_without_ids_and_no_mapping(maker: TableMaker) -> None:
    maker.commit(maker.data(numbered(1), schema=pa.schema([("id", pa.int32())])))

    with pytest.raises(CorruptionError, match="no field ids"):
        rows(maker.table)


@pytest.mark.rule("ICE-53")
def test_a_column_that_only_the_partition_has(tmp_path: Path) -> None:
    spec = PartitionSpec((PartitionField(2, 1000, "name", "identity"),))
    maker = TableMaker(tmp_path / "t", SCHEMA, (spec,))
    maker.commit(
        maker.data(numbered(1), schema=arrow_schema(Schema((ID,))), partition={1000: "p"}),
        maker.data(numbered(2), partition={1000: "q"}),
    )

    assert rows(maker.table) == [{"id": 1, "name": "p"}, {"id": 2, "name": "n2"}]


def test_deletes_of_other_partitions_do_not_apply(tmp_path: Path) -> None:
    spec = PartitionSpec((PartitionField(2, 1000, "name", "identity"),))
    maker = TableMaker(tmp_path / "t", SCHEMA, (spec,))
    p = maker.data([{"id": 1, "name": "p"}], partition={1000: "p"})
    q = maker.data([{"id": 1, "name": "q"}], partition={1000: "q"})
    maker.commit(p, q)
    maker.commit(maker.equal([{"id": 1}], (1,), partition={1000: "p"}))

    assert rows(maker.table) == [{"id": 1, "name": "q"}]


def test_a_schema_of_some_columns(maker: TableMaker) -> None:
    maker.commit(maker.data(numbered(1, 2)))

    assert rows(maker.table, schema=SCHEMA.select(("name",))) == [{"name": "n1"}, {"name": "n2"}]


def test_a_snapshot_is_read_with_its_own_schema(maker: TableMaker) -> None:
    first = maker.commit(maker.data(numbered(1)))
    maker.evolve(Schema((ID,)))

    assert rows(maker.table) == [{"id": 1}]
    assert rows(maker.table, snapshot_id=first) == [{"id": 1, "name": "n1"}]


@pytest.mark.parametrize("damage", ["gone", "cut", "other"])
@pytest.mark.parametrize("which", ["data", "positions", "equality"])
def test_damaged_files(maker: TableMaker, which: str, damage: str) -> None:
    data = maker.data(numbered(1, 2))
    maker.commit(data)
    positions, equality = maker.deletes(at=[(data, [0])]), maker.equal([{"id": 2}], (1,))
    maker.commit(positions, equality)
    path = Path({"data": data, "positions": positions, "equality": equality}[which].path)
    match damage:
        case "gone":
            path.unlink()
        case "cut":
            path.write_bytes(path.read_bytes()[:-7])
        case "other":
            path.write_bytes(maker.table.metadata_file.read_bytes())

    with pytest.raises(CorruptionError, match=path.name) as told:
        rows(maker.table)
    assert told.value.hints


def test_a_stranger_names_files_outside(maker: TableMaker, tmp_path: Path) -> None:
    other = TableMaker(tmp_path / "other", SCHEMA)
    file = other.data(numbered(1))
    maker.commit(file)

    with pytest.raises(HavasuError, match="outside"):
        rows(maker.table)
    assert rows(read_table(maker.location, allowed=[tmp_path / "other"])) == numbered(1)


def test_a_stranger_names_files_of_the_machine(maker: TableMaker) -> None:
    maker.commit(replace(maker.data(numbered(1)), path="file:///etc/passwd"))

    with pytest.raises(CorruptionError, match="/etc/passwd"):
        row_sources(maker.table)
