"""`havasu-vc upgrade`: datasets of format 1 become ones of format 2, and are refused before."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.errors import NoChangesError, UnfinishedMergeError, UnsupportedVersionError
from havasu_vc.model.task import run_task
from tests.cli.conftest import invoke, succeed
from tests.formats.havasu.golden import FIXTURES
from tests.support.git import run_git
from tests.support.sound import LOCAL, assert_sound, frozen, refuses
from tests.support.templates import empty_repo

OLD = FIXTURES / "old"


def old_repository(folder: Path, name: str = "edited") -> Repo:
    """Make a repository with a dataset that an older version committed."""
    return commit_old(empty_repo(folder, settings=LOCAL), name)


def commit_old(repo: Repo, name: str) -> Repo:
    """Commit a state of the dataset as an older version did."""
    folder = repo.path
    run_git("rm", "-rq", "--cached", "--sparse", "--ignore-unmatch", "parcels", cwd=folder)
    for path in (OLD / name / "objects").iterdir():
        copy = repo.opened.storage.files.temporary()
        shutil.copy(path, copy)
        repo.opened.storage.files.put(copy)
    inside = folder / "parcels" / ".havasu-dataset"
    shutil.copytree(OLD / name, inside, ignore=shutil.ignore_patterns("objects"))
    run_git("add", "--sparse", "-f", "parcels", cwd=folder)
    run_git("commit", "-q", "-m", "of format 1", cwd=folder)
    run_git("sparse-checkout", "reapply", cwd=folder)
    shutil.rmtree(folder / "parcels", ignore_errors=True)
    return Repo.open(folder, settings=LOCAL)


def rows(repo: Repo) -> list[dict[str, Any]]:
    batches = [b for task in repo.dataset("parcels").scan() for b in run_task(task)]
    return sorted(pa.Table.from_batches(batches).to_pylist(), key=str)


def test_what_is_of_format_1_is_refused_in_one_sentence(tmp_path: Path) -> None:
    repo = old_repository(tmp_path / "repo")

    for work in (
        lambda: repo.dataset("parcels"),
        lambda: repo.write("parcels", pa.table({"id": [1], "name": ["x"]})),
    ):
        with frozen(repo), pytest.raises(UnsupportedVersionError, match="format 1") as caught:
            work()
        assert "`havasu-vc upgrade`" in caught.value.hints[0]
    (problem,) = repo.fsck()
    assert "format 1" in problem.message and "`havasu-vc upgrade`" in str(problem.hint)


@pytest.mark.parametrize("name", ["edited", "evolved", "keyless"])
def test_an_upgrade_keeps_rows_and_files(tmp_path: Path, name: str) -> None:
    repo = old_repository(tmp_path / "repo", name)
    files = sorted((OLD / name / "objects").iterdir())

    result = repo.upgrade_datasets()

    assert result.commit is not None and list(result.changes) == ["parcels"]
    assert_sound(repo)
    assert list(repo.fsck(full=True)) == []
    stored = [p for p in (repo.git.data_folder / "objects").rglob("*") if p.is_file()]
    assert sorted(path.name for path in stored) == [path.name for path in files]
    listed = run_git("ls-tree", "-r", "--name-only", "HEAD", "parcels", cwd=repo.path)
    assert "snapshot.json" not in listed and "schema.json" not in listed
    if name == "edited":
        assert {row["id"]: row["name"] for row in rows(repo)}[7] == "Point Chevalier"
        assert len(rows(repo)) == 6


def test_upgraded_tables_are_edited_and_merged(tmp_path: Path) -> None:
    repo = old_repository(tmp_path / "repo")
    repo.upgrade_datasets()
    repo.create_branch("side")
    repo.write("parcels", pa.table({"id": [1], "name": ["main"]}))
    repo.switch("side")
    repo.write("parcels", pa.table({"id": [7], "name": ["side"]}))

    run_git("merge", "-q", "-m", "by git", "main", cwd=repo.path)

    found = {row["id"]: row["name"] for row in rows(repo)}
    assert (found[1], found[7]) == ("main", "side")
    assert list(repo.fsck(full=True)) == []


def test_an_upgrade_is_made_once(tmp_path: Path) -> None:
    repo = old_repository(tmp_path / "repo")
    repo.upgrade_datasets()

    with refuses(repo, NoChangesError, match="format 2 already"):
        repo.upgrade_datasets()


def test_states_that_were_upgraded_apart_meet_in_git(tmp_path: Path) -> None:
    repo = old_repository(tmp_path / "repo")
    run_git("switch", "-q", "-c", "side", cwd=repo.path)
    # Another state of format 1 of the same table: the rows before the edits.
    commit_old(repo, "evolved")
    Repo.open(repo.path, settings=LOCAL).upgrade_datasets()
    run_git("switch", "-q", "main", cwd=repo.path)
    Repo.open(repo.path, settings=LOCAL).upgrade_datasets()

    said = run_git("merge", "side", cwd=repo.path, check=False)

    assert "CONFLICT" in said and "dataset.json" in said


@pytest.fixture
def parted(tmp_path: Path) -> Repo:
    """A repository in which main was upgraded and edited, and `side` evolved before that."""
    repo = old_repository(tmp_path / "repo", "edited")
    run_git("switch", "-q", "-c", "side", cwd=repo.path)
    commit_old(repo, "evolved")
    run_git("switch", "-q", "main", cwd=repo.path)
    repo = Repo.open(repo.path, settings=LOCAL)
    repo.upgrade_datasets()
    repo.write("parcels", pa.table({"id": pa.array([2]), "grade": pa.array([9], pa.int32())}))
    return repo


@pytest.mark.parametrize("by_git", [False, True])
@pytest.mark.parametrize("side_too", [False, True])
def test_branches_of_before_an_upgrade_are_merged(
    parted: Repo, side_too: bool, by_git: bool, tmp_path: Path
) -> None:
    """Whether they were upgraded themselves or not, and where git stopped at them."""
    theirs = old_repository(tmp_path / "theirs", "evolved")
    theirs.upgrade_datasets()
    wanted = rows(theirs)
    (row,) = (row for row in wanted if row["id"] == 2)
    assert row["grade"] == 1
    row["grade"] = 9
    if side_too:
        parted.switch("side")
        parted.upgrade_datasets()
        parted.switch("main")
    if by_git:
        said = run_git("merge", "side", cwd=parted.path, check=False)
        assert "CONFLICT" in said
        succeed(invoke(["-C", parted.path, "merge", "--continue"]))
    else:
        succeed(invoke(["-C", parted.path, "merge", "side"]))

    merged = Repo.open(parted.path, settings=LOCAL)
    assert rows(merged) == sorted(wanted, key=str)
    assert_sound(merged, dangling=by_git)
    assert run_git("status", "--porcelain", cwd=parted.path) == ""


def test_what_is_merged_into_must_be_upgraded(parted: Repo) -> None:
    parted.switch("side")
    with frozen(parted):
        refused = invoke(["-C", parted.path, "merge", "main"])
    assert refused.exit_code == 24 and "of dataset format 1" in refused.stderr
    assert "`havasu-vc upgrade`" in refused.stderr


@pytest.mark.parametrize(
    "command", [("diff", "HEAD^"), ("show",), ("log", "-p"), ("cat", "parcels@HEAD^")], ids=" ".join
)
def test_what_is_older_than_an_upgrade_is_not_to_be_upgraded(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    repo = old_repository(tmp_path / "repo")
    repo.upgrade_datasets()
    refused = invoke(["-C", repo.path, *command])
    assert refused.exit_code == 24 and "of dataset format 1" in refused.stderr
    hint = refused.stderr.splitlines()[-1]
    assert hint == (
        "Hint: commits before an upgrade stay as they are, so compare from the upgrade's commit "
        "on; `havasu-vc upgrade` makes one where HEAD is of format 1 too"
    )


def test_a_snapshot_that_does_not_fit_is_not_upgraded(tmp_path: Path) -> None:
    repo = old_repository(tmp_path / "repo")
    name = run_git("ls-files", "parcels/.havasu-dataset/files", cwd=repo.path).split("\n")[0]
    run_git("update-index", "--force-remove", name, cwd=repo.path)
    run_git("commit", "-q", "-m", "by hand", cwd=repo.path)
    repo = Repo.open(repo.path, settings=LOCAL)

    with refuses_upgrade():
        repo.upgrade_datasets()


def refuses_upgrade() -> Any:
    return pytest.raises(UnfinishedMergeError, match="not those of its snapshot")


def copied(repo: Repo, *paths: str) -> None:
    """Commit the dataset once more at other paths, as only git would."""
    listed = run_git("ls-tree", "-r", "HEAD", "parcels", cwd=repo.path)
    lines = [f"{line.replace('parcels/', f'{path}/', 1)}\n" for path in paths
             for line in listed.splitlines()]  # fmt: skip
    run_git("update-index", "--index-info", cwd=repo.path, stdin="".join(lines))
    run_git("commit", "-q", "-m", "copies", cwd=repo.path)


@pytest.mark.parametrize(
    ("paths", "so"),
    [
        ((), ""),
        (("sites",), "; so is sites"),
        (("s1", "s2", "s3", "s4", "s5", "s6"), "; so are s1, s2, s3, s4, s5 and 1 more"),
    ],
)
def test_data_ls_says_once_that_datasets_are_of_format_1(
    tmp_path: Path, paths: tuple[str, ...], so: str
) -> None:
    repo = old_repository(tmp_path / "repo")
    if paths:
        copied(repo, *paths)
    shown = succeed(invoke(["-C", repo.path, "data", "ls"]))
    assert shown.stdout.split() == ["parcels", *paths]
    first = "parcels at HEAD is of dataset format 1, which this version only upgrades"
    assert shown.stderr.splitlines() == [f"Note: {first}{so}"]


def test_fsck_names_odd_paths_in_their_order(tmp_path: Path) -> None:
    repo = old_repository(tmp_path / "repo")
    odd = [f"{letter}:old" for letter in "abcdefgh"]
    copied(repo, *odd)
    told = [problem.where for problem in repo.fsck() if "'" in problem.where]
    assert told == [f"'{path}' at HEAD" for path in odd]
