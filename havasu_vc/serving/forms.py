"""In which form a client gets a table: which readers its metadata is written for.

Plain Iceberg for all, as every engine reads it. DuckDB takes columns of WKB in GeoParquet for
geometries whatever a table says, and so reads them only where the table says that too: it gets
Iceberg 3, where there are such types. Columns of geometries in another encoding are bytes to it.
Other forms are given to those who ask for them in the header `X-Havasu-Flavour`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.formats.iceberg.native_geometry import NativeTypes
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["HEADER", "PLAIN", "TableForm", "form_for", "plain_schema"]

HEADER = "x-havasu-flavour"
NATIVE = "native"
"""The word of the header for Iceberg 3 with its own types of geometries."""


@dataclass(frozen=True, slots=True)
class TableForm:
    """How a table is written."""

    flavour: Flavour = Flavour.ICEBERG
    """Which readers it is for."""
    native: bool = False
    """Whether geometries have the types of Iceberg 3, where there are any."""


PLAIN = TableForm()
"""The form that every engine reads."""


def form_for(headers: Mapping[str, str]) -> TableForm:
    """Return the form for the client that sent these headers.

    >>> form_for({"user-agent": "duckdb/v1.5.5(linux_amd64)"}).native
    True
    """
    asked = headers.get(HEADER)
    if asked is None:
        return TableForm(native=headers.get("user-agent", "").startswith("duckdb/"))
    if asked == NATIVE:
        return TableForm(native=True)
    try:
        return TableForm(Flavour(asked))
    except ValueError:
        known = ", ".join([*Flavour, NATIVE])
        raise InvalidArgumentError(f"{asked!r} is no flavour; there are {known}") from None


def plain_schema(schema: Schema, types: NativeTypes) -> Schema:
    """Return a schema without what version 3 says by types of its own."""
    fields = (
        replace(column, geometry=None, extra=()) if column.id in types else column
        for column in schema.fields
    )
    return Schema(tuple(fields), schema.identifier_ids)
