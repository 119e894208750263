"""Filters on a diff, written as Kart writes them.

parcels                      a dataset; `*` matches within its name
parcels:feature              its rows
parcels:feature:42           one row by its key; composite keys as `a,b`, or as `"a, b",c`
parcels:42                   the same, where the key is not `feature` or `meta`
parcels:meta                 its meta items
parcels:meta:title           one of them
hills:tile                   the tiles of a set of rasters or point clouds
hills:tile:NAME              one of them

and, of changes alone, as Kart has not:

parcels:where:area > 5       rows for which an SQL expression is true, before or after
parcels:box:170,-42,175,-40  rows whose geometry meets a box, before or after
parcels:box:170,-42,175,-40:where:area > 5  rows that meet both, at once before or after
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import pyarrow as pa

from havasu_vc.datasets.pairing import alike
from havasu_vc.errors import InvalidArgumentError, nearest
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema, arrow_type
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.repo.filter_texts import CONDITIONS, named_filters, split_filter

__all__ = [
    "Condition",
    "DatasetFilter",
    "RepoFilter",
    "keys_batch",
    "parse_filters",
]


Condition: TypeAlias = tuple[tuple[str, str], ...]
"""Conditions that a row has to meet at once: kinds of conditions, each with its text."""


@dataclass(frozen=True, slots=True)
class DatasetFilter:
    """The wanted part of one dataset, or of those that a pattern matches."""

    pattern: str
    """The dataset's path, or a glob."""
    rows: bool = True
    """Whether rows are wanted at all."""
    keys: frozenset[str] | None = None
    """Only rows with these keys; None for all."""
    meta: bool = True
    """Whether meta items are wanted at all."""
    items: frozenset[str] | None = None
    """Only these meta items; None for all."""
    tiles: frozenset[str] | None = None
    """Only these tiles; None for all."""
    conditions: tuple[Condition, ...] = ()
    """Besides `keys`, which are given then, rows that meet one of these."""

    @property
    def is_whole(self) -> bool:
        """Whether all of a dataset is wanted."""
        return self.rows and self.keys is None and self.meta and self.items is None

    def matches(self, path: str) -> bool:
        """Whether a dataset is meant."""
        return path == self.pattern or fnmatchcase(path, self.pattern)


@dataclass(frozen=True, slots=True)
class RepoFilter:
    """The wanted part of a repository; without filters, everything."""

    filters: tuple[DatasetFilter, ...] = field(default=())
    """In the order given."""
    lenient: bool = False
    """Whether a filter may name what is nothing, of which nothing is wanted, as in Kart."""

    def of(self, path: str) -> DatasetFilter | None:
        """Return what is wanted of a dataset; None for nothing."""
        if not self.filters:
            return DatasetFilter(path)
        found = [each for each in self.filters if each.matches(path)]
        if not found:
            return None
        united = found[0]
        for other in found[1:]:
            united = DatasetFilter(
                path,
                united.rows or other.rows,
                _either(united.rows, united.keys, other.rows, other.keys),
                united.meta or other.meta,
                _either(united.meta, united.items, other.meta, other.items),
                _either(True, united.tiles, True, other.tiles),
                (*united.conditions, *other.conditions),
            )
        return united

    def check(self, paths: Iterable[str], where: str = "on either side") -> None:
        """Raise for a filter that names no dataset at all; `where` says of what `paths` are."""
        known = list(paths)
        for each in self.filters:
            if self.lenient:
                continue
            if not any(each.matches(path) for path in known):
                raise InvalidArgumentError(
                    f"there is no dataset {each.pattern!r} {where}",
                    hints=(*nearest(each.pattern, known), "`havasu-vc data ls` lists the datasets"),
                )

    def chosen(self, diffs: Iterable[DatasetDiff]) -> Iterator[DatasetDiff]:
        """Yield what is wanted of some diffs."""
        for diff in diffs:
            found = self.apply(diff)
            if found is not None:
                yield found

    def apply(self, diff: DatasetDiff) -> DatasetDiff | None:
        """Return a diff with only what is wanted; None for nothing."""
        wanted = self.of(diff.path)
        if wanted is None:
            return None
        if wanted.is_whole:
            return diff
        meta = tuple(
            change
            for change in diff.meta
            if wanted.meta and (wanted.items is None or change.name in wanted.items)
        )
        changes: Iterator[ChangeBatch] = iter(())
        if wanted.rows and diff.header.schema.fields:  # a set of tiles has none
            changes = diff.changes
            if wanted.keys is not None:
                sides = [each.schema for each in (diff.new, diff.old) if each is not None]
                schemas = sides or [diff.header.schema]
                if wanted.conditions:
                    changes = _only_meeting(changes, wanted, schemas, diff.path)
                else:
                    changes = only_keys(changes, wanted.keys, schemas, lenient=self.lenient)
        return replace(diff, meta=meta, changes=changes)


def _either(
    first: bool, left: frozenset[str] | None, second: bool, right: frozenset[str] | None
) -> frozenset[str] | None:
    if not first:
        return right
    if not second:
        return left
    return None if left is None or right is None else left | right


def parse_filters(
    texts: Sequence[str], *, of_changes: bool = False, lenient: bool = False
) -> RepoFilter:
    """Return the filter that some arguments mean together; conditions are `of_changes` alone."""
    found = RepoFilter(tuple(map(_parse, named_filters(texts))), lenient)
    if not of_changes and any(each.conditions for each in found.filters):
        raise InvalidArgumentError(
            "conditions choose among changes: `diff` and `commit` take them",
            hints=("name rows by their keys, as DATASET:feature:KEY",),
        )
    return found


def _parse(text: str) -> DatasetFilter:
    pattern, kind, what = split_filter(text)
    if not pattern:
        raise InvalidArgumentError(f"{text!r} names no dataset")
    if not kind and ":" not in text:
        return DatasetFilter(pattern.rstrip("/"))
    if kind in CONDITIONS:
        return DatasetFilter(
            pattern,
            keys=frozenset(),
            meta=False,
            tiles=frozenset(),
            conditions=(_condition(text, kind, what),),
        )
    chosen = frozenset([what]) if what else None
    if kind == "feature":
        # Of a set of tiles `hills:tile` reads as one row's key, and is all tiles.
        tiles: frozenset[str] | None = None if what == "tile" else frozenset()
        return DatasetFilter(pattern, keys=chosen, meta=False, tiles=tiles)
    if kind == "meta":
        return DatasetFilter(pattern, rows=False, items=chosen, tiles=frozenset())
    if kind == "tile":
        return DatasetFilter(pattern, rows=False, meta=False, tiles=chosen)
    raise InvalidArgumentError(
        f"{text!r} is no filter", hints=("write DATASET, DATASET:feature:KEY or DATASET:meta:ITEM",)
    )


def _condition(text: str, kind: str, what: str) -> Condition:
    """Return a condition; a box, which holds no colon, may be followed by one more."""
    own, colon, rest = what.partition(":") if kind == "box" else (what, "", "")
    if not own.strip():
        raise InvalidArgumentError(f"{text!r} names no condition")
    if not colon:
        return ((kind, own.strip()),)
    other, _, more = rest.partition(":")
    if other not in CONDITIONS:
        raise InvalidArgumentError(
            f"{text!r} is no filter", hints=("after a box `:where:SQL` may stand",)
        )
    return ((kind, own.strip()), *_condition(text, other, more))


_PARTS = r'(?:^|,)(?:"((?:[^"]|"")*)"(?=,|\Z)|([^,]*))'
"""The values of a key of several columns, quoted where they hold a comma."""


def parse_key(text: str, schema: Schema) -> tuple[object, ...]:
    """Return the key that a filter names."""
    fields = schema.key.fields
    parts = [text]
    if len(fields) > 1:
        parts = [quoted.replace('""', '"') or plain for quoted, plain in re.findall(_PARTS, text)]
    if len(parts) != len(fields):
        hints = ('a value with a comma is quoted, as in "a, b",c',) if len(fields) > 1 else ()
        raise InvalidArgumentError(
            f"a key has {len(fields)} values, {text!r} has {len(parts)}", hints=hints
        )
    values = []
    for part, key_field in zip(parts, fields, strict=True):
        try:
            scalar = pc.cast(pa.scalar(part), arrow_type(key_field.type))
        except (pa.ArrowException, UnicodeError):  # as of bytes on a command line that are no text
            raise InvalidArgumentError(
                f"{part!r} cannot be a key: {key_field.name!r} is {key_field.type}"
            ) from None
        values.append(scalar.as_py())
    return tuple(values)


def keys_batch(keys: Sequence[Any], schema: Schema) -> pa.RecordBatch:
    """Return keys as a batch of the key's columns, each once, in the order given."""
    names = schema.key.names
    rows: dict[tuple[Any, ...], None] = {}
    for key in keys:
        if isinstance(key, str):
            rows[parse_key(key, schema)] = None
            continue
        values = key if isinstance(key, tuple) else (key,)
        if len(values) != len(names):
            raise InvalidArgumentError(f"a key has {len(names)} values, {key!r} has {len(values)}")
        rows[values] = None
    target = arrow_schema(schema.select(names))
    try:
        columns = [
            pa.array([row[index] for row in rows], field.type) for index, field in enumerate(target)
        ]
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidArgumentError(f"a value cannot be a key: {error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=target)


def _parse_one(text: str, sides: Sequence[Schema]) -> tuple[object, ...]:
    """Return a key as the first side that can have it says it."""
    for schema in sides[:-1]:
        with suppress(InvalidArgumentError):
            return parse_key(text, schema)
    return parse_key(text, sides[-1])


def only_keys(
    changes: Iterator[ChangeBatch],
    keys: frozenset[str],
    sides: Sequence[Schema],
    *,
    others: bool = False,
    lenient: bool = False,
) -> Iterator[ChangeBatch]:
    """Yield the changes of some rows, or of all others; a key may be one of either side.

    Where it is `lenient`, a text that cannot be a key is one of no row.
    """
    wanted = _parse_all(keys, sides, lenient=lenient)
    if not wanted and not others:
        return
    for batch in changes:
        keep = _with_keys(batch, wanted, sides[0])
        if others and keep is not None:
            keep = pc.invert(pc.fill_null(keep, False))
        chosen = pc.filter(batch.data, keep)
        if chosen.num_rows:
            yield ChangeBatch(chosen)


def _parse_all(
    keys: Iterable[str], sides: Sequence[Schema], *, lenient: bool = False
) -> list[tuple[object, ...]]:
    """Return keys of rows as values; without those that cannot be any where it is `lenient`."""
    if not sides[0].key:
        raise InvalidArgumentError("the dataset has no key to choose a row by")
    found = []
    for key in sorted(keys):
        with suppress(*((InvalidArgumentError,) if lenient else ())):
            found.append(_parse_one(key, sides))
    return found


def _with_keys(
    batch: ChangeBatch, keys: Sequence[tuple[object, ...]], schema: Schema
) -> pa.BooleanArray | None:
    """Return which changes are of some rows; None where no row is named."""
    keep = None
    for key in keys:
        same = None
        for value, key_field in zip(key, schema.key.fields, strict=True):
            column = _coalesced(batch, key_field.name)
            equal = _equal(column, value)
            same = equal if same is None else pc.and_(same, equal)
        keep = same if keep is None else pc.or_(keep, same)
    return keep


def _only_meeting(
    changes: Iterator[ChangeBatch], wanted: DatasetFilter, sides: Sequence[Schema], path: str
) -> Iterator[ChangeBatch]:
    """Yield the changes that meet a condition, or are of a row that is named."""
    from havasu_vc.repo.row_conditions import changes_meeting

    keys = _parse_all(wanted.keys, sides) if wanted.keys else []
    for batch, met in changes_meeting(changes, wanted.conditions, sides, path):
        keep = arrow_array(met)
        if keys:
            keep = pc.or_(keep, pc.fill_null(_with_keys(batch, keys, sides[0]), False))
        chosen = pc.filter(batch.data, keep)
        if chosen.num_rows:
            yield ChangeBatch(chosen)


def _coalesced(batch: ChangeBatch, name: str) -> pa.Array:
    sides = [pc.struct_field(s, name) for s in (batch.new, batch.old) if name in s.type.names]
    if len(sides) == 1:
        return sides[0]
    return pc.coalesce(*alike(*sides))  # either side may be of before the key was widened


def _equal(column: pa.Array, value: object) -> pa.BooleanArray:
    """Return where a column has a value, which may be one that its type cannot be."""
    try:
        return pc.equal(column, pa.scalar(value, column.type))
    except (pa.ArrowInvalid, OverflowError):
        return pa.repeat(pa.scalar(False), len(column))
