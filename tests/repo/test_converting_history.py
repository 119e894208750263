"""`convert --history`: every version of a dataset once more, as another kind."""

from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.errors import StateError
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL, leftovers
from tests.support.templates import empty_repo

pytestmark = pytest.mark.few(1)

OTHER = {"kart": "havasu", "havasu": "kart"}


@pytest.fixture(params=["kart", "havasu"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> Repo:
    """A repository whose dataset `points` has five versions, beside another dataset."""
    made = empty_repo(tmp_path / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(300))
    made.import_(file, kind=request.param, options=BY_ID, message="Import")
    made.write("points", pa.table({"id": [3, 400], "name": ["drei", "neu"]}), message="Edit 3")
    made.import_(file, "others", kind="havasu", options=BY_ID, message="Others")
    made.write("points", pa.table({"id": [4]}), mode="delete", message="Delete 4")
    columns = made.get_meta("points", ["schema.json"])["schema.json"]
    columns[-1]["name"] = "renamed"
    made.set_meta("points", {"schema.json": columns}, message="Rename")
    made.write("points", pa.table({"id": [5], "renamed": [55]}), message="Edit 5")
    return made


def line(repo: Repo) -> list[str]:
    """Return the commits of the line that the last commit joined, oldest first."""
    return repo.git.git("rev-list", "--reverse", "HEAD^2", "^HEAD^1").text.split()


@pytest.mark.thorough
def test_every_version_is_there_again(repo: Repo) -> None:
    kind = repo.dataset("points").kind
    before = repo.head().commit
    messages = ["Import", "Edit 3", "Delete 4", "Rename", "Edit 5"]
    old = [commit.id for commit in repo.log(filters=["points"])][::-1]
    assert len(old) == 5

    repo.convert("points", OTHER[kind], history=True)

    assert repo.git.git("rev-parse", "HEAD^1").text == before
    assert repo.dataset("points").kind == OTHER[kind]
    new = line(repo)
    assert len(new) == 5
    for first, second, message in zip(old, new, messages, strict=True):
        assert rows(repo, "points", first) == rows(repo, "points", second)
        assert repo.dataset("points", second).kind == OTHER[kind]
        told = repo.git.git("log", "-1", "--format=%s|%an|%ad|%cd", second).text
        assert told == repo.git.git("log", "-1", "--format=%s|%an|%ad|%cd", first).text
        assert told.startswith(message)
    assert rows(repo, "points") == rows(repo, "points", "HEAD^1")
    assert [batch for diff in repo.diff("HEAD^1...HEAD") for batch in diff.changes] == []
    assert repo.datasets() == ("others", "points")
    assert list(repo.fsck(full=True)) == []
    assert leftovers(repo) == []
    repo.gc(grace_days=0)
    assert list(repo.fsck(full=True)) == []
    blame = repo.blame("points", keys=[3, 5, 6])
    found = [
        blame.commits[row["commit"]].message.strip()
        for batch in blame.batches
        for row in batch.to_pylist()
    ]
    assert found == ["Edit 3", "Edit 5", "Import"]


def test_a_kart_dataset_comes_back_as_it_was(repo: Repo) -> None:
    kind = repo.dataset("points").kind
    if kind != "kart":
        pytest.skip("Kart's tree is what comes back")
    before = repo.git.git("rev-parse", "HEAD:points").text
    repo.convert("points", "havasu", history=True)
    repo.convert("points", "kart")
    assert repo.git.git("rev-parse", "HEAD:points").text == before


def test_a_dataset_of_the_kind_stays(repo: Repo) -> None:
    with pytest.raises(StateError, match="already"):
        repo.convert("points", repo.dataset("points").kind, history=True)


@pytest.mark.thorough
def test_merges_stay_merges_and_names_get_namesakes(repo: Repo) -> None:
    kind = repo.dataset("points").kind
    other = OTHER[kind]
    repo.create_tag("v1", "HEAD^")
    repo.create_branch("side", "HEAD^")
    repo.create_branch("far", "HEAD^^")
    repo.switch("side")
    repo.write("points", pa.table({"id": [7], "renamed": [77]}), message="On side")
    repo.write("others", pa.table({"id": [7], "number": pa.array([1], pa.int32())}))
    repo.switch("main")
    repo.merge("side")
    repo.write("points", pa.table({"id": [8], "renamed": [88]}), message="After")
    branches = {branch.name: branch.commit for branch in repo.branches()}

    repo.convert("points", other, history=True, refs=True)

    assert {b.name: b.commit for b in repo.branches() if b.name in branches} == {
        **branches,
        "main": repo.head().commit,
    }
    shown = repo.git.git("log", "--format=%p|%s", "HEAD^2", "^HEAD^1", "--topo-order").text
    merges = [line for line in shown.splitlines() if " " in line.partition("|")[0]]
    assert len(merges) == 1 and merges[0].endswith('Merge branch "side" into main')
    assert shown.count("On side") == shown.count("Edit 5") == shown.count("After") == 1
    for name in (f"{other}/main", f"{other}/side", f"{other}/far", f"{other}/v1"):
        old = name.partition("/")[2]
        old = branches.get(old, old)
        assert repo.dataset("points", name).kind == other
        assert rows(repo, "points", name) == rows(repo, "points", old)
        assert rows(repo, "others", name) == rows(repo, "others", old)
    assert rows(repo, "points") == rows(repo, "points", "HEAD^1")
    assert list(repo.fsck(full=True)) == []
    with pytest.raises(StateError, match="already"):
        repo.convert("points", other, history=True, refs=True)


def test_a_namesake_is_not_written_over(repo: Repo) -> None:
    other = OTHER[repo.dataset("points").kind]
    repo.create_branch(f"{other}/main")
    before = repo.git.git("for-each-ref").text
    with pytest.raises(StateError, match=f"there is heads/{other}/main already"):
        repo.convert("points", other, history=True, refs=True)
    assert repo.git.git("for-each-ref").text == before
