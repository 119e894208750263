"""Where the key of a dataset goes in a file of GDAL's: its own number of a row, a column, or both.

GDAL calls the number FID. A GeoPackage keeps it as a column, so a key of whole numbers is that
column, under its own name, unless whoever exports says otherwise; then it is called `fid`. Other
formats count rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.edit_values import integer_key
from havasu_vc.exchange.export_columns import Notes, Outgoing
from havasu_vc.exchange.formats import ExportFormat, GdalForm
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["KeyPlan", "free_name", "key_plan"]


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """The columns that are written, and what tells their rows apart."""

    columns: tuple[tuple[int, Outgoing], ...]
    """Columns, each with the position of the one it is made of."""
    key: str | None = None
    """The key of the dataset whose values the format takes for its own."""
    fid: str | None = None
    """The name that the column of these has in the file."""


def key_plan(
    schema: Schema, columns: Sequence[Outgoing], form: GdalForm, format: ExportFormat, notes: Notes
) -> KeyPlan:
    """Return what is written of a key; `columns` are those of the schema, as they go out."""
    placed = list(enumerate(columns))
    key = integer_key(schema)
    if form.key_as_fid and key is None:
        raise InvalidArgumentError(
            "--primary-key-as-fid is not supported for datasets with non-integer primary keys",
            hints=("leave the option out: the key is a column",),
        )
    position = None if key is None else schema.names.index(key)
    if form.key_as_fid is None and form.key_as_field is None:
        if position is None or format is not ExportFormat.GPKG:
            return KeyPlan(tuple(placed))
        return KeyPlan(tuple(placed), key, columns[position].name)
    if format is not ExportFormat.GPKG:
        return KeyPlan(tuple(_beside_no_number(placed, schema, form, format, notes)))
    if form.key_as_field is False:
        keys = {schema.names.index(name) for name in schema.key.names if name in schema.by_name}
        placed = [each for each in placed if each[0] not in keys]
    if position is None or form.key_as_fid is False:
        return KeyPlan(tuple(placed))
    names = [column.name for _, column in placed]
    asked = {name.upper(): text for name, text in form.layer_options.items()}.get("FID")
    fid = asked or ("fid" if columns[position].name.lower() == "fid" else free_name("fid", names))
    if fid.lower() not in {name.lower() for name in names}:
        placed.insert(0, (position, replace(columns[position], name=fid)))
    return KeyPlan(tuple(placed), key, fid)


def _beside_no_number(
    placed: list[tuple[int, Outgoing]],
    schema: Schema,
    form: GdalForm,
    format: ExportFormat,
    notes: Notes,
) -> list[tuple[int, Outgoing]]:
    """Return the columns in a format that numbers rows itself: a key is a column or left out."""
    if form.key_as_fid:
        notes.say(f"rows of {format.label} have numbers of their own: the key is a column")
        return placed
    if form.key_as_field is not False:
        return placed
    keys = [name for name in schema.key.names if name in schema.by_name]
    if keys:
        notes.say(f"the key {', '.join(map(repr, keys))} is left out of {format.label}")
    return [each for each in placed if schema.names[each[0]] not in keys]


def free_name(wanted: str, names: Sequence[str]) -> str:
    """Return a name that no column has."""
    lower = {name.lower() for name in names}
    candidates = (wanted, f"_{wanted}", *(f"{wanted}_{number}" for number in range(1000)))
    return next(name for name in candidates if name not in lower)
