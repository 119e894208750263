"""The schemas, partition specs and sort orders of a dataset, numbered as a table has them.

A table keeps those that it had before under their numbers, since old snapshots and
manifests refer to them; what is new gets the next number. A Hilbert curve is no sort
order that Iceberg knows, so such a table calls itself unsorted.

A field of a partition spec has one id in all specs of a table: who reads a table makes one
type of all of them. So a field that goes by the same column and transform as an older one
is that field, and any other gets an id that no field had. Nor may it be called as a column,
or as another field: one that a column comes to be called as is called otherwise from then
on, in old specs too, since readers hold those against the current columns.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from typing import TypeAlias, TypeVar

from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.properties import (
    PartitionField,
    PartitionSpec,
    SortOrder,
    parse_partition,
)
from havasu_vc.formats.iceberg.transforms import field_names
from havasu_vc.formats.iceberg.values import TableMetadata
from havasu_vc.model.evolution import BLOCK
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = [
    "Numbered",
    "has_clashes",
    "last_column_id",
    "number_layouts",
    "past_spec",
    "share_ids",
]

Specs: TypeAlias = Mapping[int, PartitionSpec]
"""Partition specs of a table, by id."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Numbered:
    """The specs and orders of a table's metadata, and which of them are the dataset's."""

    schemas: Mapping[int, Schema]
    """All schemas of the table, by id."""
    schema_id: int
    """The dataset's schema."""
    specs: Specs
    """All partition specs of the table."""
    spec_id: int
    """The spec for writers."""
    orders: Mapping[int, SortOrder]
    """All sort orders of the table, by id."""
    order_id: int
    """The sort order for writers."""
    spec_ids: Mapping[str, int]
    """Ids of the specs that files were written with, by the name that entries give them."""
    order_ids: Mapping[str, int]
    """Ids of the sort orders that files were written with, as far as the table has them."""
    field_ids: Mapping[str, Mapping[str, int]]
    """Ids of the fields of specs, by the name of the spec and the id that entries give them."""

    @property
    def schema(self) -> Schema:
        """The dataset's schema."""
        return self.schemas[self.schema_id]

    def spec_of(self, entry: Entry) -> PartitionSpec:
        """Return the spec that a file was written with."""
        return self.specs[self.spec_ids[entry.partition_spec]]

    def in_table(self, entry: Entry) -> Entry:
        """Return an entry whose partition is told by the ids that the table has for fields."""
        ids = self.field_ids[entry.partition_spec]
        return replace(
            entry, partition={str(ids.get(k, k)): value for k, value in entry.partition.items()}
        )


def number_layouts(view: DatasetInFiles, known: TableMetadata | None) -> Numbered:
    """Return the layouts of a dataset as numbered in its table, or in a new one."""
    schemas, schema_id = _numbered({} if known is None else known.schemas, view.schema, 0)
    specs = _renamed({} if known is None else known.partition_specs, view.schema)
    last = 999 if known is None else known.last_partition_id
    specs, spec_id = _with_spec(specs, view.partition, view.schema, last)
    spec_ids, field_ids = {}, {}
    for name in sorted({entry.partition_spec for entry in view.data_entries}):
        spec = past_spec(view, name)
        specs, spec_ids[name] = _with_spec(specs, spec, view.schema, last)
        pairs = zip(spec.fields, specs[spec_ids[name]].fields, strict=True)
        field_ids[name] = {str(ours.field_id): theirs.field_id for ours, theirs in pairs}
    orders = {0: SortOrder(), **({} if known is None else known.sort_orders)}
    wanted = SortOrder() if view.order.is_hilbert else view.order
    order_id = 0
    if wanted.fields:
        orders, order_id = _numbered(
            orders, wanted, max(wanted.order_id, 1), lambda order: order.fields
        )
        orders[order_id] = SortOrder(wanted.fields, order_id)
    order_ids = {view.layout.sort_hash: order_id}
    return Numbered(
        schemas, schema_id, specs, spec_id, orders, order_id, spec_ids, order_ids, field_ids
    )


def has_clashes(metadata: TableMetadata) -> bool:
    """Whether fields of a table's specs share an id, or are called as columns are.

    Checkouts of the first versions may be so, and Iceberg's own library refuses them.
    """
    specs = metadata.partition_specs
    return share_ids(specs) or _renamed(specs, metadata.schema) != specs


def share_ids(specs: Specs) -> bool:
    """Whether an id stands for two things in specs, so that no reader could tell them apart."""
    known: dict[int, tuple[int, str]] = {}
    return any(known.setdefault(f.field_id, _made_by(f)) != _made_by(f) for f in _fields(specs))


def _fields(specs: Specs) -> Iterator[PartitionField]:
    """Yield the fields of specs, oldest first."""
    return chain.from_iterable(spec.fields for _, spec in sorted(specs.items()))


def _made_by(field: PartitionField) -> tuple[int, str]:
    return field.source_id, field.transform


def _renamed(specs: Specs, schema: Schema) -> dict[int, PartitionSpec]:
    """Return specs none of whose fields is called as a column."""
    names = _Names(schema, _fields(specs))
    new = {
        field.field_id: names.free(field)
        for field in _fields(specs)
        if names.is_column(field.name, field)
    }
    if not new:
        return dict(specs)
    return {
        number: replace(
            spec,
            fields=tuple(
                replace(f, name=new[f.field_id]) if names.is_column(f.name, f) else f
                for f in spec.fields
            ),
        )
        for number, spec in specs.items()
    }


def _with_spec(
    known: Specs, wanted: PartitionSpec, schema: Schema, last: int
) -> tuple[dict[int, PartitionSpec], int]:
    """Return specs with one among them, and its number; `last` is the last id of a field."""
    found = dict(known)
    made_by = [_made_by(field) for field in wanted.fields]
    for number, spec in known.items():
        if [_made_by(field) for field in spec.fields] == made_by:
            return found, number
    # The newest field of a kind comes last, and is the one that is used again.
    there = {_made_by(field): field for field in _fields(known)}
    last = max([last, *(field.field_id for field in there.values())])
    names = _Names(schema, _fields(known))
    fields = []
    for field in wanted.fields:
        old = there.get(_made_by(field))
        if old is None:
            last = max(last + 1, field.field_id)
            old = replace(field, field_id=last)
            old = replace(old, name=names.free(old))
        fields.append(old)
    number = wanted.spec_id if wanted.spec_id not in known else max(known) + 1
    found[number] = PartitionSpec(tuple(fields), number)
    return found, number


class _Names:
    """The names that columns and fields of specs have, whatever their case."""

    def __init__(self, schema: Schema, fields: Iterable[PartitionField]) -> None:
        self._schema = schema
        self._columns = {column.name.casefold(): column.id for column in schema.fields}
        self._fields: dict[str, set[int]] = {}
        for field in fields:
            self._take(field.name, field)

    def is_column(self, name: str, field: PartitionField) -> bool:
        """Whether a column is called so. A field may be called as its column that it equals."""
        column = self._columns.get(name.casefold())
        same = field.transform == "identity" and column == field.source_id
        return column is not None and not same

    def free(self, field: PartitionField) -> str:
        """Return a name for a field, its own if possible, and take it."""
        source = self._schema.by_id.get(field.source_id)
        likely = field_names(source.name, field.transform) if source is not None else ()
        others = (f"{field.name}_{number}" for number in count(2))
        for name in chain([field.name], likely, others):
            users = self._fields.get(name.casefold(), set())
            if not self.is_column(name, field) and users <= {field.field_id}:
                self._take(name, field)
                return name
        raise AssertionError("one of all numbers is free")

    def _take(self, name: str, field: PartitionField) -> None:
        self._fields.setdefault(name.casefold(), set()).add(field.field_id)


def _numbered(
    known: Mapping[int, _T],
    wanted: _T,
    preferred: int,
    same: Callable[[_T], object] = lambda value: value,
) -> tuple[dict[int, _T], int]:
    """Return what is known with `wanted` among it, and its number."""
    found = dict(known)
    for number, each in known.items():
        if same(each) == same(wanted):
            return found, number
    number = preferred if preferred not in known else max(known) + 1
    found[number] = wanted
    return found, number


def past_spec(view: DatasetInFiles, name: str) -> PartitionSpec:
    """Return the partition spec that entries call so."""
    if name == view.layout.partition_hash:
        return view.partition
    where = f"the partition spec {name} of {view.path} at {view.revision}"
    return parse_partition(view.past_document(name), where)


def last_column_id(view: DatasetInFiles, known: TableMetadata | None) -> int:
    """Return the last column id of a dataset's table: where new columns are counted from.

    It lies some random way above the dataset's highest, so that columns which two
    workspaces add rarely share an id, and moves only when the dataset passes it.
    """
    highest = view.last_column_id
    if known is not None and known.last_column_id >= highest:
        return known.last_column_id
    return highest + random.SystemRandom().randrange(BLOCK)
