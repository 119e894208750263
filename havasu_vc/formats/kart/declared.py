"""Columns that an editor declared in SQL, with the length and size that Kart keeps of them.

Words that say what a field says anyway are not here: `INTEGER` has 64 bits in a GeoPackage and
32 in PostgreSQL.

>>> as_declared(Field(7, "note", Primitive.STRING), "TEXT(32)").extra
(('kart.column', '{"dataType":"text","length":32}'),)
>>> as_declared(Field(7, "rank", Primitive.INT), "smallint").source_type
'int16'
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from havasu_vc.formats.kart.columns import column_id, field_of_column
from havasu_vc.model.columns import Column
from havasu_vc.model.types import Field, Primitive

__all__ = ["as_declared"]

_DECLARED: Mapping[str, Column] = {
    "tinyint": {"dataType": "integer", "size": 8},
    "smallint": {"dataType": "integer", "size": 16},
    "mediumint": {"dataType": "integer", "size": 32},
    "float": {"dataType": "float", "size": 32},
    "real": {"dataType": "float", "size": 32},
    "text": {"dataType": "text"},
    "character varying": {"dataType": "text"},
    "character": {"dataType": "text"},
    "blob": {"dataType": "blob"},
    "interval": {"dataType": "interval"},
    "numeric": {"dataType": "numeric"},
}
_TYPE = re.compile(r"([a-z ]+?) ?(?:\( ?(\d+) ?\))?")


def as_declared(field: Field, declared: str) -> Field:
    """Return a column with the length and size that its type in SQL has.

    It is the field itself where the word is unknown, or means another type of values.
    """
    found = _TYPE.fullmatch(declared.lower())
    known = None if found is None else _DECLARED.get(found[1])
    if found is None or known is None:
        return field
    length = {} if found[2] is None else {"length": int(found[2])}
    column = {"id": column_id(field), "name": field.name, **known, **length}
    made = field_of_column(column, field.id, required=field.required)
    return replace(made, physical_name=field.physical_name) if _alike(field, made) else field


def _alike(field: Field, made: Field) -> bool:
    # Kart's floats of 32 bits are read as those of 64.
    wide = Primitive.DOUBLE if field.type is Primitive.FLOAT else field.type
    return made.type == wide and field.geometry is None
