from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.review.report import FlagKind
from tests.repo import points as small
from tests.repo import tables
from tests.support.git import run_git
from tests.support.templates import empty_repo

START = {n: (f"r{n}", n) for n in range(6)}


def back(repo: Repo, revisions: str, *filters: str) -> tuple[str, ...]:
    """Return the keys of rows that are said to stand as they stood."""
    (dataset,) = repo.review(revisions, filters).datasets
    return tuple(
        key for flag in dataset.flags if flag.kind is FlagKind.CHANGED_BACK for key in flag.rows
    )


def test_across_a_merge_of_the_base(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", START)
    repo.create_branch("side")
    small.write(repo, START | {5: ("main", 5)})
    repo.switch("side")
    small.write(repo, START | {1: ("other", 1), 2: ("other", 2)})
    assert repo.merge("main").kind == "merge"
    small.write(repo, START | {2: ("other", 2), 5: ("main", 5)})

    assert back(repo, "main...side") == ("1",)


def test_what_a_merge_takes_from_one_side_is_told(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", START)
    repo.create_branch("side")
    small.write(repo, START | {1: ("main", 1), 3: ("main", 3)})
    repo.switch("side")
    small.write(repo, START | {1: ("side", 1), 4: ("side", 4)})
    merged = repo.merge("main")
    assert merged.conflicts
    repo.resolve_conflicts(["points:feature:1"], choice="theirs")
    repo.continue_merge()

    assert small.read(repo)[1] == ("main", 1)
    assert back(repo, "main...side") == ("1",)


def test_branches_that_are_merged_within_the_range(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", START)
    start = repo.head().commit
    repo.create_branch("side")
    small.write(repo, START | {1: ("main", 1)})
    repo.switch("side")
    small.write(repo, START | {2: ("side", 2)})
    repo.switch("main")
    assert repo.merge("side").kind == "merge"

    assert back(repo, f"{start}..HEAD") == ()


def test_kart_datasets(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "kart", kart=True)
    file = tables.write(tmp_path / "a.parquet", tables.points(40))
    repo.import_(file, "a", options=tables.BY_ID)
    repo.write("a", tables.points(3, name="other"))
    repo.write("a", tables.points(2))

    assert back(repo, "HEAD~2..HEAD") == ("0", "1")


def test_rows_that_a_filter_leaves_out_did_not_change_back(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", START)
    small.write(repo, START | {1: ("other", 1)})
    small.write(repo, START | {1: ("third", 1), 2: ("other", 2)})

    assert back(repo, "HEAD~2..HEAD", "points:feature:2") == ()


@pytest.mark.parametrize("kart", [False, True])
def test_many_rows_are_not_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kart: bool
) -> None:
    repo = empty_repo(tmp_path / "repo", kart=kart)
    file = tables.write(tmp_path / "a.parquet", tables.points(40))
    repo.import_(file, "a", options=tables.BY_ID)
    for name in ("other", "row"):
        changed = tables.points(20, name=name) if name == "other" else tables.points(20)
        repo.write("a", changed)
    repo.write("a", tables.points(40, start=39, name="last"))
    assert len(back(repo, "HEAD~3..HEAD")) == 5
    monkeypatch.setattr("havasu_vc.review.changed_back.MOST_ROWS", 30)

    assert back(repo, "HEAD~3..HEAD") == ()


def test_a_commit_between_without_its_data(tmp_path: Path) -> None:
    repo = small.make(tmp_path / "repo", START)
    first = set((repo.git.data_folder / "objects").rglob("*"))
    small.write(repo, START | {1: ("other", 1)})
    for path in set((repo.git.data_folder / "objects").rglob("*")) - first:
        if path.is_file():
            path.unlink()
    run_git("revert", "--no-edit", "HEAD", cwd=repo.path)
    repo = Repo.open(repo.path)
    small.add(repo, tmp_path, {1: ("a", 1)}, "more")

    (added,) = repo.review("HEAD~3..HEAD").datasets
    assert (added.path, added.flags) == ("more", ())
