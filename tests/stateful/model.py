"""A repository as plain dicts: what the real one must agree with after every step.

Columns are tokens that never change, so a rename is a change of a name and nothing
else. Rows are dicts by token; a token that is not in one is a null.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import shapely
from hypothesis import strategies as st

__all__ = ["Column", "Key", "ModelTable", "Row", "compare", "tables", "values", "write_parquet"]

Token: TypeAlias = int
Row: TypeAlias = dict[Token, Any]
Key: TypeAlias = tuple[Any, ...]

tokens = count(1)

KINDS: Mapping[str, pa.DataType] = {
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "text": pa.string(),
    "flag": pa.bool_(),
    "point": pa.binary(),
}
WIDER = {"int": "long", "float": "double"}
_POINTS = [shapely.to_wkb(shapely.Point(x, y)) for x in (0, 1, -180) for y in (2.5, 90)]
POOLS: Mapping[str, st.SearchStrategy[Any]] = {
    "int": st.sampled_from([0, 1, -1, 7, 2**31 - 1, -(2**31)]),
    "long": st.integers(0, 24) | st.sampled_from([-5, 2**63 - 1, -(2**63)]),
    "float": st.sampled_from([0.0, 1.5, -2.25]),
    "double": st.sampled_from([0.0, 1.5, 1e300]),
    "text": st.sampled_from(["", "a", "b", "Te Mata", "zz\U0001f30b", "é", "a,b"]),
    "flag": st.booleans(),
    "point": st.sampled_from(_POINTS),
}
NAMES = ("name", "n", "höhe", "a b", "geom", "old", "new", "value", "x")


@dataclass(frozen=True)
class Column:
    """A column; its token is what it is, its name is what it is called now."""

    token: Token
    name: str
    kind: str


@dataclass(frozen=True)
class ModelTable:
    """One dataset of one commit."""

    columns: tuple[Column, ...]
    key: tuple[Token, ...]
    rows: Mapping[Key, Row]
    """By key; without a key by number."""
    title: str | None = None
    geometry: bool = field(default=False, compare=False)

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def column(self, token: Token) -> Column:
        return next(column for column in self.columns if column.token == token)

    @property
    def others(self) -> list[Column]:
        return [column for column in self.columns if column.token not in self.key]

    def key_of(self, row: Row) -> Key:
        return tuple(row[token] for token in self.key)

    def with_rows(self, rows: Mapping[Key, Row]) -> "ModelTable":
        return replace(self, rows=dict(rows))

    def with_columns(self, columns: Sequence[Column]) -> "ModelTable":
        kept = {column.token for column in columns}
        rows = {key: {t: v for t, v in row.items() if t in kept} for key, row in self.rows.items()}
        return replace(self, columns=tuple(columns), rows=rows)

    def plain(self, row: Row) -> dict[str, Any]:
        """Return a row by column names, as Arrow gives it."""
        return {column.name: row.get(column.token) for column in self.columns}

    def arrow(self, rows: Sequence[Row], tokens: Sequence[Token] | None = None) -> pa.Table:
        chosen = [c for c in self.columns if tokens is None or c.token in tokens]
        fields = [pa.field(c.name, KINDS[c.kind]) for c in chosen]
        arrays = [pa.array([r.get(c.token) for r in rows], KINDS[c.kind]) for c in chosen]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))

    def counted(self) -> Counter[str]:
        return Counter(_text(self.plain(row)) for row in self.rows.values())


def _text(row: Mapping[str, Any]) -> str:
    return repr(sorted(row.items()))


def write_parquet(file: Path, table: ModelTable, rows: Sequence[Row]) -> None:
    """Write rows as (Geo)Parquet."""
    arrow = table.arrow(rows)
    shapes = [column.name for column in table.columns if column.kind == "point"]
    if shapes:
        columns = {name: {"encoding": "WKB", "geometry_types": ["Point"]} for name in shapes}
        geo = {"version": "1.0.0", "primary_column": shapes[0], "columns": columns}
        arrow = arrow.replace_schema_metadata({"geo": json.dumps(geo)})
    pq.write_table(arrow, file)


@dataclass(frozen=True)
class ModelDiff:
    """Rows of both sides by key, or counted when there is no key."""

    changes: Mapping[Key, tuple[dict[str, Any] | None, dict[str, Any] | None]]
    counted: Counter[tuple[str | None, str | None]] | None = None


def compare(old: ModelTable | None, new: ModelTable | None) -> ModelDiff:
    """Return the row changes between two versions of a dataset."""
    some = new or old
    assert some is not None
    if not some.key:
        return _compare_counted(old, new)
    before = old.rows if old is not None else {}
    after = new.rows if new is not None else {}
    changes: dict[Key, tuple[dict[str, Any] | None, dict[str, Any] | None]] = {}
    for key in before.keys() | after.keys():
        first, second = before.get(key), after.get(key)
        if first is not None and second is not None:
            assert old is not None and new is not None
            # A column that goes changes no row; one that comes does where it has a value.
            if all(first.get(c.token) == second.get(c.token) for c in new.columns):
                continue
        changes[key] = (
            None if first is None or old is None else old.plain(first),
            None if second is None or new is None else new.plain(second),
        )
    return ModelDiff(changes)


def _compare_counted(old: ModelTable | None, new: ModelTable | None) -> ModelDiff:
    before = Counter() if old is None else old.counted()
    after = Counter() if new is None else new.counted()
    counted: Counter[tuple[str | None, str | None]] = Counter()
    for text, number in (before - after).items():
        counted[text, None] = number
    for text, number in (after - before).items():
        counted[None, text] = number
    return ModelDiff({}, counted)


def counted_changes(pairs: Iterator[tuple[Any, Any]]) -> Counter[tuple[str | None, str | None]]:
    """Return what `ModelDiff.counted` is for changes that came out of a repository."""
    return Counter(
        (None if old is None else _text(old), None if new is None else _text(new))
        for old, new in pairs
    )


def values(column: Column, *, null: bool = True) -> st.SearchStrategy[Any]:
    pool = POOLS[column.kind]
    return st.one_of(pool, pool, st.none()) if null else pool


def rows_of(table: ModelTable, *, most: int = 12) -> st.SearchStrategy[list[Row]]:
    """Rows with keys of their own."""
    parts = {c.token: values(c, null=c.token not in table.key) for c in table.columns}
    row = st.fixed_dictionaries(parts)
    if not table.key:
        return st.lists(row, min_size=0, max_size=most)
    return st.lists(row, min_size=0, max_size=most, unique_by=table.key_of)


_KEYS = (("long",), ("text",), ("text", "int"), ("int",), ())


@st.composite
def tables(draw: st.DrawFn) -> ModelTable:
    """A dataset without rows."""
    kinds = draw(st.sampled_from(_KEYS))
    keys = [Column(next(tokens), f"k{index}", kind) for index, kind in enumerate(kinds)]
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    others = [Column(next(tokens), name, draw(st.sampled_from(list(KINDS)))) for name in names]
    columns = draw(st.permutations([*keys, *others]))
    return ModelTable(tuple(columns), tuple(c.token for c in keys), {})


def with_new_rows(table: ModelTable, rows: Sequence[Row]) -> ModelTable:
    """Return a table that holds just some rows."""
    if table.key:
        return table.with_rows({table.key_of(row): row for row in rows})
    return table.with_rows({(number,): row for number, row in enumerate(rows)})
