"""A schema: the columns of a dataset in order, and which of them are its key.

Schemas are values. `model.evolution` makes the next one from the last; nothing
changes one in place. Columns are told apart by id, never by name or position.
"""

from __future__ import annotations

from functools import cached_property

from havasu_vc.model.names import repeated
from havasu_vc.model.types import Field, Primitive, Struct, children, descendants
from havasu_vc.records import dataclass

__all__ = ["KeySpec", "Schema"]


@dataclass(frozen=True, slots=True)
class KeySpec:
    """The columns whose values tell rows apart; none means rows are told apart as wholes."""

    fields: tuple[Field, ...] = ()
    """The identifier fields, in schema order."""

    def __bool__(self) -> bool:
        return bool(self.fields)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the key columns."""
        return tuple(field.name for field in self.fields)


@dataclass(frozen=True)
class Schema:
    """Columns in order.

    >>> name = Field(2, "name", Primitive.STRING)
    >>> Schema((Field(1, "fid", Primitive.LONG, required=True), name), (1,)).key.names
    ('fid',)
    """

    fields: tuple[Field, ...]
    """The top-level columns."""
    identifier_ids: tuple[int, ...] = ()
    """Ids of the key columns, top-level and required."""

    def __post_init__(self) -> None:
        seen: set[int] = set()
        for field in descendants(self.fields):
            if field.id in seen:
                raise ValueError(f"field id {field.id} is used twice")
            seen.add(field.id)
        _refuse_equal_names(self.fields)
        for identifier in self.identifier_ids:
            field = self.by_id.get(identifier)  # type: ignore[assignment]
            if field is None or not can_identify(field):
                raise ValueError(f"field {identifier} cannot be a key")

    @cached_property
    def by_id(self) -> dict[int, Field]:
        """Top-level columns by id."""
        return {field.id: field for field in self.fields}

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """Top-level columns by name."""
        return {field.name: field for field in self.fields}

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order."""
        return tuple(field.name for field in self.fields)

    @cached_property
    def key(self) -> KeySpec:
        """The key columns, in schema order."""
        wanted = set(self.identifier_ids)
        return KeySpec(tuple(field for field in self.fields if field.id in wanted))

    @cached_property
    def ids(self) -> frozenset[int]:
        """The ids of its columns and of all that is inside them."""
        return frozenset(field.id for field in descendants(self.fields))

    @property
    def last_id(self) -> int:
        """The highest field id at any depth, 0 when there is no column."""
        return max(self.ids, default=0)

    @property
    def geometries(self) -> tuple[Field, ...]:
        """The top-level geometry columns."""
        return tuple(field for field in self.fields if field.geometry is not None)

    def select(self, names: tuple[str, ...]) -> Schema:
        """Return the schema of some columns, in the order named."""
        fields = tuple(self.by_name[name] for name in names)
        ids = {field.id for field in fields}
        keep = self.identifier_ids if ids.issuperset(self.identifier_ids) else ()
        return Schema(fields, keep)


def can_identify(field: Field) -> bool:
    """Whether a column may be part of a key: required, comparable, not floating."""
    if not field.required or field.geometry is not None or field.raster is not None:
        return False
    return not children(field.type) and field.type not in (
        Primitive.FLOAT,
        Primitive.DOUBLE,
    )


def _refuse_equal_names(fields: tuple[Field, ...]) -> None:
    names = [field.name for field in fields]
    if len(set(names)) != len(names):
        raise ValueError(f"two columns are named {repeated(names)[0]!r}")
    for field in descendants(fields):
        if isinstance(field.type, Struct):
            inner = [child.name for child in field.type.fields]
            if len(set(inner)) != len(inner):
                raise ValueError(f"two fields of {field.name!r} have one name")
