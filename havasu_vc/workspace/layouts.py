"""The schemas, partition specs and sort orders of a dataset, numbered as a table has them.

A table keeps those that it had before under their numbers, since old snapshots and
manifests refer to them; what is new gets the next number. A Hilbert curve is no sort
order that Iceberg knows, so such a table calls itself unsorted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import TypeVar

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.layout import PartitionSpec, SortOrder, parse_partition
from havasu_vc.formats.iceberg.values import TableMetadata
from havasu_vc.model.evolution import BLOCK
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["Numbered", "last_column_id", "number_layouts", "past_spec"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Numbered:
    """The specs and orders of a table's metadata, and which of them are the dataset's."""

    schemas: Mapping[int, Schema]
    """All schemas of the table, by id."""
    schema_id: int
    """The dataset's schema."""
    specs: Mapping[int, PartitionSpec]
    """All partition specs of the table, by id."""
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

    @property
    def schema(self) -> Schema:
        """The dataset's schema."""
        return self.schemas[self.schema_id]

    def spec_of(self, entry: Entry) -> PartitionSpec:
        """Return the spec that a file was written with."""
        return self.specs[self.spec_ids[entry.partition_spec]]


def number_layouts(view: HavasuDataset, known: TableMetadata | None) -> Numbered:
    """Return the layouts of a dataset as numbered in its table, or in a new one."""
    schemas, schema_id = _numbered({} if known is None else known.schemas, view.schema, 0)
    specs = dict({} if known is None else known.partition_specs)
    specs, spec_id = _specs(specs, view.partition)
    spec_ids = {}
    for name in sorted({entry.partition_spec for entry in view.data_entries}):
        specs, spec_ids[name] = _specs(specs, past_spec(view, name))
    orders = {0: SortOrder(), **({} if known is None else known.sort_orders)}
    wanted = SortOrder() if view.order.is_hilbert else view.order
    order_id = 0
    if wanted.fields:
        orders, order_id = _numbered(
            orders, wanted, max(wanted.order_id, 1), lambda order: order.fields
        )
        orders[order_id] = SortOrder(wanted.fields, order_id)
    order_ids = {view.layout.sort_hash: order_id}
    return Numbered(schemas, schema_id, specs, spec_id, orders, order_id, spec_ids, order_ids)


def _specs(
    known: Mapping[int, PartitionSpec], wanted: PartitionSpec
) -> tuple[dict[int, PartitionSpec], int]:
    specs, number = _numbered(known, wanted, wanted.spec_id, lambda spec: spec.fields)
    specs[number] = PartitionSpec(wanted.fields, number)
    return specs, number


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


def past_spec(view: HavasuDataset, name: str) -> PartitionSpec:
    """Return the partition spec that entries call so."""
    if name == view.layout.partition_hash:
        return view.partition
    where = f"the partition spec {name} of {view.path} at {view.revision}"
    return parse_partition(view.past_document(name), where)


def last_column_id(view: HavasuDataset, known: TableMetadata | None) -> int:
    """Return the last column id of a dataset's table: where new columns are counted from.

    It lies some random way above the dataset's highest, so that columns which two
    workspaces add rarely share an id, and moves only when the dataset passes it.
    """
    highest = view.last_column_id
    if known is not None and known.last_column_id >= highest:
        return known.last_column_id
    return highest + random.SystemRandom().randrange(BLOCK)
