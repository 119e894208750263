"""A commit of another process between any two steps of an operation is never undone by it.

The other commit is made at the worst instant: after the operation looked at HEAD and
before it holds its own transaction, or after its edit is ready and before it commits.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.protocol import TreeEdit
from havasu_vc.errors import ConflictError, HavasuError, NoBranchError
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.refs import move_head
from tests.repo import points as small
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.examples import some
from tests.support.git import run_git
from tests.support.sound import LOCAL, assert_sound, status
from tests.support.templates import empty_repo

pytestmark = pytest.mark.few(3)

OPERATIONS: dict[str, Callable[[Repo, Path], object]] = {
    "upsert": lambda repo, _: repo.write("points", pa.table({"id": [2], "name": ["mine"]})),
    "same cell": lambda repo, _: repo.write("points", pa.table({"id": [50], "name": ["mine"]})),
    "overwrite": lambda repo, _: repo.write("points", points(90, name="mine"), mode="overwrite"),
    "release": lambda repo, file: repo.import_(file, "points", replace=True),
    "import": lambda repo, file: repo.import_(file, "more", options=BY_ID),
    "title": lambda repo, _: repo.set_meta("points", {"title": "mine"}),
    "merge": lambda repo, _: repo.merge("side"),
    "revert": lambda repo, _: repo.revert("HEAD"),
    "cherry-pick": lambda repo, _: repo.cherry_pick("side"),
    "optimize": lambda repo, _: repo.optimize(),
    "restore": lambda repo, _: repo.restore(["points"], source="HEAD^"),
    "patch": lambda repo, _: repo.apply_patch(
        b'{"kart.patch/v1":{"message":"m"},"kart.diff/v1+hexwkb":{"points":{"feature":'
        b'[{"-":{"id":2,"name":"row 2"},"+":{"id":2,"name":"mine"}}]}}}'
    ),
}


def others(folder: Path) -> None:
    """Commit as another process does."""
    repo = Repo.open(folder, settings=LOCAL)
    repo.write("points", pa.table({"id": [50], "name": ["others"]}), message="others")


@pytest.mark.parametrize("instant", some(["__enter__", "commit"], "commit"))
@pytest.mark.parametrize("what", OPERATIONS)
def test_a_commit_in_between_is_not_lost(
    tmp_path: Path, what: str, instant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    file = write(tmp_path / "release.parquet", points(99, start=1))
    repo.create_branch("side")
    repo.write("points", pa.table({"id": [1], "name": ["main"]}))
    repo.switch("side")
    repo.write("points", pa.table({"id": [3], "name": ["side"]}))
    repo.switch("main")
    original = getattr(Transaction, instant)
    waiting = [others]

    def late(*arguments: Any, **options: Any) -> Any:
        if waiting:
            waiting.pop()(repo.path)
        return original(*arguments, **options)

    monkeypatch.setattr(Transaction, instant, late)
    try:
        OPERATIONS[what](repo, file)
        failed = False
    except HavasuError as error:
        failed = True
        assert "\n" not in error.message
    monkeypatch.undo()

    if waiting:
        return  # there was nothing to commit
    found = {row["id"]: row["name"] for row in rows(repo, "points")}
    assert "others" in {info.message for info in repo.log()}
    # Whatever came out, the other's row went only where a commit says so.
    if what not in ("overwrite", "release", "restore", "same cell") or failed:
        assert found[50] == "others"
    assert not (failed and what in ("revert", "cherry-pick", "restore"))
    if failed:
        assert found[1] == "main" and found[2] == "row 2"
        assert len(list(repo.log())) == 3
    assert status(repo) == ""
    assert_sound(repo, dangling=True)
    assert list(repo.fsck(full=True)) == []


def overtaken(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have another process commit just before the next commit is made."""
    original = Transaction.commit

    def late(*arguments: Any, **options: Any) -> Any:
        monkeypatch.undo()
        others(repo.path)
        return original(*arguments, **options)

    monkeypatch.setattr(Transaction, "commit", late)


def test_an_edit_that_another_process_made_first_makes_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    overtaken(repo, monkeypatch)
    result = repo.write("points", pa.table({"id": [50], "name": ["others"]}))

    assert result.commit is None
    assert next(info.message for info in repo.log()) == "others"
    assert len(list(repo.log())) == 2
    assert_sound(repo, dangling=True)


PART: dict[str, Callable[[Repo, Path], Mapping[str, ChangeCounts]]] = {
    "write": lambda repo, _: (
        repo.write("points", pa.table({"id": [50, 51], "name": ["others", "mine"]})).changes
    ),
    "release": lambda repo, file: repo.import_(file, "points", replace=True).datasets,
}


@pytest.mark.parametrize("what", PART)
def test_rows_that_another_process_changed_first_are_not_counted(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    release = points(100).to_pylist()
    release[50]["name"], release[51]["name"] = "others", "mine"
    file = write(tmp_path / "release.parquet", pa.Table.from_pylist(release, points(1).schema))
    overtaken(repo, monkeypatch)
    told = PART[what](repo, file)

    made = [batch.counts for diff in repo.diff("HEAD^...HEAD") for batch in diff.changes]
    assert [told["points"]] == made == [ChangeCounts(updates=1)]


def test_two_values_of_one_cell_are_named_by_key_and_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    overtaken(repo, monkeypatch)
    with pytest.raises(ConflictError, match=r"points: .*\(1 conflict: id = 50, column name\)"):
        repo.write("points", pa.table({"id": [50, 51], "name": ["mine", "mine"]}))

    assert {row["id"]: row["name"] for row in rows(repo, "points")}[51] == "row 51"


def test_a_branch_that_is_deleted_meanwhile_is_not_made_anew(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(100)), options=BY_ID)
    repo.create_branch("side")
    with Transaction(repo.opened, branch="side") as transaction:
        edit = TreeEdit("more", {"meta/title": b"more"}, fresh=True)
        repo.delete_branch("side", force=True)
        with pytest.raises(NoBranchError, match="side was deleted meanwhile"):
            transaction.commit([edit], "more")

    assert [branch.name for branch in repo.branches()] == ["main"]


def test_a_plain_commit_before_the_index_follows_takes_back_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git commits its index, which our commit has not reached yet: as if that were reverted."""
    rows: small.Rows = {1: ("one", 1), 2: ("two", 2)}
    repo = small.make(tmp_path / "repo", rows)
    (repo.path / "notes.txt").write_text("mine")
    run_git("add", "notes.txt", cwd=repo.path)
    place = "havasu_vc.repo.transaction.move_head"

    def in_between(*given: Any) -> None:
        move_head(*given)
        monkeypatch.undo()
        run_git("commit", "-qm", "plain", cwd=repo.path)

    monkeypatch.setattr(place, in_between)
    changed: small.Rows = {**rows, 2: ("TWO", 2)}
    small.write(repo, changed, message="ours")

    subjects = run_git("log", "--format=%s", "-2", cwd=repo.path).splitlines()
    assert subjects == ["plain", "ours"]
    assert small.read(repo) == rows and small.read(repo, "HEAD^") == changed
    small.assert_clean(repo)
    run_git("revert", "--no-edit", "HEAD", cwd=repo.path)
    assert small.read(Repo.open(repo.path)) == changed
    small.assert_clean(Repo.open(repo.path))
