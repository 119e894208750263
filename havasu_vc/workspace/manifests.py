"""Which manifests a checkout keeps, and what goes into new ones.

A manifest of ours whose files all stay is named again as it is. One that loses a file is
written anew with the others; files that come get a manifest of their own. Where small
manifests pile up they are written as one, so a table that is checked out a thousand
times has few. Sequence numbers follow one rule: data files have 1 whenever they come,
delete files that of the snapshot that brought them.

The schemas, partition specs and sort orders of a dataset, numbered as a table has them.

A table keeps those that it had before under their numbers, since old snapshots and
manifests refer to them; what is new gets the next number. A Hilbert curve is no sort
order that Iceberg knows, so such a table calls itself unsorted.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias, TypeVar

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.formats.havasu.properties import PartitionSpec, SortOrder, parse_partition
from havasu_vc.formats.iceberg.values import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    Status,
    TableMetadata,
)
from havasu_vc.model.evolution import BLOCK
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = [
    "DATA_SEQUENCE",
    "ManifestPlan",
    "Numbered",
    "Read",
    "is_ours",
    "last_column_id",
    "number_layouts",
    "past_spec",
    "plan_manifests",
]

DATA_SEQUENCE = 1
"""The data sequence number of every data file, so that deletes of any age apply to it."""

_OURS = re.compile(r"[0-9a-f]{32}-m\.avro")

MANY = 8
"""Manifests of one kind beyond which the small ones are merged."""
SMALL = 256
"""A manifest of fewer files is small."""

Read: TypeAlias = tuple[ManifestFile, Sequence[ManifestEntry]]
"""A manifest and its entries, with what they inherit filled in."""
Group: TypeAlias = tuple[ManifestContent, int]
"""Files of one manifest hold the same and share a partition spec."""


@dataclass
class ManifestPlan:
    """The manifests of a snapshot."""

    kept: list[ManifestFile] = field(default_factory=list)
    """Manifests that are named again."""
    entries: dict[Group, list[ManifestEntry]] = field(default_factory=dict)
    """The entries of new manifests."""
    wanting: list[str] = field(default_factory=list)
    """Paths of wanted files that no manifest of ours describes yet."""
    known: dict[str, ManifestEntry] = field(default_factory=dict)
    """Live entries of the table as it was, by path."""

    def add(self, spec_id: int, entry: ManifestEntry) -> None:
        """Put an entry into a new manifest."""
        is_data = entry.file.content is DataFileContent.DATA
        content = ManifestContent.DATA if is_data else ManifestContent.DELETES
        self.entries.setdefault((content, spec_id), []).append(entry)

    def come(self, spec_id: int, file: DataFile, snapshot_id: int, sequence_number: int) -> None:
        """Put a file that is described now into a new manifest."""
        was = self.known.get(file.path)
        is_data = file.content is DataFileContent.DATA
        number = DATA_SEQUENCE if is_data else sequence_number
        if was is None:
            new = ManifestEntry(Status.ADDED, file, snapshot_id, number, sequence_number)
        else:
            new = replace(was, status=Status.EXISTING, file=file)
            new = replace(new, sequence_number=number if is_data else was.sequence_number)
        self.add(spec_id, new)


def is_ours(manifest: ManifestFile) -> bool:
    """Whether we wrote a manifest, so that what it says of files is complete."""
    return _OURS.fullmatch(manifest.path.rpartition("/")[2]) is not None


def plan_manifests(
    old: Iterable[Read], wanted: Mapping[str, int], snapshot_id: int, *, complete: bool = True
) -> ManifestPlan:
    """Return what to keep of the table's manifests so that just the wanted files live.

    `wanted` gives the partition spec of each file by path. The plan's `wanting` have to be
    described before its entries are complete. Unless our manifests are `complete` for the
    flavour that is wanted, none is kept.
    """
    plan = ManifestPlan()
    found: set[str] = set()
    kept: list[Read] = []
    for manifest, entries in old:
        live = [entry for entry in entries if entry.status is not Status.DELETED]
        plan.known.update((entry.file.path, entry) for entry in live)
        ours = complete and is_ours(manifest)
        good = [
            entry
            for entry in live
            if ours
            and wanted.get(entry.file.path) == manifest.spec_id
            and entry.file.path not in found
            and _rightly_numbered(entry)
        ]
        found.update(entry.file.path for entry in good)
        if good and len(good) == len(live):
            kept.append((manifest, live))
            continue
        for entry in good:
            plan.add(manifest.spec_id, replace(entry, status=Status.EXISTING))
        for entry in live:
            if entry.file.path not in wanted:
                gone = replace(entry, status=Status.DELETED, snapshot_id=snapshot_id)
                plan.add(manifest.spec_id, gone)
    plan.kept = _merged(kept, plan)
    plan.wanting = [path for path in wanted if path not in found]
    return plan


def _rightly_numbered(entry: ManifestEntry) -> bool:
    is_data = entry.file.content is DataFileContent.DATA
    return not is_data or entry.sequence_number == DATA_SEQUENCE


def _merged(kept: Sequence[Read], plan: ManifestPlan) -> list[ManifestFile]:
    """Return the manifests to keep, once small ones of kinds that have many are taken up."""
    groups: dict[Group, list[Read]] = {}
    for manifest, live in kept:
        groups.setdefault((manifest.content, manifest.spec_id), []).append((manifest, live))
    staying: list[ManifestFile] = []
    for (_, spec_id), members in groups.items():
        small = [each for each in members if len(each[1]) < SMALL]
        if len(members) <= MANY or len(small) < 2:
            staying += [manifest for manifest, _ in members]
            continue
        staying += [manifest for manifest, live in members if len(live) >= SMALL]
        for _, live in small:
            for entry in live:
                plan.add(spec_id, replace(entry, status=Status.EXISTING))
    return staying


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
