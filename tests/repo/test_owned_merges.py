"""A merge made by owners of intervals agrees with one made in one go, and with a plain model."""

import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.havasu import delete_writing, edit, ledger, writing
from havasu_vc.datasets.kinds import require_files
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import merge_datasets, owned_edits, owned_merges
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.merging import foreseen
from havasu_vc.merging.state import read_state
from tests.repo.points import Rows, merged_rows
from tests.repo.tables import rows, write
from tests.support.templates import empty_repo


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have many row groups in small tables, and epochs that are soon closed."""
    for module in (writing, delete_writing):
        monkeypatch.setattr(module, "GROUP_ROWS", 48)
    for module in (ledger, edit, owned_merges):
        monkeypatch.setattr(module, "MOST_KEYS", 60)


@contextmanager
def owners(share: int, *, few: int = 0) -> Iterator[None]:
    """Have merges made by owners of about so many bytes each; none for None."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_datasets, "LEAST_ROWS", -1)
        patch.setattr(owned_edits, "FEW_ROWS", few)
        for name in ("LEAST_BYTES", "MOST_BYTES"):
            patch.setattr(owned_merges, name, share)
        patch.setattr(owned_merges, "READ_BYTES", 2000)
        made: list[object] = []
        merge = owned_merges.owned_merge

        def counted(*arguments: Any) -> list[pa.RecordBatch]:
            made.append(arguments)
            return merge(*arguments)

        patch.setattr(owned_merges, "owned_merge", counted)
        yield
        assert made, "owners were asked"


KEYS = {
    "a number": ("id",),
    "text": ("code",),
    "text and a number": ("part", "id"),
    "a date": ("day",),
}


def table_of(found: dict[int, tuple[Any, ...]]) -> pa.Table:
    """Return rows with keys of all types, each told by a number."""
    long = "longer than what entries keep of a text "
    return pa.table(
        {
            "id": pa.array(found, pa.int64()),
            "code": pa.array([f"{long}{key * 7919 % 10000:05}" for key in found], pa.string()),
            "part": pa.array([f"part {key % 3}" for key in found], pa.string()),
            "day": pa.array(list(found), pa.int32()).cast(pa.date32()),
            "name": pa.array([row[0] for row in found.values()], pa.string()),
            "height": pa.array([row[1] for row in found.values()], pa.int32()),
        }
    )


def edited(random_: random.Random, now: Rows, share: float) -> Rows:
    found: dict[int, Any] = {}
    for key, (name, height) in now.items():
        chance = random_.random()
        if chance < share / 5:
            continue
        if chance < share:
            name = random_.choice([None, "a", "b"]) if random_.random() < 0.6 else name
            height = random_.choice([None, 1, 2]) if random_.random() < 0.6 else height
        found[key] = (name, height)
    for _ in range(int(len(now) * share / 4)):
        found.setdefault(random_.randrange(2000), ("new", random_.randrange(3)))
    return found


def release(repo: Repo, folder: Path, found: Rows, key: tuple[str, ...]) -> None:
    file = write(folder / "t.parquet", table_of(dict(found)))
    repo.import_(file, "t", options=SourceOptions(primary_key=key), replace=True)


def forked(
    folder: Path, key: tuple[str, ...], seed: int, shares: tuple[float, float]
) -> tuple[Repo, Rows, Rows, Rows]:
    """Return a repository whose branches main and dev have edits of a base, with these rows.

    Both edit one row alike, so that neither is ahead of the other, nor do their files add up.
    """
    random_ = random.Random(seed)
    repo = empty_repo(folder / "repo")
    base: Rows = {}
    for _ in range(2):
        more = {random_.randrange(2000): (random_.choice("ab"), 0) for _ in range(100)}
        base = {**edited(random_, base, 0.1), **more}
        release(repo, folder, base, key)
    repo.create_branch("dev")
    sides: list[Rows] = []
    for branch, share in zip(("main", "dev"), shares, strict=True):
        repo.switch(branch)
        sides.append({**edited(random_, base, share), min(base): ("of both", 9)})
        release(repo, folder, sides[-1], key)
    repo.switch("main")
    return repo, base, sides[0], sides[1]


def outcome(path: Path, policy: MergePolicy | None) -> tuple[Any, ...]:
    """Merge, and return all that may be seen of it; conflicts are resolved with theirs."""
    repo = Repo.open(path)
    seen = foreseen(repo.opened, "HEAD", "dev", most=3) if policy is None else None
    result = repo.merge("dev", policy=policy)
    conflicts = [(each.path, each.rows, dict(each.columns)) for each in result.conflicts]
    if result.kind == "conflicts":
        state = read_state(repo.git)
        assert state is not None
        assert [c.rows for c in state.conflicts] == [c[1] for c in conflicts]
        repo.resolve_conflicts(choice="theirs")
        repo.continue_merge()
    assert list(repo.fsck(full=True)) == []
    view = require_files(repo.dataset("t"))
    if seen is not None:
        assert seen.rows == {each.path: each.unresolved_rows for each in result.conflicts}
    foreseen_rows = None if seen is None else [each.rows for each, _ in seen.datasets]
    return result.changes, conflicts, foreseen_rows, rows(repo, "t"), view.snapshot.digests


POLICIES = {
    "nobody": None,
    "ours": MergePolicy(side=Side.OURS),
    "theirs": MergePolicy(side=Side.THEIRS),
    "by column": MergePolicy(columns={"name": Side.THEIRS}, fill_nulls=True),
}


@pytest.mark.parametrize(
    ("key", "policy", "shares"),
    [
        ("a number", "nobody", (0.6, 0.3)),
        pytest.param("text", "theirs", (0.02, 0.9), marks=pytest.mark.thorough),
        pytest.param("text and a number", "by column", (0.3, 0.3), marks=pytest.mark.thorough),
        *(
            pytest.param(key, policy, shares, marks=pytest.mark.slow)
            for key in KEYS
            for policy in POLICIES
            for shares in ((0.1, 0.1), (0.6, 0.3), (0.02, 0.9))
        ),
    ],
)
def test_owners_merge_as_one_does(
    tmp_path: Path, key: str, policy: str, shares: tuple[float, float]
) -> None:
    repo, base, ours, theirs = forked(tmp_path, KEYS[key], len(key + policy), shares)
    found = []
    for number, share in enumerate((None, 2000, 8000)):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(repo.path, copy)
        if share is None:
            found.append(outcome(copy, POLICIES[policy]))
        else:
            with owners(share, few=100 * (number % 2)):
                found.append(outcome(copy, POLICIES[policy]))
    expected, clashes = merged_rows(base, ours, theirs)
    held = {row["id"]: (row["name"], row["height"]) for row in found[0][3]}
    assert {key: row for key, row in held.items() if key not in clashes} == expected
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_a_merge_that_writes_a_file_again_closes_the_epoch(tmp_path: Path) -> None:
    """Rows that only move to another file have no marker, and git must not merge past that."""
    repo = empty_repo(tmp_path / "repo")
    base: dict[int, Any] = dict.fromkeys(range(200), ("a", 0))
    release(repo, tmp_path, base, ("id",))
    (file,) = require_files(repo.dataset("t")).data_entries
    repo.create_branch("dev")
    # Their edits are many, if few at a time, and ours but for one, so the merge changes few rows.
    for branch, last in (("main", 149), ("dev", 150)):
        repo.switch(branch)
        for gone in (50, 100, last):
            left = {key: row for key, row in base.items() if key >= gone}
            alike = {199: ("of both", 9), 190 if branch == "main" else 191: ("apart", 1)}
            release(repo, tmp_path, {**left, **alike}, ("id",))
    repo.switch("main")
    before = require_files(repo.dataset("t")).epoch
    with owners(2000):
        result = repo.merge("dev")
    assert result.changes["t"].total == 2
    view = require_files(repo.dataset("t"))
    assert file.file not in view.entries
    assert view.epoch != before
