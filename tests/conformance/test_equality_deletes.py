"""Tables with equality deletes, which no program here writes by SQL: Spark and a plain model say
what is left of them.

Files are written by hand, one snapshot each: rows, deletes by the values of some columns, deletes
by place. A delete takes the rows of files that came before it, of its own partition or, without
one, of all; columns are renamed, added and widened in between. No value is like null but null, NaN
is like NaN, and zeros differ by their sign.
"""

import datetime as dt
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec
from havasu_vc.formats.iceberg.values import DataFile
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal as DecimalType
from havasu_vc.model.types import Field, Primitive, Type
from tests.conformance import ours
from tests.conformance.ours import BY_KEY, NAME, folder
from tests.conformance.spark_sql import Written
from tests.conformance.tally import Tally
from tests.support.templates import LOCAL, empty_repo
from tests.tables.making import TableMaker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = "Spark with Iceberg"
UTC = dt.UTC
VALUES: dict[Type, list[Any]] = {
    Primitive.INT: [0, -1, 7],
    Primitive.LONG: [0, 2**40, -1],
    Primitive.FLOAT: [0.0, -0.0, 1.5, math.nan, math.inf],
    Primitive.DOUBLE: [0.0, -0.0, 1.5, math.nan, -math.inf],
    Primitive.BOOLEAN: [True, False],
    Primitive.STRING: ["", "a", "ä", "A"],
    Primitive.BINARY: [b"", b"\0", b"a"],
    Primitive.DATE: [dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(2020, 2, 29)],
    Primitive.TIMESTAMP: [dt.datetime(1969, 12, 31, 23, 59, 59, 1), dt.datetime(2020, 1, 1)],
    Primitive.TIMESTAMPTZ: [dt.datetime(year, 1, 1, tzinfo=UTC) for year in (743, 2020)],
    DecimalType(9, 2): [Decimal("1.00"), Decimal("-1.00")],
    DecimalType(38, 10): [Decimal("1.0000000000"), Decimal("0E-10")],
}  # fmt: skip
WIDER: dict[Type, Type] = {Primitive.INT: Primitive.LONG, Primitive.FLOAT: Primitive.DOUBLE}
PARTED = PartitionSpec((PartitionField(1, 1000, "part", "identity"),), 1)

pytestmark = [pytest.mark.spark, pytest.mark.thorough]
tried = settings(
    max_examples=15,
    deadline=None,
    # A table that differs is told as it was drawn: Spark takes minutes to look for a smaller one.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
Catalog = Callable[[Path | str], str]
Cells: TypeAlias = dict[int, Any]
"""A row by the ids of its columns; 1 is the partition and 2 the key."""


@dataclass(frozen=True)
class Rows:
    """New rows, in a file of a partition or of none."""

    rows: tuple[Cells, ...]
    parted: bool


@dataclass(frozen=True)
class Gone:
    """Rows that go by their values in some columns."""

    ids: tuple[int, ...]
    rows: tuple[Cells, ...]
    part: int | None


@dataclass(frozen=True)
class At:
    """Rows that go by their place: those with these keys."""

    keys: tuple[int, ...]


@dataclass(frozen=True)
class Evolve:
    """The columns that the table has from now on."""

    schema: Schema


Step: TypeAlias = Rows | Gone | At | Evolve


@st.composite
def tables(draw: st.DrawFn) -> tuple[Schema, list[Step]]:
    """Draw columns, and what happens to a table of them."""
    types = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=3))
    fields = [Field(1, "part", Primitive.INT), Field(2, "id", Primitive.LONG)]
    fields += [Field(number, f"c{number}", type_) for number, type_ in enumerate(types, 3)]
    first = schema = Schema(tuple(fields))
    steps: list[Step] = []
    key = 0
    for _ in range(draw(st.integers(3, 8))):
        kind = draw(st.sampled_from(["rows", "rows", "gone", "gone", "at", "evolve"]))
        if kind == "rows" or not key:
            parted = draw(st.booleans())
            part = draw(st.sampled_from([None, 1, 2]))
            rows = [draw(cells(schema)) for _ in range(draw(st.integers(1, 5)))]
            for row in rows:
                key += 1
                row[2] = key
                row[1] = part if parted else row[1]
            steps.append(Rows(tuple(rows), parted))
        elif kind == "gone":
            ids = draw(
                st.lists(
                    st.sampled_from([f.id for f in schema.fields]),
                    min_size=1,
                    max_size=3,
                    unique=True,
                )
            )
            rows = draw(st.lists(cells(schema, draw(st.integers(1, key))), min_size=1, max_size=3))
            part = draw(st.sampled_from([0, 1, 2]))
            steps.append(Gone(tuple(ids), tuple(rows), part or None))
        elif kind == "at":
            steps.append(At(tuple(draw(st.sets(st.integers(1, key), min_size=1, max_size=2)))))
        else:
            schema = draw(evolved(schema))
            steps.append(Evolve(schema))
    return first, steps


@st.composite
def cells(draw: st.DrawFn, schema: Schema, key: int = 0) -> Cells:
    found: Cells = {1: draw(st.sampled_from([None, 1, 2])), 2: key}
    for field in schema.fields[2:]:
        found[field.id] = draw(st.none() | st.sampled_from(VALUES[field.type]))
    return found


@st.composite
def evolved(draw: st.DrawFn, schema: Schema) -> Schema:
    fields = list(schema.fields)
    at = draw(st.integers(2, len(fields) - 1))
    match draw(st.sampled_from(["rename", "add", "widen"])):
        case "rename":
            fields[at] = replace(fields[at], name=f"r{fields[at].id}")
        case "add":
            number = schema.last_id + 1
            fields.append(Field(number, f"c{number}", draw(st.sampled_from(list(VALUES)))))
        case "widen":
            type_ = fields[at].type
            fields[at] = replace(fields[at], type=WIDER.get(type_, type_))
    return Schema(tuple(fields))


def same(value: Any) -> Any:
    """Return a value in the form by which a delete knows it."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else struct.pack(">d", value)
    return value


class Model:
    """The table as plain rows, beside the one of files."""

    def __init__(self, maker: TableMaker) -> None:
        self.maker = maker
        self.live: list[tuple[Cells, int | None, bool, tuple[DataFile, int]]] = []

    def apply(self, step: Step) -> None:
        maker = self.maker
        names = {field.id: field.name for field in maker.schema.fields}
        match step:
            case Rows(rows, parted):
                partition = {1000: rows[0][1]} if parted else None
                written = [{names[i]: v for i, v in row.items()} for row in rows]
                file = maker.data(written, partition=partition)
                maker.commit(file, spec_id=int(parted))
                self.live += [(r, r[1], parted, (file, n)) for n, r in enumerate(rows)]
            case Gone(ids, rows, part):
                partition = None if part is None else {1000: part}
                written = [{names[i]: row.get(i) for i in ids} for row in rows]
                maker.commit(
                    maker.equal(written, ids, partition=partition), spec_id=int(part is not None)
                )
                gone = {tuple(same(row.get(i)) for i in ids) for row in rows}
                self.live = [
                    each for each in self.live
                    if (part is not None and (each[1], each[2]) != (part, True))
                    or tuple(same(each[0].get(i)) for i in ids) not in gone
                ]  # fmt: skip
            case At(keys):
                for row, part, parted, (file, place) in self.live:
                    if row[2] in keys:
                        partition = {1000: part} if parted else None
                        deletes = maker.deletes(at=[(file, [place])], partition=partition)
                        maker.commit(deletes, spec_id=int(parted))
                self.live = [each for each in self.live if each[0][2] not in keys]
            case Evolve(schema):
                maker.evolve(schema)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows that are left, as the columns are called now."""
        fields = self.maker.schema.fields
        return [{f.name: row[0].get(f.id) for f in fields} for row in self.live]


def in_order(rows: list[dict[str, Any]]) -> list[Any]:
    """Return rows in a form that is equal where all their values are."""
    return sorted(
        (row["id"], sorted((name, repr(same(plain(value)))) for name, value in row.items()))
        for row in rows
    )


def plain(value: Any) -> Any:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None), "UTC"
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.rule("ICE-21", "ICE-22", "ICE-92")
@given(drawn=tables())
@tried
def test_import(
    drawn: tuple[Schema, list[Step]], spark: "SparkSession", iceberg: Catalog, tally: Tally
) -> None:
    first, steps = drawn
    with folder() as place:
        table = place / "lake" / "n" / "t"
        model = Model(TableMaker(table, first, (PartitionSpec(), PARTED)))
        for step in steps:
            model.apply(step)
        wanted = in_order(model.rows())
        theirs = Written(spark, f"{iceberg(place / 'lake')}.n.t").rows()
        assert in_order(theirs) == wanted
        repo = empty_repo(place / "repo", settings=LOCAL)
        repo.import_(f"iceberg:{table}", NAME, options=BY_KEY)
        assert in_order(ours.rows(repo)) == wanted
        tally.case(PROGRAM, "import of equality deletes", len(wanted))
