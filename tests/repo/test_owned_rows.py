"""Releases of tables in no key order, or without a key, agree with a plain model."""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.datasets.havasu import edit, ledger
from havasu_vc.datasets.kinds import require_files
from havasu_vc.errors import EngineError, KeyViolationError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import owned_edits, owned_rows
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.git import run_git
from tests.support.sound import assert_sound, refuses
from tests.support.templates import empty_repo

KINDS = {
    "along a curve": (BY_ID, "hilbert"),
    "without a key": (SourceOptions(), "key"),
    "along a curve without a key": (SourceOptions(), "hilbert"),
}
"""How tables are imported."""
Row = Mapping[str, Any]


@pytest.fixture(params=["many owners", "one owner", "rows come back", "the epoch closes"])
def cutting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How keys are cut, and whether few changes are written by owners all the same."""
    how: str = request.param
    if how != "one owner":
        monkeypatch.setattr(owned_edits, "OWNER_BYTES", 20_000)
    if how != "rows come back":
        monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    if how == "the epoch closes":
        for module in (ledger, edit):
            monkeypatch.setattr(module, "MOST_KEYS", 100)
    return how


def counted(found: Iterable[Row]) -> Counter[tuple[tuple[str, str], ...]]:
    """Return rows as a bag."""
    return Counter(tuple(sorted((k, repr(v)) for k, v in row.items())) for row in found)


def release_of(random_: random.Random, now: list[Row], share: float, *, keyed: bool) -> list[Row]:
    """Return rows of which a share came, went or changed, in any order; without keys also twins."""
    found: list[Row] = []
    for row in now:
        chance = random_.random()
        if chance >= share / 3:
            edited = {**row, "name": f"edited {random_.randrange(100)}"}
            found.append(edited if chance < share else row)
    known = {row["id"] for row in found}
    for _ in range(int(len(found) * share / 3) + 1):
        number = random_.randrange(-500, 6000)
        if number not in known or not keyed:
            known.add(number)
            found.append({**now[0], "id": number, "name": "new"})
    if not keyed:
        found += random_.sample(found, 5)
    random_.shuffle(found)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.few(2)
def test_releases_are_what_a_model_says(tmp_path: Path, cutting: str, kind: str) -> None:
    random_ = random.Random(f"{kind} {cutting}")
    options, order = KINDS[kind]
    table = points(300)
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write(tmp_path / "points.parquet", table), options=options, order=order)
    now: list[Row] = table.to_pylist()
    for number, share in enumerate((0.02, 0.9, 0.3, 1.0)):
        after = release_of(random_, now, share, keyed=options is BY_ID)
        file = write(
            tmp_path / f"{number}.parquet", pa.Table.from_pylist(after, schema=table.schema)
        )
        counts = repo.import_(file, "points", replace=True).datasets["points"]
        assert counted(rows(repo, "points")) == counted(after)
        before, later = counted(now), counted(after)
        assert counts.inserts + counts.updates == (later - before).total()
        assert counts.deletes + counts.updates == (before - later).total()
        assert (counts.updates > 0) == (options is BY_ID)
        assert list(repo.fsck(full=True)) == []
        assert repo.import_(file, "points", replace=True).commit is None
        now = after
    fresh = empty_repo(tmp_path / "fresh")
    fresh.import_(file, "points", options=options)
    digests = [require_files(r.dataset("points")).snapshot.digests for r in (repo, fresh)]
    assert digests[0] == digests[1]
    fewer = pa.Table.from_pylist(now, schema=table.schema).drop_columns(["number"])
    fewer = fewer.append_column("height", pa.array([float(i) for i in range(len(now))]))
    repo.import_(write(tmp_path / "fewer.parquet", fewer), "points", replace=True)
    assert counted(rows(repo, "points")) == counted(fewer.to_pylist())
    assert_sound(repo)


def test_what_is_left_of_a_file_stays_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (ledger, edit):
        monkeypatch.setattr(module, "MOST_KEYS", 1000)  # more of them close the epoch
    repo = empty_repo(tmp_path / "repo")
    file = write(tmp_path / "points.parquet", points(3000))
    repo.import_(file, options=BY_ID, order="hilbert")
    before = repo.table("points").to_arrow()["id"].to_pylist()
    assert before != sorted(before)
    half = pa.concat_tables([points(1500, name="new"), points(1500, start=1500)])
    repo.import_(write(file, half), "points", replace=True)
    view = require_files(repo.dataset("points"))
    assert not view.deletes, "nothing is left of the old file that would be deleted"
    found = repo.table("points").to_arrow()["id"].to_pylist()
    kept = [number for number in found if number >= 1500]
    assert kept == [number for number in before if number >= 1500]
    assert counted(rows(repo, "points")) == counted(half.to_pylist())


def test_the_same_rows_come_once_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Owners write a file of them again, which is not the one that is there already."""
    monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
    repo = empty_repo(tmp_path / "repo")
    more = points(40, start=5000)
    for times in range(4):
        file = write(tmp_path / "points.parquet", pa.concat_tables([points(300), *[more] * times]))
        repo.import_(file, "points", replace=times > 0)
        held = counted(rows(repo, "points"))
        assert held == counted([*points(300).to_pylist(), *more.to_pylist() * times])
    assert_sound(repo)


def test_a_key_that_comes_twice_is_refused(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo")
    repo.import_(write(tmp_path / "points.parquet", points(30)), options=BY_ID, order="hilbert")
    twice = write(tmp_path / "twice.parquet", pa.concat_tables([points(30), points(2, start=7)]))
    with refuses(repo, KeyViolationError, match="points: the key 7 is there twice"):
        repo.import_(twice, "points", replace=True)


def test_rows_that_an_owner_never_got_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = empty_repo(tmp_path / "repo")
    file = write(tmp_path / "points.parquet", points(30))
    repo.import_(file, options=BY_ID, order="hilbert")
    write(file, points(40, name="other"))
    pair = owned_rows._Pairing.pair
    monkeypatch.setattr(owned_rows._Pairing, "pair", lambda work, streams: pair(work, streams[1:]))
    with refuses(repo, EngineError, match="rows reached the task"):
        repo.import_(file, "points", replace=True)


def test_releases_without_a_key_that_meet_are_told_by_their_rows(tmp_path: Path) -> None:
    """Which rows of two branches meet is told by whole rows: others are no matter to each other."""
    repo = empty_repo(tmp_path / "repo")
    file = tmp_path / "points.parquet"
    repo.import_(write(file, points(6)))
    repo.create_branch("side")
    for branch, number in (("main", 10), ("side", 20)):
        repo.switch(branch)
        repo.import_(write(file, points(6 + (branch == "side"))), "points", replace=True)
        more = pa.concat_tables([points(6), points(1, start=number)])
        repo.import_(write(file, more), "points", replace=True)
    repo.switch("main")
    # As a host merges them, which knows markers alone.
    merged = run_git("merge-tree", "--write-tree", "main", "side", cwd=repo.path)
    assert len(merged.split()) == 1
    assert repo.merge("side").kind == "merge"
    assert [row["id"] for row in rows(repo, "points")] == [*range(6), 10, 20]
    repo.create_branch("other")
    for branch, table in (("main", points(5)), ("other", pa.concat_tables([points(7), points(6)]))):
        repo.switch(branch)
        repo.import_(write(file, table), "points", replace=True)
    repo.switch("main")
    assert "CONFLICT" in run_git(
        "merge-tree", "--write-tree", "main", "other", cwd=repo.path, check=False
    )
    assert repo.merge("other").kind == "conflicts"
