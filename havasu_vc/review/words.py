"""Changes of rows, of a schema and of meta items, in words.

>>> from havasu_vc.model.types import Field, Primitive
>>> old, new = Field(2, "name", Primitive.STRING), Field(2, "title", Primitive.STRING)
>>> column_words(old, new)
['column `name` is renamed to `title`']
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import DatasetDiff, DatasetHeader, MetaChange
from havasu_vc.model.types import Field
from havasu_vc.writers.terminal import shortened

__all__ = ["column_words", "counts_words", "meta_words", "quoted", "schema_words", "type_words"]

LONGEST = 60
"""Texts are cut at this many characters in a sentence."""


def quoted(text: str) -> str:
    """Return a name or a short text as sentences show it; writers know these quotes."""
    text = " ".join(text.split())
    text = shortened(text, LONGEST)
    return "`" + text.replace("`", "'") + "`"


def counts_words(counts: ChangeCounts) -> str:
    """Return how many rows changed, in words.

    >>> counts_words(ChangeCounts(1200, 0, 3))
    '1,200 inserted, 3 deleted'
    """
    parts = (
        (counts.inserts, "inserted"),
        (counts.updates, "updated"),
        (counts.deletes, "deleted"),
    )
    return ", ".join(f"{count:,} {word}" for count, word in parts if count) or "none"


def type_words(field: Field) -> str:
    """Return what a column holds, for people."""
    if field.geometry is not None:
        shape = (field.geometry.shape or "geometry").lower()
        return f"{shape} in {quoted(field.geometry.crs)}" if field.geometry.crs else shape
    if field.raster is not None:
        return "raster"
    return str(field.type) if isinstance(field.type, str) else _nested(field)


def _nested(field: Field) -> str:
    name = type(field.type).__name__.lower()
    return str(field.type) if name in ("decimal", "fixed") else name


def column_words(old: Field | None, new: Field | None) -> list[str]:
    """Return what happened to one column."""
    if old is None or new is None:
        if new is not None:
            return [f"column {quoted(new.name)} ({type_words(new)}) is added"]
        return [] if old is None else [f"column {quoted(old.name)} ({type_words(old)}) is removed"]
    found = []
    if old.name != new.name:
        found.append(f"column {quoted(old.name)} is renamed to {quoted(new.name)}")
    before, after = type_words(old), type_words(new)
    if before != after:
        found.append(f"column {quoted(new.name)} was {before} and is now {after}")
    elif old.type != new.type:
        found.append(f"the parts of column {quoted(new.name)} change")
    if old.required != new.required:
        what = "may no longer be null" if new.required else "may now be null"
        found.append(f"column {quoted(new.name)} {what}")
    return found


def schema_words(old: DatasetHeader, new: DatasetHeader) -> list[str]:
    """Return what happened to the columns, a sentence each."""
    before, after = old.schema.by_id, new.schema.by_id
    found = []
    for number in {**before, **after}:
        found += column_words(before.get(number), after.get(number))
    if old.schema.key.names != new.schema.key.names:
        found.append(f"the key was {_key(old)} and is now {_key(new)}")
    common = [field.id for field in old.schema.fields if field.id in after]
    if common != [field.id for field in new.schema.fields if field.id in before]:
        found.append("columns are in another order")
    return found


def _key(header: DatasetHeader) -> str:
    names: Sequence[str] = header.schema.key.names
    return ", ".join(map(quoted, names)) if names else "none"


def meta_words(diff: DatasetDiff) -> Iterator[str]:
    """Yield what happened to the schema and the meta items of a dataset, a sentence each."""
    if diff.old is None or diff.new is None:
        return
    for change in diff.meta:
        if change.name == "schema.json":
            yield from schema_words(diff.old, diff.new)
        else:
            yield _item_words(change)


def _item_words(change: MetaChange) -> str:
    if change.name.startswith("crs/"):
        name = quoted(change.name.removeprefix("crs/").removesuffix(".wkt"))
        if change.old is None:
            return f"coordinate reference system {name} is added"
        if change.new is None:
            return f"coordinate reference system {name} is removed"
        return f"the definition of coordinate reference system {name} changes"
    old, new = (
        None if value is None else quoted(value if isinstance(value, str) else str(value))
        for value in (change.old, change.new)
    )
    if old is None:
        return f"{quoted(change.name)} is now {new}"
    if new is None:
        return f"{quoted(change.name)} {old} is removed"
    return f"{quoted(change.name)} was {old} and is now {new}"
