"""A merge of rows in no key order, or without a key, by owners agrees with one made in one go."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo
from havasu_vc.datasets.havasu import delete_writing, diff, edit, ledger, writing
from havasu_vc.datasets.kinds import require_files
from havasu_vc.errors import EngineError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import dealt_merges, merge_datasets, owned_edits, owned_merges
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.merging import foreseen
from havasu_vc.merging.state import read_state
from tests.repo.points import merged_rows
from tests.repo.tables import rows, write
from tests.support.sound import refuses
from tests.support.templates import empty_repo

KINDS = {
    "along a curve": (("id",), "hilbert"),
    "along a curve, by text": (("code",), "hilbert"),
    "along a curve, by two": (("part", "id"), "hilbert"),
    "without a key": ((), "key"),
    "along a curve without a key": ((), "hilbert"),
}
"""How tables are imported."""
POLICIES = {
    "nobody": None,
    "ours": MergePolicy(side=Side.OURS),
    "theirs": MergePolicy(side=Side.THEIRS),
    "by column": MergePolicy(columns={"name": Side.THEIRS}, fill_nulls=True),
}
Rows = Mapping[int, tuple[str | None, int | None]]
"""By number: a name, and a height, which without a key is how often the row is there."""


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have many row groups in small tables, and epochs that are soon closed."""
    for module in (writing, delete_writing):
        monkeypatch.setattr(module, "GROUP_ROWS", 48)
    for module in (ledger, edit):
        monkeypatch.setattr(module, "MOST_KEYS", 60)


@contextmanager
def owners(size: int, *, few: int = 0) -> Iterator[None]:
    """Have merges made by owners of about so many bytes each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge_datasets, "LEAST_ROWS", -1)
        patch.setattr(diff, "SMALL_ROWS", -1)
        patch.setattr(owned_edits, "FEW_ROWS", few)
        patch.setattr(owned_edits, "OWNER_BYTES", size)
        made: list[object] = []
        merge = dealt_merges.dealt_merge

        def counted(*arguments: Any) -> list[pa.RecordBatch]:
            made.append(arguments)
            return merge(*arguments)

        patch.setattr(owned_merges, "dealt_merge", counted)
        yield
        assert made, "owners were asked"


def table_of(found: Rows, *, keyed: bool, more: str | None = None) -> pa.Table:
    """Return rows, in an order that is none; with another column if one is named."""
    order = sorted(found, key=lambda key: key * 7919 % 1009)
    if not keyed:
        order = [key for key in order for _ in range(found[key][1] or 1)]
    columns = {
        "id": pa.array(order, pa.int64()),
        "geom": pa.array([shapely.to_wkb(shapely.Point(k % 83, k % 41)) for k in order]),
        "code": pa.array([f"code {key * 7919 % 10000:05}" for key in order]),
        "part": pa.array([f"part {key % 3}" for key in order]),
        "name": pa.array([found[key][0] for key in order], pa.string()),
    }
    if keyed:
        columns["height"] = pa.array([found[key][1] for key in order], pa.int32())
    if more is not None:
        columns[more] = pa.array([key if key % 2 else None for key in order], pa.int64())
    return pa.table(columns)


def edited(random_: random.Random, now: Rows, share: float) -> Rows:
    """Return rows of which a share went, came or changed."""
    found: dict[int, Any] = {}
    for key, (name, height) in now.items():
        chance = random_.random()
        if chance < share / 5:
            continue
        if chance < share:
            name = random_.choice([None, "a", "b"]) if random_.random() < 0.6 else name
            height = random_.choice([None, 1, 2, 3]) if random_.random() < 0.6 else height
        found[key] = (name, height)
    for _ in range(int(len(now) * share / 4)):
        found.setdefault(random_.randrange(2000), ("new", random_.randrange(3)))
    return found


def release(repo: Repo, folder: Path, found: pa.Table, kind: str) -> None:
    key, order = KINDS[kind]
    options = SourceOptions(primary_key=key)
    repo.import_(
        write(folder / "t.parquet", found), "t", options=options, replace=True, order=order
    )


def forked(
    folder: Path, kind: str, shares: tuple[float, float], *, columns: bool = False
) -> tuple[Repo, Rows, Rows, Rows]:
    """Return a repository whose branches main and dev have edits of a base, with these rows.

    Both edit one row alike, so that their files do not add up; each may have a column more.
    """
    random_ = random.Random(f"{kind} {shares}")
    keyed = bool(KINDS[kind][0])
    repo = empty_repo(folder / "repo")
    base: Rows = {}
    for _ in range(2):
        more = {random_.randrange(2000): (random_.choice("ab"), 1) for _ in range(100)}
        base = {**edited(random_, base, 0.1), **more}
        release(repo, folder, table_of(base, keyed=keyed), kind)
    repo.create_branch("dev")
    sides: list[Rows] = []
    for branch, share in zip(("main", "dev"), shares, strict=True):
        repo.switch(branch)
        sides.append({**edited(random_, base, share), min(base): ("of both", 2)})
        extra = f"of_{branch}" if columns else None
        release(repo, folder, table_of(sides[-1], keyed=keyed, more=extra), kind)
    repo.switch("main")
    return repo, base, sides[0], sides[1]


def outcome(path: Path, policy: MergePolicy | None, choice: str) -> tuple[Any, ...]:
    """Merge, and return all that may be seen of it; conflicts are resolved alike."""
    repo = Repo.open(path)
    seen = foreseen(repo.opened, "HEAD", "dev", most=3) if policy is None else None
    result = repo.merge("dev", policy=policy)
    conflicts = [(each.path, each.rows, dict(each.columns)) for each in result.conflicts]
    if result.kind == "conflicts":
        state = read_state(repo.git)
        assert state is not None
        assert [c.rows for c in state.conflicts] == [c[1] for c in conflicts]
        repo.resolve_conflicts(choice=choice)
        repo.continue_merge()
    assert list(repo.fsck(full=True)) == []
    view = require_files(repo.dataset("t"))
    if seen is not None:
        assert seen.rows == {each.path: each.unresolved_rows for each in result.conflicts}
    foreseen_rows = None if seen is None else [each.rows for each, _ in seen.datasets]
    held = sorted(rows(repo, "t"), key=lambda row: (row["id"], str(row["name"])))
    return held, view.snapshot.digests, result.changes, conflicts, foreseen_rows


def counts_merged(base: Rows, ours: Rows, theirs: Rows, choice: str) -> Counter[Any]:
    """Merge rows without a key by how often each is there; what both changed is as chosen."""
    sides = [
        Counter({(key, name): times or 1 for key, (name, times) in side.items()})
        for side in (base, ours, theirs)
    ]
    found: Counter[Any] = Counter()
    for row in set().union(*sides):
        was, mine, other = (side[row] for side in sides)
        chosen = {"base": was, "theirs": other}[choice]
        found[row] = other if mine == was else mine if other in (was, mine) else chosen
    return +found


@pytest.mark.parametrize(
    ("kind", "policy", "shares", "columns"),
    [
        ("along a curve", "nobody", (0.6, 0.3), False),
        ("without a key", "nobody", (0.6, 0.6), False),
        *(
            pytest.param(*case, marks=pytest.mark.thorough)
            for case in (
                ("along a curve, by two", "by column", (0.3, 0.3), False),
                ("along a curve, by text", "theirs", (0.02, 0.9), True),
                ("along a curve without a key", "theirs", (0.3, 0.6), False),
                ("without a key", "nobody", (0.9, 0.05), True),
            )
        ),
        *(
            pytest.param(kind, policy, shares, columns, marks=pytest.mark.slow)
            for kind in KINDS
            for policy in POLICIES
            for shares in ((0.1, 0.1), (0.6, 0.3), (0.02, 0.9))
            for columns in (False, True)
        ),
    ],
)
def test_owners_merge_as_one_does(
    tmp_path: Path, kind: str, policy: str, shares: tuple[float, float], columns: bool
) -> None:
    repo, base, ours, theirs = forked(tmp_path, kind, shares, columns=columns)
    choice = "base" if shares[0] > 0.5 else "theirs"
    found = []
    for number, size in enumerate((None, 4000, 40_000)):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(repo.path, copy)
        if size is None:
            found.append(outcome(copy, POLICIES[policy], choice))
        else:
            with owners(size, few=100 * (number % 2)):
                found.append(outcome(copy, POLICIES[policy], choice))
    assert found[1] == found[0]
    assert found[2] == found[0]
    if policy != "nobody" or columns:
        return
    held = found[0][0]
    if KINDS[kind][0]:
        expected, clashes = merged_rows(base, ours, theirs)
        names = {row["id"]: (row["name"], row["height"]) for row in held}
        assert clashes or max(shares) < 0.5
        assert {key: row for key, row in names.items() if key not in clashes} == expected
    else:
        rows_held = Counter((row["id"], row["name"]) for row in held)
        assert rows_held == counts_merged(base, ours, theirs, choice)


def numbered(found: Mapping[int, str], type_: pa.DataType, names: Sequence[str]) -> pa.Table:
    """Return rows without a key, each twice, with columns that are asked for."""
    order = sorted([*found, *found], key=lambda key: key * 7919 % 1009)
    columns = {
        "id": pa.array(order, type_),
        "name": pa.array([found[key] for key in order]),
        "part": pa.array([f"part {key % 3}" for key in order]),
    }
    return pa.table({name: columns[name] for name in names})


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (pa.int32(), pa.int32(), "id name"),
        (pa.int32(), pa.int64(), "id name part"),
        (pa.float32(), pa.float64(), "id name part"),
    ],
)
def test_owners_merge_past_columns_that_changed(
    tmp_path: Path, before: pa.DataType, after: pa.DataType, names: str
) -> None:
    """Rows without a key meet by the columns that all sides have alike."""
    repo = empty_repo(tmp_path / "repo")
    base = dict.fromkeys(range(0, 900, 3), "as it was")
    release(repo, tmp_path, numbered(base, before, ("id", "name", "part")), "without a key")
    repo.create_branch("dev")
    ours = {**base, **dict.fromkeys(range(0, 300, 6), "ours"), 1: "of both"}
    release(repo, tmp_path, numbered(ours, before, ("id", "name", "part")), "without a key")
    repo.switch("dev")
    theirs = {**base, **dict.fromkeys(range(600, 900, 6), "theirs"), 1: "of both"}
    release(repo, tmp_path, numbered(theirs, after, names.split()), "without a key")
    repo.switch("main")
    found = []
    for number, size in enumerate((None, 4000)):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(repo.path, copy)
        with owners(size) if size else nullcontext():
            found.append(outcome(copy, MergePolicy(), "theirs"))
    assert found[1] == found[0]
    merged = {**theirs, **{key: name for key, name in ours.items() if name == "ours"}}
    held = Counter((int(row["id"]), row["name"]) for row in found[0][0])
    assert held == Counter(dict.fromkeys(merged.items(), 2))


def test_rows_that_an_owner_never_got_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, *_ = forked(tmp_path, "along a curve", (0.3, 0.3))
    walk = dealt_merges._sorted
    monkeypatch.setattr(dealt_merges, "_sorted", lambda pieces, share: walk(pieces[1:], share))
    with owners(40_000), refuses(repo, EngineError, match="rows reached the task"):
        repo.merge("dev")
