"""Three versions of a schema, or of named items, become one.

Columns are told apart by field id, and each thing that a schema says of a column is
merged on its own: what one side alone changed is taken, what both changed alike is
taken once. What both changed differently is a conflict, unless somebody said for the
column whose side it takes. A conflict is a value beside the result; the result holds what
ours says there, so that it is always a schema that can be used.

No row is looked at: which columns that one side dropped got other values on the other is
told by who looked, and nulls in a column that became required are for the merge of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from typing import Generic, Literal, TypeAlias, TypeVar

from havasu_vc.model.counterparts import definition, renumbered, with_children
from havasu_vc.model.evolution import widens
from havasu_vc.model.schema import Schema, can_identify
from havasu_vc.model.types import (
    Encoding,
    Field,
    Geometry,
    List,
    Map,
    Struct,
    Type,
    children,
    descendants,
)
from havasu_vc.records import dataclass

__all__ = [
    "ColumnVersions",
    "ItemConflict",
    "MergedLevel",
    "MergedSchema",
    "SchemaConflict",
    "SchemaConflictKind",
    "merge_items",
    "merge_schemas",
]


T = TypeVar("T")

SchemaConflictKind: TypeAlias = Literal["type", "name", "drop", "edit", "add", "key", "property"]
"""Things that cannot both stand: two types or encodings; two names of a column, or one name of two
columns; a drop and a change; a drop and values that were changed; two definitions of an added
column; two keys; two values of something else that a column says of itself."""


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """The changes of both sides in one column, or in the key, that cannot both stand."""

    kind: SchemaConflictKind
    """Its kind."""
    name: str
    """The column as ours calls it, or as it was; `outer.inner` for a part; empty for the key."""
    field_id: int | None
    """The id that the column has in the merged schema or, if it is not there, in `theirs`."""
    base: Field | tuple[Field, ...] | None
    """The column before, None when it is new; for the key its columns."""
    ours: Field | tuple[Field, ...] | None
    """The column on our side, None when it was dropped; where ours has another column under a
    name that theirs adds, that one."""
    theirs: Field | tuple[Field, ...] | None
    """The column on their side, None when it was dropped."""
    attribute: str | None = None
    """For a property which one: `doc`, `crs`, `shape`, `source_type` or a name from `extra`."""


@dataclass(frozen=True, slots=True)
class MergedSchema:
    """The outcome of merging two schemas with a common base."""

    schema: Schema
    """Both sides' changes; where they are in conflict, ours."""
    conflicts: tuple[SchemaConflict, ...]
    """Conflicts that were decided for ours though theirs says otherwise."""
    theirs: Schema
    """Their schema, column by column, with ids as in `schema`: an id means one column in both."""


@dataclass(frozen=True, slots=True)
class ItemConflict(Generic[T]):
    """The changes of both sides in one item that cannot both stand; None where it is absent."""

    name: str
    """The item."""
    base: T | None
    """Its value before."""
    ours: T | None
    """Its value on our side."""
    theirs: T | None
    """Its value on their side."""


def merge_items(
    base: Mapping[str, T], ours: Mapping[str, T], theirs: Mapping[str, T]
) -> tuple[dict[str, T], tuple[ItemConflict[T], ...]]:
    """Return what becomes of named values, name by name, and what is in conflict.

    Order is ours, then what theirs adds. Where there is a conflict, ours stands.

    >>> merge_items({"title": "a"}, {"title": "b"}, {"title": "a", "description": "c"})
    ({'title': 'b', 'description': 'c'}, ())
    """
    merged: dict[str, T] = {}
    conflicts = []
    for name in {**ours, **theirs, **base}:
        versions = (base.get(name), ours.get(name), theirs.get(name))
        value, clash = _three_way(*versions)
        if clash:
            conflicts.append(ItemConflict(name, *versions))
        if value is not None:
            merged[name] = value
    return merged, tuple(conflicts)


def merge_schemas(
    base: Schema,
    ours: Schema,
    theirs: Schema,
    *,
    new_id: Callable[[], int],
    sides: Mapping[str, str] | None = None,
    otherwise: str | None = None,
    edited: frozenset[int] = frozenset(),
) -> MergedSchema:
    """Return what becomes of two schemas that came from one.

    `new_id` draws ids that no column ever had; it is asked for those of theirs that ours
    uses for something else. `sides` says `ours` or `theirs` for what is in conflict in a
    column, named as conflicts name it, and `otherwise` for all that `sides` does not.
    `edited` are columns and parts, by id, that one side dropped and whose values the other
    changed.
    """
    theirs = renumbered(base, ours, theirs, new_id=new_id)
    merge = _Merge([], sides or {}, otherwise, edited)
    level = MergedLevel.of(base.fields, ours.fields, theirs.fields)
    columns = merge.columns(level)
    key = merge.key(base, ours, theirs, columns)
    merge.settle_names(columns, level)
    schema = Schema(level.arranged(columns), key)
    return MergedSchema(schema, tuple(merge.conflicts), theirs)


def _three_way(base: T, ours: T, theirs: T) -> tuple[T, bool]:
    """Return what becomes of a value, ours when both sides changed it differently, and if so."""
    if theirs in (base, ours):
        return ours, False
    if ours == base:
        return theirs, False
    return ours, True


_Extra: TypeAlias = tuple[tuple[str, str], ...]
_Storage: TypeAlias = tuple[Type, str | None, Geometry | Encoding | None]


@dataclass(frozen=True, slots=True)
class _Merge:
    """Merges columns and collects the conflicts."""

    conflicts: list[SchemaConflict]
    """Found so far."""
    sides: Mapping[str, str]
    """Who wins in some columns."""
    otherwise: str | None
    """Who wins in the others; None to leave conflicts."""
    edited: frozenset[int] = frozenset()
    """Columns that one side dropped, and in which the other changed values."""
    fixed: dict[int, str] = field(default_factory=dict)
    """Columns of the key, where that had to be put back as `ours` or `theirs` has it."""

    def _theirs_wins(
        self, kind: SchemaConflictKind, versions: ColumnVersions, attribute: str | None = None
    ) -> bool:
        """Return whether theirs stands where both cannot; while nobody said, it is a conflict."""
        sides = (versions.base, versions.ours, versions.theirs)
        name, number = ".".join(versions.inner), versions.shown.id
        return self._decided(SchemaConflict(kind, name, number, *sides, attribute=attribute))

    def _decided(self, conflict: SchemaConflict) -> bool:
        side = self.sides.get(conflict.name, self.otherwise)
        if side is None:
            self.conflicts.append(conflict)
        return side == "theirs"

    # Columns side by side

    def columns(self, level: MergedLevel) -> dict[int, Field]:
        """Return merged columns by id, in no order."""
        found = ((number, self._column(side)) for number, side in level.versions.items())
        merged = {number: field for number, field in found if field is not None}
        self.settle_names(merged, level)
        return merged

    def _column(self, versions: ColumnVersions) -> Field | None:
        base, ours, theirs = versions.base, versions.ours, versions.theirs
        if ours is not None and theirs is not None:
            if base is not None:
                return self._changed(versions, base, ours, theirs)
            if definition(ours) != definition(theirs) and self._theirs_wins("add", versions):
                return versions.stored_as(theirs, ours.stored_name)
            return ours
        kept = ours or theirs
        if base is None or kept is None:
            return kept
        if replace(kept, physical_name=base.physical_name) != base:
            return theirs if self._theirs_wins("drop", versions) else ours
        if base.id in self.edited:
            return theirs if self._theirs_wins("edit", versions) else ours
        return None

    def settle_names(self, merged: dict[int, Field], level: MergedLevel) -> None:
        """Undo names that another column has on the other side: theirs, where nobody said.

        Undoing one may bring up the next, so this goes on until all names differ.
        """
        settled: set[int] = set()
        while (pair := _namesakes(merged)) is not None:
            # Names differ on each side, so one of two equal ones is ours alone, one theirs.
            number = next(n for n in pair if not level.versions[n].has_our_name(merged[n]))
            other = pair[0] if number == pair[1] else pair[1]
            versions, holder = level.versions[number], level.versions[other]
            kind: SchemaConflictKind = "name"
            if versions.ours is None and holder.base is None:
                kind = "add"
            ours = holder.ours if versions.ours is None else versions.ours
            conflict = SchemaConflict(
                kind, ".".join(versions.inner), number, versions.base, ours, versions.theirs
            )
            theirs = number in settled or self._decided(conflict)
            if self.fixed.get(number) == "theirs" or (theirs and other not in self.fixed):
                settled |= {number, other}
                _go_back(merged, holder, holder.theirs, other)
            else:
                _go_back(merged, versions, versions.ours, number)

    # One column

    def _changed(self, versions: ColumnVersions, base: Field, ours: Field, theirs: Field) -> Field:
        """Return a column that all three have, merged fact by fact."""
        name, clash = _three_way(base.name, ours.name, theirs.name)
        if clash and self._theirs_wins("name", versions):
            name = theirs.name
        values = self._values(versions, base, ours, theirs)
        required, _ = _three_way(base.required, ours.required, theirs.required)
        stored, _ = _three_way(base.stored_name, ours.stored_name, theirs.stored_name)
        merged = Field(
            ours.id,
            name,
            values.type,
            required=required,
            doc=self._property(versions, "doc", (base.doc, ours.doc, theirs.doc)),
            geometry=self._geometry(versions, values, (base, ours, theirs)),
            raster=values.raster,
            source_type=values.source_type,
            extra=self._extra(versions, base.extra, ours.extra, theirs.extra),
        )
        return versions.stored_as(merged, stored)

    def _property(self, versions: ColumnVersions, name: str, values: tuple[T, T, T]) -> T:
        value, clash = _three_way(*values)
        return values[2] if clash and self._theirs_wins("property", versions, name) else value

    def _values(self, versions: ColumnVersions, base: Field, ours: Field, theirs: Field) -> Field:
        """Return a field whose type, encodings and source type are the merged ones."""
        storages = _storages(base, ours, theirs)
        chosen, clash = _three_way(*storages)
        values = ours if chosen == storages[1] else theirs
        if clash or (self.edited and any(each.id in self.edited for each in descendants((base,)))):
            # Neither of two encodings of geometries is the wider one.
            plain = all(storage[1:] == (None, None) for storage in storages)
            type_ = self._type(base.type, ours.type, theirs.type, versions.inner) if plain else None
            if type_ is None:
                return theirs if self._theirs_wins("type", versions) else ours
            values = replace(theirs if type_ == theirs.type else ours, type=type_)
        if ours.type != theirs.type and not children(values.type):
            # What the narrower column came as fits the wider type.
            return values
        sources = (base.source_type, ours.source_type, theirs.source_type)
        return replace(values, source_type=self._property(versions, "source_type", sources))

    def _geometry(
        self, versions: ColumnVersions, values: Field, sides: tuple[Field, Field, Field]
    ) -> Geometry | None:
        base, ours, theirs = (field.geometry for field in sides)
        if values.geometry is None or base is None or ours is None or theirs is None:
            return values.geometry
        crs = self._property(versions, "crs", (base.crs, ours.crs, theirs.crs))
        shape = self._property(versions, "shape", (base.shape, ours.shape, theirs.shape))
        return Geometry(values.geometry.encoding, crs, shape)

    def _extra(self, versions: ColumnVersions, *sides: _Extra) -> _Extra:
        whole, clash = _three_way(*sides)
        if not clash:
            return whole
        base, ours, theirs = (dict(side) for side in sides)
        merged, conflicts = merge_items(base, ours, theirs)
        for conflict in conflicts:
            if self._theirs_wins("property", versions, conflict.name):
                merged.pop(conflict.name, None)
                if conflict.theirs is not None:
                    merged[conflict.name] = conflict.theirs
        return tuple(merged.items())

    def _type(self, base: Type, ours: Type, theirs: Type, path: tuple[str, ...]) -> Type | None:
        """Return the type that holds what both sides changed; None if there is none."""
        match base, ours, theirs:
            case Struct(old), Struct(mine), Struct(other):
                level = MergedLevel.of(old, mine, other, path)
                # Parquet has no struct without fields.
                return Struct(fields) if (fields := level.arranged(self.columns(level))) else None
            case (List(), List(), List()) | (Map(), Map(), Map()):
                parts = tuple(zip(children(base), children(ours), children(theirs), strict=True))
                if any(len({version.id for version in part}) > 1 for part in parts):
                    return None
                merged = (self._changed(ColumnVersions(*part, path), *part) for part in parts)
                return with_children(ours, tuple(merged))
            case _ if widens(base, ours) and widens(base, theirs):
                if widens(ours, theirs):
                    return theirs
                return ours if widens(theirs, ours) else None
            case _:
                return None

    # The key

    def key(
        self, base: Schema, ours: Schema, theirs: Schema, merged: dict[int, Field]
    ) -> tuple[int, ...]:
        """Return the merged key; columns that it needs are put back into `merged`."""
        keys = [frozenset(side.identifier_ids) for side in (base, ours, theirs)]
        chosen, clash = _three_way(*keys)
        side = ours if chosen == keys[1] else theirs
        broken = any(not _can_be_key(merged, number) for number in side.identifier_ids)
        if clash or broken:
            before, mine, other = (schema.key.fields for schema in (base, ours, theirs))
            conflict = SchemaConflict("key", "", None, before, mine, other)
            side = theirs if self._decided(conflict) else ours
            said = "theirs" if side is theirs else "ours"
            self.fixed.update(dict.fromkeys(side.identifier_ids, said))
        for number in side.identifier_ids:
            if not _can_be_key(merged, number):
                merged[number] = side.by_id[number]
        return side.identifier_ids


def _go_back(
    merged: dict[int, Field], versions: ColumnVersions, side: Field | None, number: int
) -> None:
    """Give a merged column the name that it has on a side; without one there it goes."""
    column = merged.pop(number)
    if side is not None:
        back = replace(column, name=side.name)
        merged[number] = versions.stored_as(back, column.stored_name)


def _can_be_key(merged: Mapping[int, Field], number: int) -> bool:
    return number in merged and can_identify(merged[number])


def _storages(*sides: Field) -> list[_Storage]:
    """Return of each side what must agree: a type follows from the encoding of geometries.

    If it is geometries on some sides only, all that is said of them belongs to that.
    """
    everywhere = all(field.geometry is not None for field in sides)
    return [
        (
            field.type,
            field.raster,
            field.geometry.encoding if everywhere and field.geometry else field.geometry,
        )
        for field in sides
    ]


def _namesakes(merged: Mapping[int, Field]) -> tuple[int, int] | None:
    """Return two columns of one name, if there are."""
    seen: dict[str, int] = {}
    for number, column in merged.items():
        other = seen.setdefault(column.name, number)
        if other != number:
            return other, number
    return None


# Fields of three versions of a schema, side by side: at the top, or inside one struct.
#
# Here is what is decided for all of them at once: their order, and that each has a name
# of its own in files.


@dataclass(frozen=True, slots=True)
class ColumnVersions:
    """One column on three sides; at least one of the last two is there."""

    base: Field | None
    """As it was; None when it is new."""
    ours: Field | None
    """On our side; None when it is not there."""
    theirs: Field | None
    """On their side; None when it is not there."""
    path: tuple[str, ...]
    """Names of the columns that it is inside of."""

    @property
    def shown(self) -> Field:
        """The version by which people know it."""
        found = self.ours or self.base or self.theirs
        if found is None:
            raise ValueError("a column is on no side")
        return found

    @property
    def inner(self) -> tuple[str, ...]:
        """Where its parts are."""
        return (*self.path, self.shown.name)

    def has_our_name(self, field: Field) -> bool:
        """Whether a merged column is called what ours calls it."""
        return self.ours is not None and self.ours.name == field.name

    def stored_as(self, field: Field, stored: str) -> Field:
        """Return a merged column with a name in files."""
        for side in (self.ours, self.theirs):
            if side is not None and (side.name, side.stored_name) == (field.name, stored):
                return replace(field, physical_name=side.physical_name)
        return replace(field, physical_name=None if stored == field.name else stored)


@dataclass(frozen=True, slots=True)
class MergedLevel:
    """The top-level columns of three schemas, or the fields of one struct in them."""

    base: tuple[Field, ...]
    """As they were."""
    ours: tuple[Field, ...]
    """On our side."""
    theirs: tuple[Field, ...]
    """On their side, with ids that agree with ours."""
    versions: Mapping[int, ColumnVersions]
    """The same by id, without what both sides dropped."""

    @classmethod
    def of(
        cls,
        base: tuple[Field, ...],
        ours: tuple[Field, ...],
        theirs: tuple[Field, ...],
        path: tuple[str, ...] = (),
    ) -> MergedLevel:
        """Return three versions of fields side by side."""
        old, mine, other = ({field.id: field for field in side} for side in (base, ours, theirs))
        versions = {
            number: ColumnVersions(old.get(number), mine.get(number), other.get(number), path)
            for number in {**mine, **other}
        }
        return cls(base, ours, theirs, versions)

    def arranged(self, merged: Mapping[int, Field]) -> tuple[Field, ...]:
        """Return merged fields in order, each with a name of its own in files."""
        taken: set[str] = set()
        named: dict[int, Field] = {}
        ordered = self._order(merged)
        # Ours keep their names in files before theirs come.
        for number in sorted(ordered, key=lambda number: self.versions[number].ours is None):
            field = merged[number]
            if field.stored_name in taken:
                free = _free_name(field, taken)
                field = self.versions[number].stored_as(field, free)
            taken.add(field.stored_name)
            named[number] = field
        return tuple(named[number] for number in ordered)

    def _order(self, merged: Mapping[int, Field]) -> list[int]:
        """Return ids in order: what both have, and after each of them what one side has next."""
        both = {f.id for f in self.ours} & {f.id for f in self.theirs} & merged.keys()
        settled = both & {f.id for f in self.base}
        before, mine, other = (_ids(side, settled) for side in (self.base, self.ours, self.theirs))
        lead = self.theirs if mine == before != other else self.ours
        after: dict[int | None, list[int]] = {}
        for side in (self.ours, self.theirs):
            last: int | None = None
            for each in side:
                if each.id in both:
                    last = each.id
                elif each.id in merged:
                    after.setdefault(last, []).append(each.id)
        ordered = after.get(None, [])
        for number in _ids(lead, both):
            ordered += [number, *after.get(number, [])]
        return ordered


def _ids(fields: Iterable[Field], wanted: set[int]) -> list[int]:
    return [field.id for field in fields if field.id in wanted]


def _free_name(field: Field, taken: set[str]) -> str:
    name = field.name
    while name in taken:
        name = f"{name}_{field.id}"
    return name
