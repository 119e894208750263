"""PyIceberg reads a repository through the catalog: every version as git has it."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo, Settings
from tests.serving.server import catalog, serving
from tests.support.templates import empty_repo

COUNT = 2_000


def rows(ids: range, name: str = "n") -> pa.Table:
    points = shapely.to_wkb(shapely.points([(n / 7, -n / 11) for n in ids]))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"{name}{n}" for n in ids],
            "geom": pa.array(points, pa.binary()),
        }
    )


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A repository with a table of four commits, and one in folders."""
    import pyarrow.parquet as pq

    from havasu_vc.exchange.source import SourceOptions

    folder = tmp_path_factory.mktemp("serving")
    repo = empty_repo(folder / "repo", settings=Settings(engine="local"))
    pq.write_table(rows(range(COUNT)), folder / "in.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(folder / "in.parquet", "points", options=options)
    repo.import_(folder / "in.parquet", "a/b/deep", options=options)
    changed = pa.table({"id": [5, 6, COUNT], "name": ["five", None, "new"]})
    repo.write("points", changed, message="Three rows")
    repo.write("points", pa.table({"id": [7, 8, 9]}), mode="delete", message="Three less")
    return repo


@pytest.fixture(scope="module")
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path) as found:
        yield found


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.sort_by("id").to_pylist()
    return found


def expected(repo: Repo, path: str, revision: str = "HEAD") -> list[dict[str, Any]]:
    return in_order(repo.table(path, revision).to_arrow())


def test_a_table_is_what_head_has(repo: Repo, url: str) -> None:
    table = catalog(url).load_table("tables.points")
    assert in_order(table.scan().to_arrow()) == expected(repo, "points")


def test_names_are_folders(repo: Repo, url: str) -> None:
    served = catalog(url)
    assert served.list_namespaces() == [("a",), ("tables",)]
    assert served.list_namespaces(("a",)) == [("a", "b")]
    assert served.list_tables("tables") == [("tables", "points")]
    assert served.list_tables(("a", "b")) == [("a", "b", "deep")]
    table = served.load_table(("a", "b", "deep"))
    assert in_order(table.scan().to_arrow()) == expected(repo, "a/b/deep")


def test_snapshots_are_the_commits(repo: Repo, url: str) -> None:
    table = catalog(url).load_table("tables.points")
    snapshots = sorted(table.snapshots(), key=lambda each: each.sequence_number)
    messages = [each.summary["havasu-vc.message"] for each in snapshots]
    assert messages[1:] == ["Three rows", "Three less"]
    for snapshot, before in zip(snapshots, [None, *snapshots], strict=False):
        assert snapshot.parent_snapshot_id == (before and before.snapshot_id)
        commit = snapshot.summary["havasu-vc.commit"]
        found = table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
        assert in_order(found) == expected(repo, "points", commit)
