"""Data files and delete files of Avro and ORC, as fastavro and Arrow write them."""

import datetime
import io
import json
import uuid
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc

from havasu_vc.errors import CorruptionError, HavasuError, NotYetSupportedError
from havasu_vc.exchange.iceberg import open_iceberg
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import run_task
from havasu_vc.model.types import Decimal as DecimalType
from havasu_vc.model.types import Field, Fixed, List, Map, Primitive, Struct
from tests.tables.making import TableMaker

P = Primitive
ELEMENT = Field(21, "element", P.STRING)
KEY, VALUE = Field(23, "key", P.STRING, required=True), Field(24, "value", P.LONG)
NUMBER, WORD = Field(26, "key", P.INT, required=True), Field(27, "value", P.STRING)
SCHEMA = Schema(
    (
        Field(1, "id", P.LONG, required=True),
        Field(2, "flag", P.BOOLEAN),
        Field(3, "n", P.INT),
        Field(4, "f", P.FLOAT),
        Field(5, "d", P.DOUBLE),
        Field(6, "day", P.DATE),
        Field(7, "clock", P.TIME),
        Field(8, "local", P.TIMESTAMP),
        Field(9, "moment", P.TIMESTAMPTZ),
        Field(10, "text", P.STRING),
        Field(11, "data", P.BINARY),
        Field(12, "four", Fixed(4)),
        Field(13, "money", DecimalType(20, 3)),
        Field(14, "uuid", P.UUID),
        Field(20, "words", List(ELEMENT)),
        Field(22, "counts", Map(KEY, VALUE)),
        Field(25, "by_number", Map(NUMBER, WORD)),
        Field(28, "part", Struct((Field(29, "x", P.INT), Field(30, "y", P.STRING)))),
    ),
    (1,),
)
UTC = datetime.UTC
FULL: dict[str, Any] = {
    "id": 1,
    "flag": True,
    "n": -7,
    "f": 1.5,
    "d": 0.1,
    "day": datetime.date(1969, 12, 31),
    "clock": datetime.time(1, 2, 3, 4),
    "local": datetime.datetime(2020, 1, 2, 3, 4, 5, 6),
    "moment": datetime.datetime(2020, 1, 2, 3, 4, 5, 6, UTC),
    "text": "āé",
    "data": b"\0\xff",
    "four": b"1234",
    "money": Decimal("-12345678901234567.125"),
    "uuid": uuid.UUID(int=7).bytes,
    "words": ["a", None],
    "counts": {"k": 3, "l": None},
    "by_number": {5: "five"},
    "part": {"x": 1, "y": None},
}
EMPTY = {field.name: None for field in SCHEMA.fields}


def optional(type_: Any) -> list[Any]:
    return ["null", type_]


AVRO = {
    "type": "record",
    "name": "r",
    "fields": [
        {"name": field.name, "field-id": field.id, "type": said}
        for field, said in zip(
            SCHEMA.fields,
            [
                "long",
                *map(optional, ("boolean", "int", "float", "double")),
                optional({"type": "int", "logicalType": "date"}),
                optional({"type": "long", "logicalType": "time-micros"}),
                optional(
                    {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}
                ),
                optional(
                    {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}
                ),
                *map(optional, ("string", "bytes")),
                optional({"type": "fixed", "name": "four_", "size": 4}),
                optional(
                    {
                        "type": "fixed",
                        "name": "money_",
                        "size": 9,
                        "logicalType": "decimal",
                        "precision": 20,
                        "scale": 3,
                    }
                ),
                optional({"type": "fixed", "name": "uuid_", "size": 16, "logicalType": "uuid"}),
                optional({"type": "array", "items": optional("string"), "element-id": 21}),
                optional({"type": "map", "values": optional("long"), "key-id": 23, "value-id": 24}),
                optional(
                    {
                        "type": "array",
                        "logicalType": "map",
                        "items": {
                            "type": "record",
                            "name": "k26_v27",
                            "fields": [
                                {"name": "key", "type": "int", "field-id": 26},
                                {"name": "value", "type": optional("string"), "field-id": 27},
                            ],
                        },
                    }
                ),
                optional(
                    {
                        "type": "record",
                        "name": "part_",
                        "fields": [
                            {"name": "x", "type": optional("int"), "field-id": 29},
                            {"name": "y", "type": optional("string"), "field-id": 30},
                        ],
                    }
                ),
            ],
            strict=True,
        )
    ],
}
DELETES = {
    "type": "record",
    "name": "d",
    "fields": [
        {"name": "file_path", "type": "string", "field-id": 2147483546},
        {"name": "pos", "type": "long", "field-id": 2147483545},
    ],
}
ORC_EXTRA = {
    "clock": {"iceberg.long-type": "TIME"},
    "four": {"iceberg.binary-type": "FIXED", "iceberg.length": "4"},
    "uuid": {"iceberg.binary-type": "UUID"},
}


def as_avro(path: Path, rows: list[dict[str, Any]], schema: Any, codec: str = "deflate") -> None:
    def said(name: str, value: Any) -> Any:
        if name == "by_number" and value is not None:
            return [{"key": key, "value": each} for key, each in value.items()]
        return value

    made = [{name: said(name, value) for name, value in row.items()} for row in rows]
    with open(path, "wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), made, codec, sync_interval=4000)


def orc_field(field: Field, name: str | None = None) -> pa.Field:
    type_: pa.DataType
    match field.type:
        case List(element):
            type_ = pa.list_(orc_field(element))
        case Map(key, value):
            type_ = pa.map_(orc_field(key), orc_field(value))
        case Struct(fields):
            type_ = pa.struct([orc_field(each) for each in fields])
        case DecimalType(precision, scale):
            type_ = pa.decimal128(precision, scale)
        case Fixed() | P.UUID:
            type_ = pa.binary()
        case simple:
            type_ = {
                P.BOOLEAN: pa.bool_(),
                P.INT: pa.int32(),
                P.LONG: pa.int64(),
                P.FLOAT: pa.float32(),
                P.DOUBLE: pa.float64(),
                P.DATE: pa.date32(),
                P.TIME: pa.int64(),
                P.TIMESTAMP: pa.timestamp("us"),
                P.TIMESTAMPTZ: pa.timestamp("us", "UTC"),
                P.STRING: pa.string(),
                P.BINARY: pa.binary(),
            }[simple]
    metadata = {"iceberg.id": str(field.id), **ORC_EXTRA.get(field.name, {})}
    return pa.field(field.name, type_, not field.required, metadata)


def as_orc(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    def said(value: Any) -> Any:
        if isinstance(value, datetime.time):
            day = datetime.datetime.combine(datetime.date(1970, 1, 1), value)
            return (day - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
        return list(value.items()) if isinstance(value, dict) and "x" not in value else value

    made = [{name: said(value) for name, value in row.items()} for row in rows]
    orc.write_table(pa.Table.from_pylist(made, schema=schema), path)


def data_file(folder: Path, form: str, rows: list[dict[str, Any]]) -> DataFile:
    path = folder / f"{uuid.uuid4()}.{form.lower()}"
    if form == "AVRO":
        as_avro(path, rows, AVRO)
    else:
        as_orc(path, rows, pa.schema([orc_field(field) for field in SCHEMA.fields]))
    size = path.stat().st_size
    return DataFile(str(path), len(rows), size, file_format=form, split_offsets=(3, 9))


def delete_file(folder: Path, form: str, gone: list[tuple[str, int]]) -> DataFile:
    path = folder / f"{uuid.uuid4()}-deletes.{form.lower()}"
    rows = [{"file_path": name, "pos": place} for name, place in gone]
    if form == "AVRO":
        as_avro(path, rows, DELETES)
    else:
        ids = {"file_path": pa.string(), "pos": pa.int64()}
        fields = [
            pa.field(name, type_, metadata={"iceberg.id": str(number)})
            for (name, type_), number in zip(ids.items(), (2147483546, 2147483545), strict=True)
        ]
        as_orc(path, rows, pa.schema(fields))
    size = path.stat().st_size
    return DataFile(str(path), len(rows), size, DataFileContent.POSITION_DELETES, form)


def equality_file(folder: Path, form: str, keys: list[int]) -> DataFile:
    path = folder / f"{uuid.uuid4()}-equal.{form.lower()}"
    rows = [{"id": key} for key in keys]
    if form == "AVRO":
        field = {"name": "id", "type": "long", "field-id": 1}
        as_avro(path, rows, {"type": "record", "name": "e", "fields": [field]})
    else:
        as_orc(path, rows, pa.schema([orc_field(SCHEMA.fields[0])]))
    size = path.stat().st_size
    found = DataFile(str(path), len(rows), size, DataFileContent.EQUALITY_DELETES, form)
    return replace(found, equality_ids=(1,))


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    made = TableMaker(tmp_path / "t", SCHEMA)
    (made.location / "data").mkdir(exist_ok=True)
    return made


def rows_of(maker: TableMaker) -> list[dict[str, Any]]:
    source = open_iceberg(str(maker.location), SourceOptions())
    rows = [row for task in source.tasks() for b in run_task(task) for row in b.to_pylist()]
    for row in rows:
        for name in ("counts", "by_number"):
            row[name] = None if row[name] is None else dict(row[name])
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("form", ["AVRO", "ORC"])
def test_every_type_comes_as_it_is(maker: TableMaker, form: str) -> None:
    rows = [FULL, EMPTY | {"id": 2}]
    maker.commit(data_file(maker.location / "data", form, rows))

    assert rows_of(maker) == rows


@pytest.mark.parametrize("form", ["AVRO", "ORC"])
@pytest.mark.parametrize("deleting", ["AVRO", "ORC"])
def test_deletes_take_rows_away(maker: TableMaker, form: str, deleting: str) -> None:
    folder = maker.location / "data"
    rows = [EMPTY | {"id": n} for n in range(1200)]
    first = data_file(folder, form, rows)
    maker.commit(first, maker.data([EMPTY | {"id": n} for n in (1200, 1201)]))
    maker.commit(delete_file(folder, deleting, [(first.path, 0), (first.path, 1199)]))
    maker.commit(equality_file(folder, deleting, [7, 1201]))

    assert [row["id"] for row in rows_of(maker)] == [
        n for n in range(1201) if n not in (0, 7, 1199)
    ]


def test_blocks_need_not_be_packed(maker: TableMaker) -> None:
    file = data_file(maker.location / "data", "AVRO", [FULL])
    as_avro(Path(file.path), [FULL], AVRO, "null")
    maker.commit(replace(file, file_size=Path(file.path).stat().st_size))

    assert rows_of(maker) == [FULL]


def cut(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


def turned(data: bytes) -> bytes:
    middle = len(data) * 3 // 4
    return (
        data[:middle]
        + bytes(255 - byte for byte in data[middle : middle + 40])
        + data[middle + 40 :]
    )


@pytest.mark.parametrize("form", ["AVRO", "ORC"])
@pytest.mark.parametrize("damage", [cut, turned, lambda data: data[:5], lambda data: b""])
def test_damaged_files_are_named(
    maker: TableMaker, form: str, damage: Callable[[bytes], bytes]
) -> None:
    file = data_file(maker.location / "data", form, [EMPTY | {"id": n} for n in range(500)])
    path = Path(file.path)
    path.write_bytes(damage(path.read_bytes()))
    maker.commit(file)

    with pytest.raises(CorruptionError, match=path.name) as told:
        rows_of(maker)
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize("year", [1676, 2263])
def test_moments_that_arrow_does_not_read_of_orc_are_named(maker: TableMaker, year: int) -> None:
    name = next(f.name for f in SCHEMA.fields if f.type is Primitive.TIMESTAMP)
    row = FULL | {name: FULL[name].replace(year=year)}
    file = data_file(maker.location / "data", "ORC", [row])
    maker.commit(file)

    with pytest.raises(NotYetSupportedError, match="before 1677 or after 2262") as told:
        rows_of(maker)
    assert Path(file.path).name in told.value.message


def test_a_codec_that_is_not_known_is_named(maker: TableMaker) -> None:
    file = data_file(maker.location / "data", "AVRO", [FULL])
    as_avro(Path(file.path), [FULL], AVRO, "bzip2")
    maker.commit(file)

    with pytest.raises(NotYetSupportedError, match="bzip2"):
        rows_of(maker)


@pytest.mark.parametrize(
    "said",
    [
        "long",
        {"type": "record", "name": "r", "fields": [{"name": "id", "type": ["int", "string"]}]},
        {"type": "record", "name": "r", "fields": [{"name": "id", "type": "enumeration"}]},
        {"type": "record", "name": "r", "fields": [{"name": "m", "type": {"type": "array"}}]},
    ],
)
def test_schemas_that_no_table_has(maker: TableMaker, said: Any) -> None:
    sound = io.BytesIO()
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": []})
    fastavro.writer(sound, schema, [])
    path = maker.location / "data" / "x.avro"
    head = json.dumps(said).encode()
    length = bytes([(len(head) << 1) & 127 | 128, len(head) >> 6])
    sync = b"s" * 16
    path.write_bytes(b"Obj\x01\x02\x16avro.schema" + length + head + b"\0" + sync)
    maker.commit(DataFile(str(path), 1, path.stat().st_size, file_format="AVRO"))

    with pytest.raises(HavasuError) as told:
        rows_of(maker)
    assert "x.avro" in str(told.value) and len(str(told.value).splitlines()) == 1
