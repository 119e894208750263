"""Fields of three versions of a schema, side by side: at the top, or inside one struct.

Here is what is decided for all of them at once: their order, and that each has a name
of its own in files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

__all__ = ["Level", "Versions"]


@dataclass(frozen=True, slots=True)
class Versions:
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
class Level:
    """The top-level columns of three schemas, or the fields of one struct in them."""

    base: tuple[Field, ...]
    """As they were."""
    ours: tuple[Field, ...]
    """On our side."""
    theirs: tuple[Field, ...]
    """On their side, with ids that agree with ours."""
    versions: Mapping[int, Versions]
    """The same by id, without what both sides dropped."""

    @classmethod
    def of(
        cls,
        base: tuple[Field, ...],
        ours: tuple[Field, ...],
        theirs: tuple[Field, ...],
        path: tuple[str, ...] = (),
    ) -> Level:
        """Return three versions of fields side by side."""
        old, mine, other = ({field.id: field for field in side} for side in (base, ours, theirs))
        versions = {
            number: Versions(old.get(number), mine.get(number), other.get(number), path)
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
            for field in side:
                if field.id in both:
                    last = field.id
                elif field.id in merged:
                    after.setdefault(last, []).append(field.id)
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
