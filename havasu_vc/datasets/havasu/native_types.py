"""Which columns of a dataset its data files call geometries: what Iceberg 3 has types for.

GeoParquet says so where values are WKB as the standard has it. DuckDB believes the files, and so
reads such a column only where the table says the same.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from havasu_vc.datasets.havasu.parquet import open_parquet
from havasu_vc.datasets.havasu.writing import GEO
from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = ["native_types"]

MOST_ASKED = 256
"""So many data files are asked which of their columns are geometries."""
_NAMED = re.compile(r"[A-Za-z][A-Za-z0-9]*:[A-Za-z0-9.]+")


def native_types(view: DatasetInFiles) -> dict[int, str]:
    """Return the types of Iceberg 3 of columns that data files call geometries, by field id.

    Files say so where values are WKB as the standard has it. Of very many files some are asked;
    where
    there is none, or none with the column, none says otherwise.
    """
    columns = [
        column
        for column in view.schema.fields
        if column.geometry is not None and column.geometry.encoding.is_binary
    ]
    entries = sorted(view.data_entries, key=lambda entry: entry.file) if columns else []
    for entry in entries[:: len(entries) // MOST_ASKED + 1]:
        others = _others_in(view.file_path(entry))
        columns = [column for column in columns if column.stored_name not in others]
        if not columns:
            break
    found = {}
    for column in columns:
        crs = None if column.geometry is None else column.geometry.crs
        found[column.id] = f"geometry({crs})" if _NAMED.fullmatch(crs or "") else "geometry"
    return found


@lru_cache(maxsize=1 << 14)
def _others_in(path: str) -> frozenset[str]:
    """Return the columns of a data file that it calls no geometries; files never change."""
    with open_parquet(path) as file:
        found = (file.schema_arrow.metadata or {}).get(GEO.encode())
        names = frozenset(file.schema_arrow.names)
    try:
        return names - json.loads(found)["columns"].keys() if found else names
    except (ValueError, KeyError, TypeError, AttributeError):
        return names
