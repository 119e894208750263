"""Which columns of two sides of a merge are one column: field ids made to agree.

A column that the base has is told apart by its id. A column that only the sides have
may have got one id twice (two columns, a *collision*) or two ids (one column that both
sides added, *twins*). The ids inside a raster are a block, which stays or goes as one.
After `renumbered`, an id means one column on all three sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from havasu_vc.model.rasters import raster_type
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Geometry, List, Map, Struct, Type, children, descendants
from havasu_vc.records import dataclass

__all__ = ["definition", "renumbered", "with_children"]


def definition(field: Field) -> Field:
    """Return what two columns have in common exactly when they are defined alike.

    Ids and names in files are left out at every depth.
    """
    return replace(field, id=1, physical_name=None, type=_mapped(field.type, definition))


def renumbered(base: Schema, ours: Schema, theirs: Schema, *, new_id: Callable[[], int]) -> Schema:
    """Return `theirs` with ids as in `ours`, and new ids where it has one that is another's.

    Names, order and all else stay. Twins get the id that ours has if their values can
    be compared: same type, same geometry encoding and reference system.
    """
    of_base = set(base.ids)
    others = of_base | ours.ids
    taken = others | theirs.ids
    numbering = _Numbering(of_base, others, taken, new_id)
    fields = numbering.columns(base.fields, ours.fields, theirs.fields)
    ids = {old.id: new.id for old, new in zip(theirs.fields, fields, strict=True)}
    return Schema(fields, tuple(ids[identifier] for identifier in theirs.identifier_ids))


@dataclass(frozen=True, slots=True)
class _Numbering:
    """The ids that are known while theirs are gone through."""

    of_base: set[int]
    """Ids that the base has at any depth."""
    others: set[int]
    """Those, and the ids that ours has."""
    taken: set[int]
    """All ids; grows with the new ones."""
    new_id: Callable[[], int]
    """Draws an id that should be free."""

    def columns(
        self, base: Sequence[Field], ours: Sequence[Field], theirs: Sequence[Field]
    ) -> tuple[Field, ...]:
        """Return the fields of one struct, or the top-level columns."""
        before = {field.id: field for field in base}
        mine = {field.id: field for field in ours}
        added = {field.name: field for field in ours if field.id not in before}
        found = []
        for field in theirs:
            old = before.get(field.id)
            if old is not None:
                found.append(self._known(old, mine.get(field.id), field))
                continue
            twin = added.get(field.name)
            if twin is not None and self._is_twin(twin, field):
                found.append(_like(field, twin))
            else:
                found.append(self._newcomer(field))
        return tuple(found)

    def _known(self, base: Field, ours: Field | None, theirs: Field) -> Field:
        """Return a column that the base has; parts may have been added to it."""
        mine = () if ours is None else children(ours.type)
        before = children(base.type)
        if isinstance(theirs.type, Struct):
            parts = self.columns(before, mine, theirs.type.fields)
        else:
            known = {field.id: field for field in before}
            same = {field.id: field for field in mine}
            parts = tuple(
                self._known(known[part.id], same.get(part.id), part)
                if part.id in known
                else self._newcomer(part)
                for part in children(theirs.type)
            )
        return replace(theirs, type=with_children(theirs.type, parts))

    def _is_twin(self, ours: Field, theirs: Field) -> bool:
        # An id that the base uses elsewhere may still be in use there on their side.
        fresh = self.of_base.isdisjoint(field.id for field in descendants((ours,)))
        return fresh and _values(ours) == _values(theirs)

    def _newcomer(self, field: Field) -> Field:
        """Return a column that theirs alone has, with ids that nothing else has."""
        identifier = self._free(field.id) if field.id in self.others else field.id
        if field.raster is not None:
            return replace(field, id=identifier, type=self._block(field.type))
        parts = tuple(self._newcomer(part) for part in children(field.type))
        return replace(field, id=identifier, type=with_children(field.type, parts))

    def _block(self, type_: Type) -> Type:
        """Return the type of a raster with the ids it has, or all new ones if one is another's."""
        ids = {part.id for part in descendants(children(type_))}
        if self.others.isdisjoint(ids):
            return type_
        return raster_type(lambda: self._free(0))

    def _free(self, identifier: int) -> int:
        """Return a new id that nothing has."""
        while not identifier or identifier in self.taken:
            identifier = self.new_id()
        self.taken.add(identifier)
        return identifier


def _values(field: Field) -> Field:
    """Return what two columns have in common when values of both can be compared."""
    geometry = field.geometry
    if geometry is not None:
        geometry = Geometry(geometry.encoding, geometry.crs)
    inner = _mapped(field.type, _values)
    return Field(1, field.name, inner, geometry=geometry, raster=field.raster)


def _like(field: Field, twin: Field) -> Field:
    """Return a field with the ids of another that has the same parts."""
    pairs = zip(children(field.type), children(twin.type), strict=True)
    parts = tuple(_like(part, other) for part, other in pairs)
    return replace(field, id=twin.id, type=with_children(field.type, parts))


def _mapped(type_: Type, change: Callable[[Field], Field]) -> Type:
    return with_children(type_, tuple(change(part) for part in children(type_)))


def with_children(type_: Type, parts: tuple[Field, ...]) -> Type:
    """Return a type with other fields directly inside it."""
    match type_:
        case Struct():
            return Struct(parts)
        case List():
            return List(*parts)
        case Map():
            return Map(*parts)
        case _:
            return type_
