"""One row at one revision, for people and for programs.

    parcels:feature:42
                                          id = 42
                                        name = Grafton

As JSON it is the object that diffs have for a row.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from havasu_vc.datasets.kinds import is_of_kart
from havasu_vc.model import compute as pc
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.writers.json_style import LAYOUTS
from havasu_vc.writers.protocol import JsonStyle, Reproject
from havasu_vc.writers.rows import ChangeForm, joined, row_objects
from havasu_vc.writers.terminal import printable, styled
from havasu_vc.writers.text import NULL, shown_text
from havasu_vc.writers.values import key_labels, side_columns

__all__ = ["row_json", "row_lines"]


def row_lines(row: pa.RecordBatch, header: DatasetHeader, *, color: bool) -> Iterator[str]:
    """Yield the lines that show a row."""
    side, zones = row.to_struct_array(), not is_of_kart(header.kind)
    label = printable(key_labels(side, header.schema)[0].as_py())
    yield styled(f"{printable(header.path)}:feature:{label}", "bold", color)
    for field, column in side_columns(side, header.schema):
        value = pc.fill_null(shown_text(column, field, zones=zones), NULL)[0].as_py()
        yield f"{printable(field.name):>42} = {value}"


def row_json(
    row: pa.RecordBatch,
    header: DatasetHeader,
    style: JsonStyle,
    reproject: Reproject | None = None,
) -> str:
    """Return a row as a JSON object."""
    form = ChangeForm(LAYOUTS[style], -1, reproject=reproject)
    return joined(row_objects(row.to_struct_array(), header, form))
