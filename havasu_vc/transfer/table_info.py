"""What whoever imports says of tables instead of their file: titles, descriptions, metadata.

It comes as JSON, an object for each dataset or layer: `{"parcels": {"title": "Land parcels"}}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from havasu_vc.datasets.kinds import DatasetKind
from havasu_vc.errors import InvalidArgumentError

__all__ = ["TableInfo", "info_documents", "parse_table_info"]

TableInfo = Mapping[str, str]
"""What is said of one table, by name: of `title`, `description` and `xmlMetadata`."""
_ITEMS = {"title": "title", "description": "description", "xmlMetadata": "metadata.xml"}


def parse_table_info(text: str) -> dict[str, TableInfo]:
    """Read what is said of tables, by dataset or layer."""
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"--table-info is not JSON: {error}") from error
    tables = found if isinstance(found, dict) else None
    if tables is None or not all(isinstance(said, dict) for said in tables.values()):
        raise InvalidArgumentError(
            "--table-info must be an object of objects",
            hints=("""such as '{"parcels": {"title": "Land parcels"}}'""",),
        )
    for table, said in tables.items():
        for name, value in said.items():
            if name in _ITEMS and not isinstance(value, str):
                raise InvalidArgumentError(f"--table-info: {name} of {table!r} must be text")
            if name not in _ITEMS:
                raise InvalidArgumentError(
                    f"--table-info says {name!r} of {table!r}, which is none of its items",
                    hints=(f"items are {', '.join(_ITEMS)}",),
                )
    return tables


def info_documents(said: TableInfo, kind: DatasetKind) -> dict[str, bytes]:
    """Return the documents of a dataset that what is said of it makes."""
    if "xmlMetadata" in said and kind.in_files:
        raise InvalidArgumentError(
            f"a {kind.name.capitalize()} dataset keeps no xmlMetadata",
            hints=("--as kart makes a dataset that does",),
        )
    return {f"meta/{_ITEMS[name]}": value.encode() for name, value in said.items()}
