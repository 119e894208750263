"""The changes of a branch as a table that only grows: rows compared with what commits did."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.types import IntegerType, LongType

from havasu_vc import Repo, Settings
from havasu_vc.exchange.source import SourceOptions
from tests.repo.test_rasters import raster, tiles
from tests.serving.server import catalog, prefix, send, serving
from tests.serving.test_engines import attach, duckdb
from tests.support.templates import empty_repo

__all__ = ["duckdb"]

LOCAL = Settings(engine="local")
FEED = "tables.points__changes"
GATHERED = "import havasu_vc.serving.history as steps; steps.LEAST, steps.BEGINNINGS = 1, 1"
"""The newest commit alone has a snapshot of its own."""
LABELS = ("_change_type", "_commit_id", "_commit_timestamp")
Row = dict[str, Any]
Rows = dict[int, Row]


class Model:
    """A branch whose every commit is noted: what it did, row by row."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.rows: Rows = {}
        self.done: list[tuple[str, str, Row]] = []

    def note(self, rows: Rows) -> None:
        """Note that a commit made the rows these."""
        commit = self.repo.head().commit or ""
        for key in sorted(self.rows.keys() | rows.keys()):
            old, new = self.rows.get(key), rows.get(key)
            if old == new:
                continue
            if old is not None:
                self.done.append((commit, "UPDATE_BEFORE" if new else "DELETE", old))
            if new is not None:
                self.done.append((commit, "UPDATE_AFTER" if old else "INSERT", new))
        self.rows = rows

    def write(self, *rows: tuple[int, str | None]) -> None:
        """Commit other rows."""
        table = pa.table({"id": [k for k, _ in rows], "name": [n for _, n in rows]})
        self.repo.write("points", table, message=f"Rows {[k for k, _ in rows]}")
        self.note(self.rows | {key: {"id": key, "name": name} for key, name in rows})

    def delete(self, *keys: int) -> None:
        """Commit that rows go."""
        table = pa.table({"id": pa.array(keys, pa.int64())})
        self.repo.write("points", table, mode="delete", message=f"No {keys}")
        self.note({key: row for key, row in self.rows.items() if key not in keys})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return new_model(tmp_path_factory.mktemp("feeds"))


def new_model(folder: Path) -> Model:
    """Return a branch of four commits."""
    repo = empty_repo(folder / "repo", settings=LOCAL)
    table = pa.table({"id": pa.array(range(5), pa.int64()), "name": [f"n{n}" for n in range(5)]})
    pq.write_table(table, folder / "in.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(folder / "in.parquet", "points", options=options)
    found = Model(repo)
    found.note({n: {"id": n, "name": f"n{n}"} for n in range(5)})
    repo.import_(folder / "in.parquet", "a/others", options=options)
    found.write((2, "two"), (7, None))
    found.delete(3)
    return found


@pytest.fixture(scope="module")
def url(model: Model) -> Iterator[str]:
    with serving(model.repo.path, "--write", "main") as found:
        yield found


def told(table: pa.Table) -> list[tuple[str, str, Row]]:
    """Return the rows of a feed as the model notes them, in no order but that of its own."""
    found = []
    for row in table.to_pylist():
        kind, commit, _ = (row.pop(name) for name in LABELS)
        found.append((commit, kind, row))
    return in_order(found)


def in_order(rows: list[tuple[str, str, Row]]) -> list[tuple[str, str, Row]]:
    return sorted(rows, key=lambda each: (each[0], each[2]["id"], each[1]))


@pytest.mark.thorough
def test_a_feed_is_what_commits_did(model: Model, url: str) -> None:
    served = catalog(url)
    table = served.load_table(FEED)
    assert told(table.scan().to_arrow()) == in_order(model.done)
    start, *snapshots = sorted(table.snapshots(), key=lambda each: each.sequence_number)
    assert table.scan(snapshot_id=start.snapshot_id).to_arrow().num_rows == 0
    assert [each.summary["havasu-vc.commit"] for each in snapshots] == list(
        dict.fromkeys(commit for commit, _, _ in model.done)
    )
    assert {each.summary.operation.value for each in snapshots} == {"append"}

    before = model.done.copy()
    model.write((1, "one"))
    model.repo.optimize()  # other files, no other rows
    model.delete(0, 7)
    later = served.load_table(FEED)
    assert later.metadata.table_uuid == table.metadata.table_uuid
    assert told(later.scan().to_arrow()) == in_order(model.done)
    assert told(later.scan(snapshot_id=snapshots[-1].snapshot_id).to_arrow()) == in_order(before)
    since = later.incremental_append_scan(from_snapshot_id_exclusive=snapshots[-1].snapshot_id)
    assert told(since.to_arrow()) == in_order(model.done[len(before) :])
    moments = {
        row["_commit_id"]: row["_commit_timestamp"].timestamp()
        for row in later.scan().to_arrow().to_pylist()
    }
    commits = {info.id: info.commit_time for info in model.repo.log()}
    assert moments == {commit: commits[commit] for commit in moments}


@pytest.mark.thorough
def test_servers_agree(model: Model, url: str, tmp_path: Path) -> None:
    one = catalog(url).load_table(FEED)
    model.write((1, "again"))
    two = catalog(url).load_table(FEED)
    copied = tmp_path / "copy"
    shutil.copytree(model.repo.path, copied, ignore=shutil.ignore_patterns("catalog"))
    with serving(copied) as other:
        three = catalog(other).load_table(FEED)
        assert told(three.scan().to_arrow()) == told(two.scan().to_arrow())
    ids = [[each.snapshot_id for each in table.snapshots()] for table in (one, two, three)]
    assert ids[1][:-1] == ids[0] and ids[1] == ids[2]
    assert two.metadata.table_uuid == three.metadata.table_uuid


def test_a_branch_that_was_rewritten_is_noticed(model: Model, url: str) -> None:
    git = model.repo.git.git
    model.repo.create_branch("rewritten")
    served = catalog(url, "rewritten")
    read = served.load_table(FEED).current_snapshot().snapshot_id
    last = model.done[-1][0]  # other tests have other tables changed since
    other = git("commit-tree", "main^{tree}", "-p", f"{last}^", "-m", "x").output.decode().strip()
    git("branch", "--force", "rewritten", other)
    feed = served.load_table(FEED)
    assert told(feed.scan().to_arrow()) != in_order(model.done)
    with pytest.raises(ValueError, match=f"Starting snapshot.*{read}"):
        feed.incremental_append_scan(from_snapshot_id_exclusive=read).to_arrow()


def test_columns_come_and_go(model: Model, url: str) -> None:
    served = catalog(url)
    table = served.load_table("a.others")
    with table.update_schema() as update:
        update.add_column("size", IntegerType())
        update.rename_column("name", "title")
    sized = pa.table({"id": [1], "title": ["one"], "size": pa.array([7], pa.int32())})
    model.repo.write("a/others", sized, message="Size 7")
    with table.update_schema() as update:
        update.delete_column("title")
    with table.update_schema() as update:
        update.add_column("title", IntegerType())
        update.update_column("size", LongType())
    gone = pa.table({"id": [1]})
    model.repo.write("a/others", gone, mode="delete", message="No 1")
    feed = served.load_table("a.others__changes").scan().to_arrow()
    old = next(name for name in feed.column_names if name.startswith("title_"))
    assert feed.column_names == [*LABELS, "id", "size", "title", old]
    assert feed.schema.field("size").type == pa.int64()
    assert set(feed["title"].to_pylist()) == {None}
    found = [
        (row["_change_type"], row["size"], row[old]) for row in feed.to_pylist() if row["id"] == 1
    ]
    assert sorted(found, key=str) == [
        ("DELETE", 7, None),
        ("INSERT", None, "n1"),
        ("UPDATE_AFTER", 7, "one"),
        ("UPDATE_BEFORE", None, "n1"),
    ]


def test_history(model: Model, url: str) -> None:
    rows = catalog(url).load_table("tables.points__history").scan().to_arrow().to_pylist()
    commits = {info.id: info.message for info in model.repo.log()}
    changed = dict.fromkeys(commit for commit, _, _ in model.done)
    assert {row["_commit_id"] for row in rows} >= set(changed)
    assert [row["_commit_id"] for row in rows] == [
        c for c in reversed(commits) if c in {row["_commit_id"] for row in rows}
    ]
    assert all(row["message"] == commits[row["_commit_id"]] for row in rows)


@pytest.mark.thorough
def test_duckdb_reads_a_feed(
    model: Model, url: str, duckdb: Callable[[list[str]], list[Any]]
) -> None:
    query = "SELECT _commit_id, _change_type, id, name FROM served.tables.points__changes"
    rows = duckdb([attach(url, "main"), query])[1]
    found = [(c, kind, {"id": key, "name": name}) for c, kind, key, name in rows]
    assert in_order(found) == in_order(model.done)


@pytest.mark.thorough
def test_nobody_writes_to_a_feed(url: str) -> None:
    start = f"{prefix(url)}/namespaces/tables/tables"
    body = {"name": "points__changes", "schema": {"type": "struct", "fields": []}}
    answers = [
        send(url, start, method="POST", body=body),
        send(url, f"{start}/points__changes", method="POST", body={}),
        send(url, f"{start}/points__history", method="DELETE"),
    ]
    assert {each.error for each in answers} == {(403, "ForbiddenException")}
    missing = send(url, f"{start}/none__changes")
    assert missing.error == (404, "NoSuchTableException")


@pytest.mark.thorough
def test_a_feed_of_a_dataset_of_karts(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", kart=True, settings=LOCAL)
    table = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["one", "two"]})
    pq.write_table(table, tmp_path / "points.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "points.parquet", "points", options=options)
    found = Model(repo)
    found.note({1: {"id": 1, "name": "one"}, 2: {"id": 2, "name": "two"}})
    found.write((2, "zwei"), (3, None))
    found.delete(1)
    with serving(repo.path, first=GATHERED) as url:
        assert told(catalog(url).load_table(FEED).scan().to_arrow()) == in_order(found.done)


@pytest.mark.thorough
def test_a_feed_of_rasters(tmp_path: Path, duckdb: Callable[[list[str]], list[Any]]) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    pq.write_table(tiles(7), tmp_path / "tiles.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "tiles.parquet", "tiles", options=options)
    changed = tiles(7, r2=raster(99), r3=None).slice(2, 2)
    repo.write("tiles", changed, message="Two rasters")
    query = "SELECT _change_type, id, rast.band_1.data FROM served.tables.tiles__changes"
    with serving(repo.path, first=GATHERED) as url:
        rows = catalog(url).load_table("tables.tiles__changes").scan().to_arrow().to_pylist()
        asked = duckdb([attach(url, "main"), query])[1]
    pixels = [
        (row["_change_type"], row["id"], row["rast"] and row["rast"]["band_1"]) for row in rows
    ]
    wanted = [("INSERT", row["id"], row["rast"]) for row in tiles(7).to_pylist()]
    for old, new in zip(tiles(7).slice(2, 2).to_pylist(), changed.to_pylist(), strict=True):
        wanted += [
            ("UPDATE_BEFORE", old["id"], old["rast"]),
            ("UPDATE_AFTER", old["id"], new["rast"]),
        ]
    known = [(kind, key, rast and rast["band_1"]) for kind, key, rast in wanted]
    assert sorted(pixels, key=str) == sorted(known, key=str)
    assert sorted(map(str, asked)) == sorted(
        str([kind, key, band and band["data"].hex()]) for kind, key, band in known
    )
