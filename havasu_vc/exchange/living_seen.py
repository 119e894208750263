"""How a table of a living working copy stands now, beside the dataset that it was made of.

Editors rename columns and tables, drop some and add others. A table is known by its triggers,
which follow it through a rename. A column is known by the id that stands beside its name in
`gpkg_data_columns`, where editors carry it along; else by its name; else by its place and type,
as Kart knows it.
"""

from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from havasu_vc.exchange.edit_state import TableColumn, table_columns
from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.living_tables import COLUMN, UNDEFINED, FileNames
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.records import dataclass

__all__ = ["Seen", "look", "unchanged"]

NO_TRIGGERS = "triggers that track edits are missing"
DISABLED = "triggers that track edits are disabled"


@dataclass(frozen=True, slots=True)
class Seen:
    """How a table stands now, beside the dataset that it was made of."""

    layer: Layer
    """As it was made."""
    table: str
    """The name that it has now."""
    columns: Mapping[str, str]
    """The name now of each column that is still there, by the dataset's name for it."""
    added: tuple[Field, ...]
    """Columns that are new; their ids say nothing."""
    distrusted: str | None = None
    """The reason not to believe what was tracked; None for none."""
    fid: str = ""
    """The name now of the feature id."""
    retyped: Mapping[str, Field] = dataclasses.field(default_factory=dict)
    """Columns whose type changed, as they are now, by the dataset's names for them."""
    declared: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The type in SQL of each column that is new or changed its type, by the name it has now."""

    said: Mapping[str, str | None] = dataclasses.field(default_factory=dict)
    """Items that its description says otherwise: `title`, `description`, and as `crs`
    the definition of the system of its geometries."""

    @property
    def lacks_triggers(self) -> bool:
        """Whether triggers that track edits are missing."""
        return self.distrusted in (NO_TRIGGERS, DISABLED)

    @property
    def key(self) -> tuple[str, ...]:
        """The names now of the key columns."""
        return tuple(self.columns[name] for name in self.layer.schema.key.names)

    @property
    def is_whole(self) -> bool:
        """Whether the columns are those that it was made with, under the names that they had."""
        alike = all(self.columns.get(name) == name for name in self.layer.schema.names)
        return alike and not self.added and not self.retyped

    def schema(self, new_id: Callable[[], int]) -> Schema:
        """Return its columns now: those that stayed keep their ids."""
        kept = []
        for field in self.layer.schema.fields:
            name = self.columns.get(field.name)
            now = self.retyped.get(field.name, field)
            if name == field.name:
                kept.append(now)
            elif name is not None:
                kept.append(replace(now, name=name, physical_name=field.stored_name))
        new = [replace(field, id=new_id()) for field in self.added]
        return Schema((*kept, *new), self.layer.schema.identifier_ids)


_AFFINITIES = (
    ("BOOL", Primitive.BOOLEAN), ("DATETIME", Primitive.TIMESTAMPTZ), ("DATE", Primitive.DATE),
    ("MEDIUMINT", Primitive.INT), ("SMALLINT", Primitive.INT), ("TINYINT", Primitive.INT),
    ("INT", Primitive.LONG), ("REAL", Primitive.DOUBLE), ("FLOA", Primitive.DOUBLE),
    ("DOUB", Primitive.DOUBLE), ("BLOB", Primitive.BINARY),
)  # fmt: skip

_WIDE = frozenset(("INT", "INTEGER", "REAL", "DOUBLE"))


def _type_of(declared: str) -> Primitive:
    """Return the type that a column of an editor's making has."""
    word = declared.upper()
    return next((type_ for part, type_ in _AFFINITIES if part in word), Primitive.STRING)


def unchanged(layer: Layer, table: str) -> Seen:
    """Return a table that stands as it was made."""
    return Seen(layer, table, {name: name for name in layer.schema.names}, (), None, layer.fid)


def look(database: sqlite3.Connection, names: FileNames, layer: Layer) -> Seen | None:
    """Return how a layer's table stands; None where it is gone."""
    triggers = dict(
        database.execute(
            "SELECT name, tbl_name FROM sqlite_master WHERE type = 'trigger' AND name IN "
            f"({', '.join('?' * 3)})",
            [f"{names.trigger}_{layer.table}_{each}" for each in ("ins", "upd", "del")],
        )
    )
    tables = {table.lower(): table for table in triggers.values()}
    table = next(iter(tables.values()), layer.table)
    now = table_columns(database, table)
    if not now:
        return None
    distrusted = None
    if len(triggers) < 3:
        distrusted = NO_TRIGGERS
    elif len(tables) > 1:
        distrusted = "triggers that track edits are of several tables"
    columns, added, fid = _matched(database, names, layer, now, table)
    fields = tuple(Field(1, column.name, _type_of(column.type)) for column in added)
    # A whole number or a real one has 64 bits here, whatever the word means elsewhere.
    declared = {each.name: each.type for each in added if each.type.upper() not in _WIDE}
    said = _said(database, layer, table)
    if distrusted:  # who made the table anew wrote its name for a title, and seldom a text
        none = (None, layer.table, table)
        said = {item: now for item, now in said.items() if item == "crs" or now not in none}
    return Seen(layer, table, columns, fields, distrusted, fid, declared=declared, said=said)


_DESCRIPTION = """
SELECT c.identifier, c.description, g.srs_id, s.organization || ':' || s.organization_coordsys_id,
  s.definition
FROM gpkg_contents c
LEFT JOIN gpkg_geometry_columns g ON g.table_name = c.table_name
LEFT JOIN gpkg_spatial_ref_sys s ON s.srs_id = g.srs_id
WHERE c.table_name = ? LIMIT 1
"""


def _said(database: sqlite3.Connection, layer: Layer, table: str) -> dict[str, str | None]:
    """Return what the list of layers says otherwise than the dataset."""
    row = database.execute(_DESCRIPTION, (table,)).fetchone()
    if row is None:
        return {}
    title, description, srs_id, code, definition = row
    found: dict[str, str | None] = {}
    prefix = f"{layer.table}: "  # that no two layers may have one title is seen to so
    if not (was := layer.said("title") or "").startswith(prefix):
        title = (title or "").removeprefix(prefix)
    now = _text(title)
    if now != (was or None) and now not in _names_of_a_table(layer, table):
        found["title"] = now
    if (now := _text(description)) != layer.said("description"):
        found["description"] = now
    main = layer.geometry
    says_one = srs_id not in (None, 0, -1) and definition != UNDEFINED
    if main is not None and main.geometry is not None and says_one:
        known = main.geometry.crs
        same = code == known and code.startswith("EPSG:")
        if not same and not _same_words(layer.header.crs.get(known or "", ""), definition):
            own = layer.crs
            if own is None or (own.srid != srs_id and not _same_words(own.wkt, definition)):
                found["crs"] = definition
    return found


def _names_of_a_table(layer: Layer, table: str) -> tuple[str, ...]:
    """Return what programs write in a title's place where a layer has none.

    Kart takes the name of a table for a title as any other, and imports give it as one.
    """
    if not layer.kart:
        return layer.table, table
    return () if table == layer.table else (table,)


def _text(value: object) -> str | None:
    """Return a text without space around it; None where nothing is left."""
    return (str(value).strip() or None) if value is not None else None


def _same_words(one: str, other: str | None) -> bool:
    """Whether two definitions are alike but for space."""
    return "".join(one.split()) == "".join((other or "").split())


def _matched(
    database: sqlite3.Connection,
    names: FileNames,
    layer: Layer,
    now: Sequence[TableColumn],
    table: str,
) -> tuple[dict[str, str], tuple[TableColumn, ...], str]:
    """Return which column is which: by its id, by its name, by its place and type."""
    here = {column.name: column for column in now}
    found: dict[str, str] = {}
    by_id = layer.schema.by_id
    for name, number in _column_ids(database, names, table).items():
        if name in here and number in by_id:
            found.setdefault(by_id[number].name, name)
    taken = set(found.values())
    fid = layer.fid if layer.fid in here and layer.fid not in taken else ""
    for field in layer.schema.fields:
        if field.name not in found and field.name in here and field.name not in taken:
            found[field.name] = field.name
            taken.add(field.name)
    own = [layer.fid] if layer.has_own_fid else []
    order = [*own, *layer.schema.names]
    for place, name in enumerate(order):
        if name in found or (name == fid and name in own) or place >= len(now):
            continue
        column, declared = now[place], layer.declared.get(name, "INTEGER")
        if name == layer.fid:
            declared = "INTEGER"
        if column.name in taken or column.name == fid or column.type != declared:
            continue
        if name in own:
            fid = column.name
        else:
            found[name] = column.name
        taken.add(column.name)
    if not layer.has_own_fid:
        fid = found.get(layer.fid, "")
    added = tuple(each for each in now if each.name not in taken and each.name != fid)
    if layer.has_own_fid and not fid and added:
        # An editor that made the table anew called it otherwise.
        keys = [each for each in added if each.type.upper() == "INTEGER"]
        if keys and keys[0] == now[0]:
            fid = keys[0].name
            added = tuple(each for each in added if each.name != fid)
    return found, added, fid


def _column_ids(database: sqlite3.Connection, names: FileNames, table: str) -> dict[str, int]:
    if names.kart:
        return {}
    rows = database.execute(
        "SELECT column_name, mime_type FROM gpkg_data_columns WHERE lower(table_name) = "
        "lower(?) AND mime_type LIKE ?",
        (table, f"{COLUMN}%"),
    )
    tails = {name: str(text).removeprefix(COLUMN) for name, text in rows}
    return {name: int(tail) for name, tail in tails.items() if tail.isdecimal()}
