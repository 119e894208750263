"""The counts of a review are those of the diff, and of plain Python, over random histories."""

import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from havasu_vc import Settings
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.model.changes import count_changes
from havasu_vc.model.commits import ChangeCounts
from tests.repo import tables
from tests.support.examples import examples
from tests.support.templates import empty_repo

COLUMNS = {"a": pa.int32(), "b": pa.string(), "c": pa.float64()}
VALUES: dict[str, list[Any]] = {"a": [None, 1, 2], "b": [None, "", "x"], "c": [None, 0.5, 1.5]}
Version = tuple[tuple[str, ...], dict[int, tuple[Any, ...]]]


@st.composite
def versions(draw: st.DrawFn) -> Version:
    """Return some columns, and by key what rows hold in them."""
    names = tuple(sorted(draw(st.sets(st.sampled_from(sorted(COLUMNS)), min_size=1))))
    row = st.tuples(*(st.sampled_from(VALUES[name]) for name in names))
    return names, draw(st.dictionaries(st.integers(0, 9), row, max_size=8))


def table(version: Version, *, keyed: bool) -> pa.Table:
    names, rows = version
    columns = {name: [row[at] for row in rows.values()] for at, name in enumerate(names)}
    types = [pa.field(name, COLUMNS[name]) for name in names]
    if keyed:
        columns, types = {"id": list(rows)} | columns, [pa.field("id", pa.int64()), *types]
    return pa.table(columns, schema=pa.schema(types))


@dataclass(frozen=True)
class Table:
    """What a table holds: its columns, each with its id, and when each row was written."""

    ids: dict[str, int]
    rows: dict[int, dict[str, Any]]
    written: dict[int, int]

    def after(self, version: Version, number: int) -> "Table":
        """Return the table that an import puts in the place of this one."""
        names, values = version
        # A column that went and comes again is another one.
        ids = {name: self.ids.get(name, 10 * number + at) for at, name in enumerate(names)}
        new = Table(
            ids, {key: dict(zip(names, row, strict=True)) for key, row in values.items()}, {}
        )
        for key in new.rows:
            kept = key in self.rows and not differs(self, new, key)
            new.written[key] = self.written[key] if kept else number
        return new


def differs(old: Table, new: Table, key: int) -> bool:
    """Return whether a row of both is another; a column that came counts if it holds a value."""
    values = ((name, new.rows[key][name]) for name in new.ids)
    return any(
        value != old.rows[key][name] if old.ids.get(name) == new.ids[name] else value is not None
        for name, value in values
    )


def expected(old: Table, new: Table) -> ChangeCounts:
    """Return how many rows differ between tables with a key.

    A row that neither wrote anew is the same, with whatever columns it is looked at.
    """
    both = old.rows.keys() & new.rows.keys()
    updates = sum(old.written[key] != new.written[key] and differs(old, new, key) for key in both)
    return ChangeCounts(len(new.rows.keys() - both), updates, len(old.rows.keys() - both))


@given(st.lists(versions(), min_size=2, max_size=4), st.booleans())
@examples(12, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_counts_over_random_histories(history: list[Version], keyed: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = empty_repo(Path(folder) / "repo", settings=Settings(engine="local"))
        commits, model = [], [Table({}, {}, {})]
        options = SourceOptions(primary_key=("id",)) if keyed else tables.NO_KEY
        for number, version in enumerate(history):
            file = tables.write(Path(folder) / f"{number}.parquet", table(version, keyed=keyed))
            if number == 0 or history[number - 1] != version:
                repo.import_(file, "t", options=options, replace=number > 0)
            commits.append(str(repo.head().commit))
            model.append(model[-1].after(version, number))
        for first, one in enumerate(commits):
            for second, other in enumerate(commits):
                reviewed = repo.review(f"{one}..{other}")
                diffs = list(repo.diff(f"{one}..{other}"))
                counts = sum((count_changes(each.changes) for each in diffs), ChangeCounts())
                assert reviewed.counts == counts
                if keyed:
                    assert counts == expected(model[first + 1], model[second + 1])
                elif history[first][0] == history[second][0]:
                    old, new = (
                        Counter(each[1].values()) for each in (history[first], history[second])
                    )
                    assert (
                        counts.inserts - counts.deletes == (new - old).total() - (old - new).total()
                    )
