"""Changed rows, as `diff -o json-lines` prints them, gathered by dataset."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Column", "DatasetChanges", "RowChange", "key_text", "read_changes", "table_name"]


@dataclass(frozen=True)
class Column:
    """A column as a schema tells it."""

    name: str
    type: str
    key: bool = False
    crs: str = ""
    geometry: str = ""


@dataclass(frozen=True)
class RowChange:
    """A row before and after; None where there is none."""

    old: dict[str, Any] | None
    new: dict[str, Any] | None

    @property
    def kind(self) -> str:
        """What happened: insert, update or delete."""
        return "insert" if self.old is None else "delete" if self.new is None else "update"

    @property
    def columns(self) -> list[str]:
        """The columns whose value is another."""
        old, new = self.old or {}, self.new or {}
        return [name for name in {**old, **new} if old.get(name) != new.get(name)]


@dataclass
class DatasetChanges:
    """The changed rows of a dataset."""

    path: str
    columns: list[Column] = field(default_factory=list)
    rows: list[RowChange] = field(default_factory=list)

    @property
    def geometry(self) -> Column | None:
        """The first column of geometries."""
        return next((each for each in self.columns if each.type == "geometry"), None)

    def key(self, row: RowChange) -> list[Any]:
        """Return the key of a row as it is after the change, or was before."""
        values = row.new if row.new is not None else row.old or {}
        return [values.get(each.name) for each in self.columns if each.key]


def key_text(key: Sequence[object]) -> str:
    """Return a key as filters write it, values with commas between."""
    return ",".join(str(value) for value in key)


def table_name(dataset: str) -> str:
    """Return the layer of the working copy that a dataset is.

    >>> table_name("parks/benches")
    'parks__benches'
    """
    return dataset.replace("/", "__")


def read_changes(lines: Iterable[str], most: int) -> tuple[dict[str, DatasetChanges], bool]:
    """Read at most so many changed rows, by dataset; whether these are all."""
    found: dict[str, DatasetChanges] = {}
    count = 0
    for line in lines:
        if not line.strip():
            continue
        value = json.loads(line)
        kind = value.get("type")
        path = value.get("dataset") or value.get("path") or ""
        if kind == "metaInfo" and value.get("key") == "schema.json":
            _at(found, path).columns = _columns(value.get("value"))
        elif kind == "meta" and value.get("key") == "schema.json":
            halves = value.get("change") or {}
            _at(found, path).columns = _columns(halves.get("-"), halves.get("+"))
        elif kind == "feature":
            if count == most:
                return found, False
            count += 1
            _at(found, path).rows.append(_row(value.get("change") or {}))
    return found, True


def _at(found: dict[str, DatasetChanges], path: str) -> DatasetChanges:
    if path not in found:
        found[path] = DatasetChanges(path)
    return found[path]


def _row(change: dict[str, Any]) -> RowChange:
    old = change.get("-", change.get("--"))
    return RowChange(old, change.get("+", change.get("++")))


def _columns(*schemas: Any) -> list[Column]:
    """Return the columns of schemas, those of a name once."""
    found: dict[str, Column] = {}
    for schema in schemas:
        for each in schema or ():
            found[each["name"]] = Column(
                each["name"],
                each.get("dataType", "text"),
                each.get("primaryKeyIndex") is not None,
                each.get("geometryCRS") or "",
                each.get("geometryType") or "",
            )
    return list(found.values())
