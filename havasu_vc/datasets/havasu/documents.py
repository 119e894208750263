"""The small documents of a dataset that an edit writes beside its files."""

from __future__ import annotations

from collections.abc import Mapping

from havasu_vc.datasets.folder import Folder, documents_of
from havasu_vc.datasets.havasu.plan import FileLayout, clustered_column, past_path
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import (
    DATASET,
    PartitionSpec,
    Properties,
    SortOrder,
    format_partition,
    format_properties,
    format_sort_order,
    parse_sort_order,
)
from havasu_vc.formats.havasu.schema import FOLDER as COLUMNS
from havasu_vc.formats.havasu.schema import format_columns, format_schema, parse_columns
from havasu_vc.model.schema import Schema

__all__ = [
    "SCHEMA",
    "column_documents",
    "empty_documents",
    "layout_documents",
    "layout_of",
    "past_documents",
]

SCHEMA = "meta/schema.json"
"""A name for the columns as a whole, in documents that are not written yet."""
_UNPARTITIONED = format_partition(PartitionSpec())
_UNORDERED = format_sort_order(SortOrder())
_LAYOUT = ("schema", "partition", "sort-order")


def layout_documents(
    schema: Schema, partition: PartitionSpec, order: SortOrder
) -> dict[str, bytes]:
    """Return the documents that say how files are written, by path."""
    return {
        "meta/schema.json": format_schema(schema),
        "meta/partition.json": format_partition(partition),
        "meta/sort-order.json": format_sort_order(order),
    }


def layout_of(schema: Schema, documents: Mapping[str, bytes]) -> FileLayout:
    """Return the layout that these documents describe."""
    of_schema, of_partition, of_order = (
        document_hash(documents[f"meta/{name}.json"]) for name in _LAYOUT
    )
    name = "meta/sort-order.json"
    order = parse_sort_order(documents[name], name)
    return FileLayout(schema, of_schema, of_partition, of_order, clustered_column(schema, order))


def empty_documents(schema: Schema) -> dict[str, bytes]:
    """Return the documents of a dataset that has columns and no rows, and is no particular one."""
    return {
        DATASET: format_properties(Properties("", schema.last_id)),
        **layout_documents(schema, PartitionSpec(), SortOrder()),
        **{f"{COLUMNS}/{name}": data for name, data in format_columns(schema).items()},
    }


def past_documents(
    folder: Folder | None, layout: FileLayout, documents: Mapping[str, bytes | None]
) -> dict[str, bytes | None]:
    """Return `documents`, and what deltas of files that are written now have as `past`."""
    blobs = dict(documents)
    if blobs.pop(SCHEMA, None) is not None:
        blobs.update(column_documents(folder, layout.schema))
    hashes = (layout.schema_hash, layout.partition_hash, layout.sort_hash)
    # Rows that come to a table of partitions lie in none of them, and in no order.
    known = [format_schema(layout.schema), _UNPARTITIONED, _UNORDERED]
    for path in ("meta/partition.json", "meta/sort-order.json"):
        data = documents.get(path) or (folder.read(path) if folder is not None else None)
        known += [] if data is None else [data]
    named = {document_hash(data): data for data in known}
    for wanted in hashes:
        if wanted not in named:
            raise ValueError(f"the document {wanted} is missing")
        blobs[past_path(wanted)] = named[wanted]
    return blobs


def column_documents(folder: Folder | None, schema: Schema) -> dict[str, bytes | None]:
    """Return what becomes of the documents of columns, by path."""
    before = {} if folder is None else dict(documents_of(folder, COLUMNS))
    places = parse_columns(before.items(), COLUMNS)[1] if before else {}
    after = format_columns(schema, places)
    return {
        f"{COLUMNS}/{name}": after.get(name)
        for name in sorted(before.keys() | after.keys())
        if before.get(name) != after.get(name)
    }
