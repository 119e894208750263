"""PyIceberg reads a repository through the catalog: every version as git has it."""

from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from tests.serving.server import catalog


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
    assert served.namespace_exists(("a", "b")) and not served.namespace_exists("b")
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


REFS = ("main", "v1", "HEAD~1", "feature/x", "main~2", "main@{2090-01-01}")


@pytest.mark.parametrize("ref", REFS)
def test_a_warehouse_is_a_ref(repo: Repo, url: str, ref: str) -> None:
    table = catalog(url, ref).load_table("tables.points")
    assert in_order(table.scan().to_arrow()) == expected(repo, "points", ref)


@pytest.mark.parametrize("ref", [*REFS, "id"])
def test_a_table_at_a_ref(repo: Repo, url: str, ref: str) -> None:
    ref = repo.resolve("HEAD~2").commit or "" if ref == "id" else ref
    table = catalog(url).load_table(("tables", f"points@{ref}"))
    assert in_order(table.scan().to_arrow()) == expected(repo, "points", ref)


@pytest.mark.thorough
def test_the_warehouse_of_all_refs(repo: Repo, url: str) -> None:
    served = catalog(url, "*")
    assert served.list_namespaces() == [("feature/x",), ("main",), ("v1",)]
    assert served.list_namespaces(("main",)) == [("main", "a")]
    assert served.list_tables(("feature/x",)) == [("feature/x", "points")]
    assert served.list_tables(("main", "a", "b")) == [("main", "a", "b", "deep")]
    for ref in REFS:
        table = served.load_table((ref, "points"))
        assert in_order(table.scan().to_arrow()) == expected(repo, "points", ref)
    table = served.load_table(("v1", "a", "b", "deep"))
    assert in_order(table.scan().to_arrow()) == expected(repo, "a/b/deep")


@pytest.mark.thorough
def test_a_branch_that_moves_is_read_where_it_is(repo: Repo, url: str) -> None:
    repo.create_branch("moving", "main~1")
    served = catalog(url, "moving")
    before = in_order(served.load_table("tables.points").scan().to_arrow())
    repo.git.git("branch", "--force", "moving", "main")
    after = in_order(served.load_table("tables.points").scan().to_arrow())
    repo.delete_branch("moving", force=True)
    assert (before, after) == (expected(repo, "points", "main~1"), expected(repo, "points"))
