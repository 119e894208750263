"""How columns of a data file become columns of a dataset, in Spark's own Parquet reader.

Files are read by the names they use themselves, never by field id: Spark pushes filters
down by name and would lose rows after a rename. What the dataset calls a column is said
by an alias afterwards, through which filters and projections still reach the reader. It
widens values and fills in what a file lacks; only what has another name deep inside, or
a type that Spark has not, is put together by an expression.

Two types have no match in Spark: a UUID is text, and a time of day is a number of
microseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from havasu_vc.errors import CorruptDatasetError, InvalidArgumentError
from havasu_vc.model.arrow import FIELD_ID, arrow_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import TYPES, Decimal, Field, Fixed, List, Map, Primitive, Struct, Type
from havasu_vc.records import dataclass

__all__ = [
    "ColumnSource",
    "PhysicalColumns",
    "file_columns",
    "grouped",
    "spark_schema",
    "spark_type",
]

Convert = Callable[[Column], Column]

_PRIMITIVES: dict[Primitive, T.DataType] = {
    primitive: getattr(T, row.spark)() for primitive, row in TYPES.items()
}
_WIDER = {(arrow_type(type_), row.wider) for type_, row in TYPES.items() if row.wider is not None}


def spark_type(type_: Type) -> T.DataType:
    """Return the Spark type that a column is shown with."""
    match type_:
        case Primitive():
            return _PRIMITIVES[type_]
        case Decimal(precision, scale):
            return T.DecimalType(precision, scale)
        case Fixed():
            return T.BinaryType()
        case Struct(fields):
            return T.StructType([T.StructField(f.name, spark_type(f.type)) for f in fields])
        case List(element):
            return T.ArrayType(spark_type(element.type))
        case Map(key, value):
            return T.MapType(spark_type(key.type), spark_type(value.type))


def spark_schema(schema: Schema) -> T.StructType:
    """Return the Spark schema that a dataset is shown with."""
    return T.StructType([T.StructField(f.name, spark_type(f.type)) for f in schema.fields])


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where the values of one column come from in some files."""

    name: str
    """Its name in the files."""
    type: T.DataType
    """The type that Spark reads it as."""
    convert: Convert | None = field(default=None, compare=False)
    """The function that makes it the dataset's column; None for nothing."""
    how: str = ""
    """Says what `convert` does, to tell two apart."""


@dataclass(frozen=True, slots=True)
class PhysicalColumns:
    """How some files, whose columns fit together, are read."""

    sources: tuple[ColumnSource | None, ...]
    """For each column of the dataset; None where no file has it."""
    names: frozenset[str]
    """All names that the files use, in lower case: Spark does not tell cases apart."""

    @property
    def read_schema(self) -> T.StructType:
        """The schema to read."""
        found = [source for source in self.sources if source is not None]
        return T.StructType([T.StructField(source.name, source.type) for source in found])

    def columns(self, fields: Sequence[Field]) -> list[Column]:
        """Return the dataset's columns, to select."""
        return [_column(s, f) for s, f in zip(self.sources, fields, strict=True)]


def _column(source: ColumnSource | None, wanted: Field) -> Column:
    if source is None:
        return F.lit(None).cast(spark_type(wanted.type)).alias(wanted.name)
    column = F.col(_quoted(source.name))
    return (column if source.convert is None else source.convert(column)).alias(wanted.name)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def file_columns(file_schema: pa.Schema, fields: Sequence[Field], where: str) -> PhysicalColumns:
    """Return how a file with a schema of its own is read as some columns of a dataset."""
    names = [found.name.lower() for found in file_schema]
    by_id = {_id_of(found): found for found in file_schema}
    sources = []
    for wanted in fields:
        found = by_id.get(wanted.id)
        sources.append(None if found is None else _source(found, wanted, where))
        if found is not None and names.count(found.name.lower()) > 1:
            raise InvalidArgumentError(
                f"{where} has two columns named {found.name!r} but for upper and lower case, "
                "which Spark does not tell apart",
                hints=("read the dataset with `Repo.table`", "or rename one and `optimize`"),
            )
    return PhysicalColumns(tuple(sources), frozenset(names))


def merged(first: PhysicalColumns, second: PhysicalColumns) -> PhysicalColumns | None:
    """Return how the files of both are read together; None if they must be read apart."""
    sources: list[ColumnSource | None] = []
    for one, other in zip(first.sources, second.sources, strict=True):
        if one is None and other is None:
            sources.append(None)
        elif one is None or other is None:
            # What is null in a file must not be taken from a column that is another's.
            there = one or other
            lacking = first.names if one is None else second.names
            if there is None or there.name.lower() in lacking:
                return None
            sources.append(there)
        elif one == other:
            sources.append(one)
        else:
            return None
    return PhysicalColumns(tuple(sources), first.names | second.names)


def _source(found: pa.Field, wanted: Field, where: str) -> ColumnSource:
    read, convert, how = _reading(found, wanted, where)
    return ColumnSource(found.name, read, convert, how)


def _reading(found: pa.Field, wanted: Field, where: str) -> tuple[T.DataType, Convert | None, str]:
    """Return what a value is read as, what to do with it then, and what that is called."""
    if wanted.raster is not None and pa.types.is_struct(found.type):
        # Its parts are known by name; one that a file lacks is null, as Spark reads it.
        return spark_type(wanted.type), None, ""
    match wanted.type:
        case Struct(fields) if pa.types.is_struct(found.type):
            return _struct(found, fields, where)
        case List(element) if pa.types.is_list(found.type):
            read, convert, how = _reading(found.type.value_field, element, where)
            return T.ArrayType(read), _each(convert), how and f"[{how}]"
        case Map(key, value) if pa.types.is_map(found.type):
            keys = _reading(found.type.key_field, key, where)
            values = _reading(found.type.item_field, value, where)
            how = f"{{{keys[2]}:{values[2]}}}" if keys[2] or values[2] else ""
            return T.MapType(keys[0], values[0]), _entries(keys[1], values[1]), how
        case Struct() | List() | Map():
            raise CorruptDatasetError(where, f"column {wanted.name!r} is {found.type} in the file")
        case Primitive.UUID:
            return T.BinaryType(), _uuid, "uuid"
        case _:
            return _simple(found, wanted, where)


def _simple(found: pa.Field, wanted: Field, where: str) -> tuple[T.DataType, Convert | None, str]:
    target = spark_type(wanted.type)
    if found.type == arrow_type(wanted.type) or (found.type, wanted.type) in _WIDER:
        return target, None, ""
    if pa.types.is_decimal(found.type) and isinstance(wanted.type, Decimal):
        # A filter on a wider decimal would be pushed down to the narrower one, and overflow.
        read = T.DecimalType(found.type.precision, found.type.scale)
        return read, lambda column: column.cast(target), str(wanted.type)
    stored = arrow_type(wanted.type)
    if pa.types.is_binary(stored) or pa.types.is_fixed_size_binary(stored):
        if pa.types.is_binary(found.type) or pa.types.is_fixed_size_binary(found.type):
            return target, None, ""
    raise CorruptDatasetError(
        where, f"column {wanted.name!r} is {found.type}, which cannot be read as {wanted.type}"
    )


def _struct(
    found: pa.Field, fields: Sequence[Field], where: str
) -> tuple[T.DataType, Convert | None, str]:
    parts = [found.type.field(index) for index in range(found.type.num_fields)]
    by_id = {_id_of(part): part for part in parts}
    names = [part.name.lower() for part in parts]
    read: list[T.StructField] = []
    made: list[tuple[Field, str | None, Convert | None]] = []
    how = ""
    for child in fields:
        part = by_id.get(child.id)
        if part is None:
            taken = child.name.lower() in names
            made.append((child, None if taken else child.name, None))
            how += f"{child.name}=null;" if taken else ""
            if not taken:
                read.append(T.StructField(child.name, spark_type(child.type)))
            continue
        type_, convert, inner = _reading(part, child, where)
        read.append(T.StructField(part.name, type_))
        made.append((child, part.name, convert))
        if part.name != child.name or inner:
            how += f"{child.name}={part.name}:{inner};"
    if not read:
        # Something must be read to tell a null from a value.
        read.append(T.StructField(parts[0].name, from_arrow_type(parts[0].type)))
        how = how or "null"
    return T.StructType(read), _remade(made) if how else None, how


def _remade(made: list[tuple[Field, str | None, Convert | None]]) -> Convert:
    def convert_struct(column: Column) -> Column:
        children = []
        for child, name, convert in made:
            if name is None:
                value = F.lit(None).cast(spark_type(child.type))
            else:
                value = column.getField(name)
                value = value if convert is None else convert(value)
            children.append(value.alias(child.name))
        return F.when(column.isNotNull(), F.struct(*children))

    return convert_struct


def _each(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda column: F.transform(column, convert)


def _entries(keys: Convert | None, values: Convert | None) -> Convert | None:
    if keys is None and values is None:
        return None

    def convert_entry(entry: Column) -> Column:
        key, value = entry.getField("key"), entry.getField("value")
        return F.struct(
            (key if keys is None else keys(key)).alias("key"),
            (value if values is None else values(value)).alias("value"),
        )

    return lambda column: F.map_from_entries(F.transform(F.map_entries(column), convert_entry))


_UUID_PARTS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))


def _uuid(column: Column) -> Column:
    text = F.lower(F.hex(column))
    parts: list[Column] = []
    for start, length in _UUID_PARTS:
        parts += [F.lit("-"), F.substring(text, start, length)]
    return F.concat(*parts[1:])


def _id_of(found: pa.Field) -> int | None:
    text = (found.metadata or {}).get(FIELD_ID)
    return int(text) if text is not None else None


def grouped(columns: Iterable[PhysicalColumns]) -> list[tuple[PhysicalColumns, list[int]]]:
    """Return as few ways to read as there can be, each with the numbers of its files."""
    groups: list[tuple[PhysicalColumns, list[int]]] = []
    known: dict[PhysicalColumns, int] = {}
    for number, each in enumerate(columns):
        at = known.get(each)
        if at is None:
            at = _place(groups, each)
        groups[at][1].append(number)
        known[each] = at
    return groups


def _place(groups: list[tuple[PhysicalColumns, list[int]]], each: PhysicalColumns) -> int:
    for at, (together, numbers) in enumerate(groups):
        both = merged(together, each)
        if both is not None:
            groups[at] = (both, numbers)
            return at
    groups.append((each, []))
    return len(groups) - 1
