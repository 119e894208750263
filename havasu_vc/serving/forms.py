"""In which form a client gets a table: which readers its metadata is written for.

Plain Iceberg for all, as every engine reads it. DuckDB takes columns of WKB in GeoParquet for
geometries whatever a table says, and so reads them only where the table says that too: it gets
Iceberg 3, where there are such types. Columns of geometries in another encoding are bytes to it.
Other forms are given to those who ask for them in the header `X-Havasu-Flavour`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from havasu_vc.datasets.havasu.parquet import open_parquet
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.havasu.writing import GEO
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.formats.iceberg.native_geometry import NativeTypes
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["HEADER", "PLAIN", "Form", "form_for", "native_types", "plain_schema"]

HEADER = "x-havasu-flavour"
NATIVE = "native"
"""What the header says for Iceberg 3 with its own types of geometries."""
MOST_ASKED = 256
"""So many data files are asked which of their columns are geometries."""
_NAMED = re.compile(r"[A-Za-z][A-Za-z0-9]*:[A-Za-z0-9.]+")


@dataclass(frozen=True, slots=True)
class Form:
    """How a table is written."""

    flavour: Flavour = Flavour.ICEBERG
    """Which readers it is for."""
    native: bool = False
    """Whether geometries have the types of Iceberg 3, where there are any."""


PLAIN = Form()
"""What every engine reads."""


def form_for(headers: Mapping[str, str]) -> Form:
    """Return the form for the client that sent these headers.

    >>> form_for({"user-agent": "duckdb/v1.5.5(linux_amd64)"}).native
    True
    """
    asked = headers.get(HEADER)
    if asked is None:
        return Form(native=headers.get("user-agent", "").startswith("duckdb/"))
    if asked == NATIVE:
        return Form(native=True)
    try:
        return Form(Flavour(asked))
    except ValueError:
        known = ", ".join([*Flavour, NATIVE])
        raise InvalidArgumentError(f"{asked!r} is no flavour; there are {known}") from None


def native_types(view: HavasuDataset) -> NativeTypes:
    """Return the types of Iceberg 3 of columns that data files call geometries, by field id.

    Files say so where values are WKB as the standard has it. Of very many files some are asked.
    """
    columns = [
        column
        for column in view.schema.fields
        if column.geometry is not None and column.geometry.encoding.is_binary
    ]
    entries = sorted(view.data_entries, key=lambda entry: entry.file) if columns else []
    for entry in entries[:: len(entries) // MOST_ASKED + 1]:
        named = _geometries_in(view.file_path(entry))
        columns = [column for column in columns if column.stored_name in named]
        if not columns:
            break
    found = {}
    for column in columns if entries else ():
        crs = None if column.geometry is None else column.geometry.crs
        found[column.id] = f"geometry({crs})" if _NAMED.fullmatch(crs or "") else "geometry"
    return found


@lru_cache(maxsize=1 << 14)
def _geometries_in(path: str) -> frozenset[str]:
    """Return the columns of a data file that it calls geometries; files never change."""
    with open_parquet(path) as file:
        found = (file.schema_arrow.metadata or {}).get(GEO.encode())
    try:
        return frozenset(json.loads(found)["columns"]) if found else frozenset()
    except (ValueError, KeyError, TypeError):
        return frozenset()


def plain_schema(schema: Schema, types: NativeTypes) -> Schema:
    """Return a schema without what version 3 says by types of its own."""
    fields = (
        replace(column, geometry=None, extra=()) if column.id in types else column
        for column in schema.fields
    )
    return Schema(tuple(fields), schema.identifier_ids)
