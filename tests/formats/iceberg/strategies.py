"""Hypothesis strategies for the values of Iceberg's documents."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal as Number
from typing import Any

from hypothesis import strategies as st

from havasu_vc.formats.havasu.properties import PartitionField, PartitionSpec, SortField, SortOrder
from havasu_vc.formats.iceberg.single_values import from_plain
from havasu_vc.formats.iceberg.transforms import parse_transform
from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    FieldSummary,
    LogEntry,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    MetadataLogEntry,
    Reference,
    Snapshot,
    Status,
    TableMetadata,
)
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Fixed, Primitive, Type, descendants
from tests.model.strategies import schemas

longs = st.integers(-(2**63), 2**63 - 1)
sizes = st.integers(0, 2**63 - 1)
ids = st.integers(1, 2**31 - 201)
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
maybe_sizes = st.none() | sizes


def values_of(type_: Type) -> st.SearchStrategy[Any]:
    """Python values of a simple type."""
    match type_:
        case Primitive.BOOLEAN:
            return st.booleans()
        case Primitive.INT:
            return st.integers(-(2**31), 2**31 - 1)
        case Primitive.LONG:
            return longs
        case Primitive.FLOAT:
            return st.floats(width=32, allow_nan=False)
        case Primitive.DOUBLE:
            return st.floats(allow_nan=False)
        case Primitive.DATE:
            return st.dates()
        case Primitive.TIME:
            return st.times()
        case Primitive.TIMESTAMP:
            return st.datetimes()
        case Primitive.TIMESTAMPTZ:
            return st.datetimes(timezones=st.just(UTC))
        case Primitive.STRING:
            return words
        case Primitive.UUID:
            return st.uuids()
        case Primitive.BINARY:
            return st.binary(max_size=20)
        case Decimal(precision, _):
            most = 10**precision - 1
            return st.integers(-most, most).map(lambda unscaled: from_plain(unscaled, type_))
        case Fixed(length):
            return st.binary(min_size=length, max_size=length)
        case _:
            raise TypeError(type_)


EXAMPLES: dict[Type, Any] = {
    Primitive.BOOLEAN: True,
    Primitive.INT: 34,
    Primitive.LONG: 34,
    Primitive.FLOAT: 1.5,
    Primitive.DOUBLE: -0.25,
    Primitive.DATE: date(2017, 11, 16),
    Primitive.TIME: time(10),
    Primitive.TIMESTAMP: datetime(2017, 11, 16, 22, 31, 8),
    Primitive.TIMESTAMPTZ: datetime(2017, 11, 16, 22, 31, 8, tzinfo=UTC),
    Primitive.STRING: "iceberg",
    Decimal(9, 2): Number("14.20"),
}


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[Schema, PartitionSpec]:
    """A schema of simple columns and a partition spec on some of them."""
    types = st.sampled_from(list(Primitive)) | st.sampled_from((Decimal(9, 2), Decimal(38, 10)))
    drawn = draw(st.lists(types | st.builds(Fixed, st.integers(1, 20)), min_size=1, max_size=4))
    schema = Schema(tuple(Field(i, f"c{i}", type_) for i, type_ in enumerate(drawn, 1)))
    fields = []
    for number in range(draw(st.integers(0, 3))):
        source = draw(st.sampled_from(schema.fields))
        able = [
            name
            for name in ("identity", "bucket[4]", "truncate[3]", "year", "day", "hour", "void")
            if parse_transform(name).accepts(source.type)
        ]
        name = draw(st.sampled_from(("a", "b c", "4x", "ø"))) + str(number)
        fields.append(PartitionField(source.id, 1000 + number, name, draw(st.sampled_from(able))))
    return schema, PartitionSpec(tuple(fields), draw(st.integers(0, 9)))


def data_files(
    partitions: st.SearchStrategy[dict[int, Any]], content: ManifestContent
) -> st.SearchStrategy[DataFile]:
    """Files as a manifest of version 2 describes them."""
    kinds = (
        [DataFileContent.DATA]
        if content is ManifestContent.DATA
        else [DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES]
    )
    counts = st.none() | st.dictionaries(ids, sizes, max_size=3)
    bounds = st.none() | st.dictionaries(ids, st.binary(max_size=16), max_size=3)
    spatial = st.none() | st.dictionaries(
        ids, st.binary(min_size=21, max_size=21), min_size=1, max_size=2
    )
    return st.builds(
        DataFile,
        words,
        sizes,
        sizes,
        st.sampled_from(kinds),
        st.sampled_from(("PARQUET", "AVRO")),
        partitions,
        counts,
        counts,
        counts,
        counts,
        bounds,
        bounds,
        st.none() | st.binary(max_size=4),
        st.none() | st.lists(sizes, max_size=3).map(tuple),
        st.none() | st.lists(ids, max_size=3).map(tuple),
        st.none() | st.integers(0, 9),
        st.none() | words,
        spatial,
        spatial,
    )


def entries_of(files: st.SearchStrategy[DataFile]) -> st.SearchStrategy[ManifestEntry]:
    maybe = st.none() | longs
    return st.builds(ManifestEntry, st.sampled_from(Status), files, maybe, maybe, maybe)


summaries = st.builds(
    FieldSummary,
    st.booleans(),
    st.none() | st.booleans(),
    st.none() | st.binary(max_size=8),
    st.none() | st.binary(max_size=8),
)
manifest_files = st.builds(
    ManifestFile,
    words,
    sizes,
    st.integers(0, 9),
    st.sampled_from(ManifestContent),
    sizes,
    sizes,
    longs,
    *([sizes] * 6),
    st.none() | st.lists(summaries, max_size=3).map(tuple),
    st.none() | st.binary(max_size=4),
)

operations = st.sampled_from(("append", "replace", "overwrite", "delete"))
texts = st.dictionaries(words, words, max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | longs | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
others = st.dictionaries(words.map(lambda name: f"x-{name}"), json_values, max_size=2)


@st.composite
def snapshots(draw: st.DrawFn, last: int) -> dict[int, Snapshot]:
    found = {}
    for number in draw(st.lists(longs.filter(lambda n: n != -1), unique=True, max_size=3)):
        found[number] = Snapshot(
            number,
            draw(st.integers(0, last)),
            draw(sizes),
            draw(words),
            {"operation": draw(operations)} | draw(texts),
            draw(st.none() | longs),
            draw(st.none() | st.integers(0, 5)),
            (),
            draw(others),
        )
    return found


references = st.builds(
    Reference, st.just(0), st.sampled_from(("branch", "tag")), *([maybe_sizes] * 3)
)
orders = st.builds(
    SortField,
    st.integers(1, 99),
    st.sampled_from(("identity", "bucket[4]", "zorder")),
    st.sampled_from(("asc", "desc")),
    st.sampled_from(("nulls-first", "nulls-last")),
)


@st.composite
def metadatas(draw: st.DrawFn) -> TableMetadata:
    """Draw the metadata of any table of version 2 that we could have written."""
    known = dict(enumerate(draw(st.lists(schemas(), min_size=1, max_size=2))))
    last_column = max((schema.last_id for schema in known.values()), default=0)
    _, spec = draw(partitioned())
    places = {
        field.id
        for schema in known.values()
        for field in descendants(schema.fields)
        if field.geometry is not None or field.raster is not None
    }
    parts = [
        replace(part, transform="void") if part.source_id in places else part
        for part in spec.fields
    ]
    spec = replace(spec, fields=tuple(parts))
    last = draw(st.integers(0, 2**40))
    history = draw(snapshots(last))
    current = draw(st.sampled_from([None, *history])) if history else None
    refs = {}
    for name in draw(st.lists(words, max_size=2, unique=True)):
        if history and name != "main":
            at = draw(st.sampled_from(list(history)))
            refs[name] = replace(draw(references), snapshot_id=at)
    if current is not None:
        refs["main"] = Reference(current, "branch", draw(maybe_sizes), draw(maybe_sizes))
    order = SortOrder(tuple(draw(st.lists(orders, max_size=2))), 1)
    return TableMetadata(
        str(draw(st.uuids())),
        draw(words),
        draw(sizes),
        last_column + draw(st.integers(0, 100)),
        known,
        draw(st.sampled_from(list(known))),
        {spec.spec_id: spec},
        spec.spec_id,
        {0: SortOrder(), 1: order},
        draw(st.sampled_from((0, 1))),
        1002,
        2,
        last,
        current,
        history,
        refs,
        tuple(draw(st.lists(st.builds(LogEntry, sizes, longs), max_size=2))),
        tuple(draw(st.lists(st.builds(MetadataLogEntry, sizes, words), max_size=2))),
        draw(texts),
        "0.1.0",
        draw(others),
    )
