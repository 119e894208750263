"""Legends: which columns the values of a feature are of.

A feature names the legend that it was written with; a legend lists column ids, those of
the key and those of the values in the feature. Legends are added and never change, and
are named by 40 digits of the hash of their bytes. The flat list of the published page,
in which a feature holds its key too, is read as well.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgpack

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.kart.columns import column_id
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["Legend", "format_legend", "legend_name", "legend_of", "parse_legend"]

MOST_COLUMNS = 100_000


@dataclass(frozen=True, slots=True)
class Legend:
    """The columns that a feature has values of."""

    key: tuple[str, ...] | None
    """Ids of the columns whose values are the file's name; None where the key is not told apart."""
    values: tuple[str, ...]
    """Ids of the columns whose values are in the file, in order."""


def legend_of(schema: Schema) -> Legend:
    """Return the legend of features written with a schema."""
    ids = {field.id: column_id(field) for field in schema.fields}
    key = tuple(ids[number] for number in schema.identifier_ids)
    return Legend(key, tuple(name for number, name in ids.items() if name not in key))


def format_legend(legend: Legend) -> bytes:
    """Return a legend as Kart writes it."""
    packed: bytes = msgpack.packb([list(legend.key or ()), list(legend.values)])
    return packed


def legend_name(data: bytes) -> str:
    """Return the name of a legend with these bytes."""
    return hashlib.sha256(data).hexdigest()[:40]


def parse_legend(data: bytes, where: str) -> Legend:
    """Return the legend that some bytes are."""
    try:
        value: Any = msgpack.unpackb(data, max_array_len=MOST_COLUMNS, max_ext_len=0)
    except (ValueError, msgpack.exceptions.UnpackException, RecursionError) as error:
        raise CorruptDatasetError(where, f"it is not a legend: not msgpack ({error})") from error
    if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
        found = Legend(None, tuple(value))
    elif isinstance(value, list) and len(value) == 2 and all(map(_is_ids, value)):
        found = Legend(tuple(value[0]), tuple(value[1]))
    else:
        raise CorruptDatasetError(where, "it is not a legend: not two lists of column ids")
    ids = (*(found.key or ()), *found.values)
    if len(set(ids)) != len(ids):
        raise CorruptDatasetError(where, "it names a column twice")
    return found


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)
