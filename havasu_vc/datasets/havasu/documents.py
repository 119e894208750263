"""The small documents of a dataset that an edit writes beside its files."""

from __future__ import annotations

from collections.abc import Mapping

from havasu_vc.datasets.folder import Folder
from havasu_vc.datasets.havasu.plan import Layout, clustered_column
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.layout import (
    PartitionSpec,
    SortOrder,
    format_partition,
    format_sort_order,
    parse_sort_order,
)
from havasu_vc.formats.havasu.schema import format_schema
from havasu_vc.model.schema import Schema

__all__ = ["layout_documents", "layout_of", "past_documents"]

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


def layout_of(schema: Schema, documents: Mapping[str, bytes]) -> Layout:
    """Return the layout that these documents describe."""
    of_schema, of_partition, of_order = (
        document_hash(documents[f"meta/{name}.json"]) for name in _LAYOUT
    )
    name = "meta/sort-order.json"
    order = parse_sort_order(documents[name], name)
    return Layout(schema, of_schema, of_partition, of_order, clustered_column(schema, order))


def past_documents(
    folder: Folder | None, layout: Layout, documents: Mapping[str, bytes | None]
) -> dict[str, bytes | None]:
    """Return `documents`, and what must stand under `meta/past` for files written now."""
    blobs = dict(documents)
    hashes = (layout.schema_hash, layout.partition_hash, layout.sort_hash)
    for name, wanted in zip(_LAYOUT, hashes, strict=True):
        path = f"meta/{name}.json"
        data = documents.get(path) or (folder.read(path) if folder is not None else None)
        if data is None:
            raise ValueError(f"{path} is missing")
        past = f"meta/past/{wanted}.json"
        if folder is None or folder.read(past) is None:
            blobs[past] = data
    return blobs
