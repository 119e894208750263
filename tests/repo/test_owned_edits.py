"""Edits that are made interval by interval agree with a plain model, however keys are cut."""

import random
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.havasu import edit, ledger
from havasu_vc.datasets.havasu.owning import store_at
from havasu_vc.datasets.kinds import require_files
from havasu_vc.errors import EngineError, KeyViolationError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import owned_edits
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.git import run_git
from tests.support.sound import assert_sound, refuses
from tests.support.templates import empty_repo


@pytest.fixture(params=["each file an owner", "one owner", "rows come back"])
def cutting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How keys are cut, and whether few changes are written by owners all the same."""
    how: str = request.param
    if how != "one owner":
        monkeypatch.setattr(owned_edits, "OWNER_BYTES", 1)
    if how != "rows come back":
        monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    return how


def model(table: pa.Table) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in table.to_pylist()}


def held(repo: Repo) -> dict[int, dict[str, Any]]:
    return {row["id"]: row for row in rows(repo, "points")}


def release_of(random_: random.Random, now: pa.Table, share: float) -> pa.Table:
    """Return a table in which a share of the rows came, went or changed, in any order."""
    found = []
    for row in now.to_pylist():
        chance = random_.random()
        if chance < share / 3:
            continue
        if chance < share:
            row = {**row, "name": f"edited {random_.randrange(100)}"}
        found.append(row)
    known = {row["id"] for row in found}
    for _ in range(int(len(found) * share / 3) + 1):
        number = random_.randrange(-500, 6000)
        if number not in known:
            known.add(number)
            found.append({**now.slice(0, 1).to_pylist()[0], "id": number, "name": "new"})
    random_.shuffle(found)
    return pa.Table.from_pylist(found, schema=now.schema)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.few(1)
def test_releases_are_what_a_model_says(tmp_path: Path, cutting: str, seed: int) -> None:
    random_ = random.Random(seed)
    now = points(300)
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write(tmp_path / "points.parquet", now), options=BY_ID)
    for start in (1000, 2000, 3000):  # files of their own, one of which lies across others
        more = points(80, start=start)
        repo.write("points", more, mode="append")
        now = pa.concat_tables([now, more])
    for number, share in enumerate((0.02, 0.2, 0.9, 0.1, 0.5)):
        release = release_of(random_, now, share)
        file = write(tmp_path / f"release-{number}.parquet", release)
        before, after = model(now), model(release)
        result = repo.import_(file, "points", replace=True)
        counts = result.datasets["points"]
        both = before.keys() & after.keys()
        assert counts.inserts == len(after.keys() - before.keys())
        assert counts.deletes == len(before.keys() - after.keys())
        assert counts.updates == sum(before[key] != after[key] for key in both)
        assert held(repo) == after
        assert list(repo.fsck(full=True)) == []
        assert repo.import_(file, "points", replace=True).commit is None
        now = release
    assert_sound(repo)
    fresh = empty_repo(tmp_path / "fresh")
    fresh.import_(write(tmp_path / "last.parquet", now), "points", options=BY_ID)
    digests = [require_files(r.dataset("points")).snapshot.digests for r in (repo, fresh)]
    assert digests[0] == digests[1]


@pytest.mark.few(1)
def test_a_file_that_is_mostly_replaced_is_written_again(
    tmp_path: Path, cutting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ledger, edit):
        monkeypatch.setattr(module, "MOST_KEYS", 1000)  # more of them close the epoch
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write(tmp_path / "points.parquet", points(3000)), options=BY_ID)
    half = pa.concat_tables([points(1500, name="new"), points(1500, start=1500)])
    repo.import_(write(tmp_path / "half.parquet", half), "points", replace=True)
    view = require_files(repo.dataset("points"))
    assert not view.deletes, "nothing is left of the old file that would be deleted"
    assert sum(entry.rows for entry in view.data_entries) == 3000
    assert held(repo) == model(half)


@pytest.mark.few(1)
def test_git_merges_small_releases_of_two_branches(tmp_path: Path, cutting: str) -> None:
    repo = empty_repo(tmp_path / "repo")
    first = points(4)
    repo.import_(write(tmp_path / "points.parquet", first), options=BY_ID)
    repo.create_branch("side")
    for branch, number in (("main", 0), ("side", 3)):
        repo.switch(branch)
        table = first.to_pylist()
        table[number]["name"] = branch
        table[(number + 1) % 4 if number == 0 else 2]["number"] = 99
        released = pa.Table.from_pylist(table, schema=first.schema)
        write(tmp_path / "points.parquet", released)
        repo.import_(tmp_path / "points.parquet", options=BY_ID, replace=True)
    run_git("merge", "-q", "-m", "Both", "main", cwd=repo.path)

    merged = Repo.open(repo.path)
    found = [(row["name"], row["number"]) for row in rows(merged, "points")]
    assert found == [("main", 0), ("row 1", 99), ("row 2", 99), ("side", 3)]
    assert_sound(merged)


@pytest.mark.few(1)
def test_columns_come_and_go_with_a_release(tmp_path: Path, cutting: str) -> None:
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write(tmp_path / "points.parquet", points(400)), options=BY_ID)
    other = points(390).drop_columns(["number"])
    other = other.append_column("height", pa.array([float(i) for i in range(390)]))
    repo.import_(write(tmp_path / "other.parquet", other), "points", replace=True)
    assert held(repo) == model(other)
    assert list(repo.fsck(full=True)) == []


@pytest.mark.few(1)
def test_keys_of_text_and_of_several_columns(tmp_path: Path, cutting: str) -> None:
    def table(names: list[tuple[str, int]], value: str) -> pa.Table:
        parts = {"name": [n for n, _ in names], "part": [p for _, p in names]}
        return pa.table({**parts, "value": [value] * len(names)})

    long = "a name longer than what entries keep of text "
    every = [(f"{long}{i:03}", part) for i in range(60) for part in range(2)]
    repo = empty_repo(tmp_path / "repo")
    options = SourceOptions(primary_key=("name", "part"))
    repo.import_(write(tmp_path / "t.parquet", table(every, "a")), "t", options=options)
    more = [(f"z {i}", 0) for i in range(30)]
    repo.write("t", table(more, "a"), mode="append")
    new = pa.concat_tables([table(more[3:], "a"), table(every[:7], "b"), table(every[9:], "a")])
    counts = repo.import_(write(tmp_path / "u.parquet", new), "t", replace=True).datasets["t"]
    assert (counts.inserts, counts.updates, counts.deletes) == (0, 7, 5)
    found = [tuple(row.values()) for row in rows(repo, "t")]
    assert sorted(found) == sorted(zip(*new.to_pydict().values(), strict=True))


def test_a_key_that_comes_twice_changes_nothing(tmp_path: Path, cutting: str) -> None:
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write(tmp_path / "points.parquet", points(50)), options=BY_ID)
    twice = pa.concat_tables([points(50), points(1, start=7)])
    file = write(tmp_path / "twice.parquet", twice)
    with refuses(repo, KeyViolationError, match="points: the key 7 is there twice"):
        repo.import_(file, "points", replace=True)


def test_a_machine_that_does_not_see_the_repository_says_what_to_do(tmp_path: Path) -> None:
    with ExitStack() as stack, pytest.raises(EngineError) as caught:
        store_at(str(tmp_path / "elsewhere"), stack)
    assert "does not see the folder" in caught.value.message
    nothing, share, bucket = caught.value.hints
    assert nothing == "nothing was committed"
    assert "all machines of the cluster share" in share
    assert "git config havasu.data.fetch on-demand" in bucket
