"""Random edits, written by hand, against a plain model: every way in, with tiny thresholds."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc.checkouts import clustered_versions
from havasu_vc.checkouts.requests import CheckoutRequest
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import owned_changes, owned_edits
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.tables.scanning import deleted_rows, row_sources
from havasu_vc.tables.snapshots import SnapshotFile
from havasu_vc.tables.table import read_table
from havasu_vc.workspace import counting, incoming
from tests.datasets.thresholds import tiny_thresholds
from tests.repo.checkouts import assert_shows_head
from tests.repo.tables import rows, write
from tests.support.sound import LOCAL, assert_sound
from tests.support.templates import empty_repo
from tests.workspace import by_hand
from tests.workspace.sheets import counts_of, rows_of

pytestmark = pytest.mark.few(2)

Row = tuple[int, str | None]


class Bench:
    """A table and the rows that it must hold, with or without a key, clustered or not."""

    def __init__(self, folder: Path, seed: int, *, keyed: bool, clustered: bool = False) -> None:
        self.draw = random.Random(seed)
        self.keyed = keyed
        self.clustered = clustered
        self.rows: list[Row] = [(n if keyed else n % 5, f"row {n % 3}") for n in range(30)]
        write(folder / "rows.parquet", pa.Table.from_pylist(self.as_dicts(self.rows)))
        self.repo = empty_repo(folder / "repo", settings=LOCAL)
        options = SourceOptions(primary_key=("id",) if keyed else ())
        self.repo.import_(folder / "rows.parquet", options=options)
        self.repo.workspace.check_out(CheckoutRequest(clustered=clustered))
        self.place = self.repo.workspace.root / "rows"

    def as_dicts(self, found: list[Row]) -> by_hand.Rows:
        """Return rows as dicts; with a geometry, which follows from the id, to be clustered by."""
        if not self.clustered:
            return [{"id": number, "name": name} for number, name in found]
        point = shapely.Point
        return [
            {"id": number, "name": name, "geom": shapely.to_wkb(point(-number * 7 % 90, number))}
            for number, name in found
        ]

    def live(self) -> list[tuple[str, int, Row]]:
        """Return the live rows of the table: file, position and values."""
        found = []
        for live, source in row_sources(read_table(self.place)):
            assert isinstance(live, SnapshotFile)
            there = pq.read_table(source.path).to_pylist()
            gone = deleted_rows(source)
            for position in np.setdiff1d(np.arange(len(there)), gone):
                row = there[int(position)]
                found.append((live.file.path, int(position), (row["id"], row["name"])))
        return found

    def new_rows(self, count: int) -> list[Row]:
        name = self.draw.choice([None, "new", "other"])
        if not self.keyed:
            return [(self.draw.randrange(3), name) for _ in range(count)]
        first = max((row[0] for row in self.rows), default=0) + 1
        return [(first + number, name) for number in range(count)]

    def write(self, come: list[Row], go: list[tuple[str, int, Row]]) -> None:
        """Publish a snapshot that takes rows away and brings others."""
        table = read_table(self.place)
        positions: dict[str, list[int]] = {}
        for path, position, _ in go:
            positions.setdefault(path, []).append(position)
        files = [by_hand.position_deletes(table, positions)] if positions else []
        if come:
            files.append(by_hand.data_file(table, self.as_dicts(come)))
        by_hand.write_snapshot(self.place, come=files)
        for _, _, row in go:
            self.rows.remove(row)
        self.rows += come

    def insert(self) -> None:
        self.write(self.new_rows(self.draw.randrange(1, 8)), [])

    def delete(self) -> None:
        live = self.live()
        self.write([], self.draw.sample(live, min(len(live), self.draw.randrange(1, 10))))

    def update(self) -> None:
        live = self.live()
        chosen = self.draw.sample(live, min(len(live), self.draw.randrange(1, 10)))
        self.write([(row[0], "updated") for _, _, row in chosen], chosen)

    def equality(self) -> None:
        live = self.live()
        if not live:
            return
        _, _, row = self.draw.choice(live)
        deletes = by_hand.equality_deletes(
            read_table(self.place), [{"id": row[0], "name": row[1]}], ["id", "name"]
        )
        by_hand.write_snapshot(self.place, come=[deletes])
        self.rows = [each for each in self.rows if each != row]

    def rewrite(self) -> None:
        shuffled = self.draw.sample(self.rows, len(self.rows))
        half = self.draw.randrange(len(shuffled) + 1)
        by_hand.rewrite(self.place, self.as_dicts(shuffled[:half]))
        rest = self.as_dicts(shuffled[half:])
        if rest:
            by_hand.insert(self.place, rest)

    def counts(self, base: list[Row]) -> ChangeCounts:
        if self.keyed:
            before, after = dict(base), dict(self.rows)
            both = before.keys() & after.keys()
            updates = sum(before[key] != after[key] for key in both)
            return ChangeCounts(len(after) - len(both), updates, len(before) - len(both))
        gone = list(base)
        come = 0
        for row in self.rows:
            if row in gone:
                gone.remove(row)
            else:
                come += 1
        return ChangeCounts(come, 0, len(gone))


def ordered(found: list[Row]) -> list[Row]:
    return sorted(found, key=repr)


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["rows", "files", "owners", "clustered", "clustered anew"])
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_what_is_committed_is_what_the_model_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, keyed: bool, way: str
) -> None:
    monkeypatch.setattr(incoming, "SMALL_FILE", 1 if way == "files" else 1 << 40)
    monkeypatch.setattr(clustered_versions, "SMALL", 0 if way == "clustered" else 1 << 40)
    monkeypatch.setattr(counting, "INTERVAL_ROWS", 7)
    taken: list[str] = []
    if way != "files":
        by_owners(monkeypatch, taken)
    with tiny_thresholds(diffs=way == "owners"):
        bench = Bench(tmp_path, seed, keyed=keyed, clustered=way.startswith("clustered"))
        for _ in range(4):
            base = list(bench.rows)
            for _ in range(bench.draw.randrange(1, 5)):
                names = ("insert", "delete", "update", "equality", "rewrite")
                getattr(bench, bench.draw.choice(names))()
            counts = counts_of(bench.repo, "rows")
            assert counts == bench.counts(base)
            held = [(row["id"], row["name"]) for row in rows_of(bench.repo, "rows")]
            assert ordered(held) == ordered(bench.rows)
            if not counts.total:
                continue
            assert bench.repo.workspace.commit(message="Edit").changes == {"rows": counts}
            committed = [(row["id"], row["name"]) for row in rows(bench.repo, "rows")]
            assert ordered(committed) == ordered(bench.rows)
            assert list(bench.repo.fsck(full=True)) == []
            assert_shows_head(bench.repo)
        assert_sound(bench.repo)
    assert not (way == "owners" and keyed) or taken, "no owner was asked"


def by_owners(monkeypatch: pytest.MonkeyPatch, taken: list[str]) -> None:
    """Have owners of intervals of keys take in what differs, and note of which datasets."""
    monkeypatch.setattr(owned_changes, "LEAST_ROWS", 0)
    monkeypatch.setattr(owned_edits, "OWNER_BYTES", 1)
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    take = owned_changes._take_owned

    def noting(edit: Edit, *rest: Any) -> None:
        taken.append(edit.dataset.path)
        take(edit, *rest)

    monkeypatch.setattr(owned_changes, "_take_owned", noting)
