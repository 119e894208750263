"""Tables that git itself merges: its own commands on branches with data, none of ours in sight.

Edits of different rows are put together rightly, whatever command does it, and edits of one
row, or of a row and of all rows, stop git. Whatever it makes is held against a dict.
"""

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import Repo
from havasu_vc.datasets.havasu import edit, ledger
from havasu_vc.datasets.kinds import require_files
from havasu_vc.errors import HavasuError, NoChangesError, UnfinishedMergeError
from tests.repo.points import Rows, add_column, make, merged_rows, read, write
from tests.support.examples import examples
from tests.support.git import run_git
from tests.support.sound import LOCAL

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 13)}


def git(repo: Repo, *arguments: str) -> bool:
    """Run git as on a host, where nothing is set; return whether it went through."""
    done = run_git(*arguments, cwd=repo.path, check=False)
    stopped = bool(run_git("ls-files", "-u", cwd=repo.path).strip())
    return not stopped and "CONFLICT" not in done


def sound(repo: Repo, wanted: Rows, revision: str = "HEAD") -> None:
    """Check that a revision holds just these rows, and that all sums are theirs."""
    opened = Repo.open(repo.path, settings=LOCAL)
    assert read(opened, revision) == wanted
    if revision == "HEAD":
        assert list(opened.fsck(full=True)) == []


def edited(**changes: tuple[str, int] | None) -> Rows:
    rows: dict[int, Any] = dict(FIRST)
    for name, row in changes.items():
        key = int(name.removeprefix("row"))
        rows.pop(key, None)
        if row is not None:
            rows[key] = row
    return dict(sorted(rows.items()))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Two branches that changed, deleted and inserted different rows."""
    repo = make(tmp_path / "repo", FIRST)
    repo.create_branch("dev")
    write(repo, edited(row1=("ours", 1), row2=None, row20=("new", 20)), message="Ours")
    repo.switch("dev")
    write(repo, edited(row3=("theirs", 3), row4=None, row30=("new", 30)), message="Theirs")
    repo.switch("main")
    return repo


OURS = edited(row1=("ours", 1), row2=None, row20=("new", 20))
THEIRS = edited(row3=("theirs", 3), row4=None, row30=("new", 30))
BOTH = edited(
    row1=("ours", 1), row2=None, row20=("new", 20), row3=("theirs", 3), row4=None, row30=("new", 30)
)


@pytest.mark.parametrize(
    "commands",
    [
        [("merge", "-q", "--no-edit", "dev")],
        [("merge", "-q", "--squash", "dev"), ("commit", "-qm", "squash")],
        [("cherry-pick", "main..dev")],
        [("switch", "-q", "dev"), ("rebase", "-q", "main")],
        [("switch", "-q", "dev"), ("rebase", "-q", "--apply", "main")],
        [("merge", "-q", "--no-edit", "-X", "ours", "dev")],
    ],
    ids=lambda commands: " ".join(commands[-1]),
)
@pytest.mark.few(2)
def test_edits_of_different_rows_are_put_together(
    repo: Repo, commands: list[tuple[str, ...]]
) -> None:
    for command in commands:
        assert git(repo, *command)

    sound(repo, BOTH)


def test_a_bare_repository_merges_as_a_host_does(repo: Repo, tmp_path: Path) -> None:
    bare = tmp_path / "host.git"
    run_git("clone", "-q", "--bare", repo.path, bare, cwd=tmp_path)
    tree = run_git("merge-tree", "--write-tree", "main", "dev", cwd=bare).split()[0]
    merged = run_git(
        "commit-tree", tree, "-p", "main", "-p", "dev", "-m", "pull request", cwd=bare
    ).strip()
    run_git("update-ref", "refs/heads/main", merged, cwd=bare)

    run_git("pull", "-q", "--no-rebase", str(bare), "main", cwd=repo.path)

    sound(repo, BOTH)


def test_a_merge_is_reverted_and_that_too(repo: Repo) -> None:
    assert git(repo, "merge", "-q", "--no-edit", "dev")
    assert git(repo, "revert", "--no-edit", "-m", "1", "HEAD")
    sound(repo, OURS)
    assert git(repo, "revert", "--no-edit", "HEAD")
    sound(repo, BOTH)


def test_a_branch_goes_on_after_it_was_squashed(repo: Repo) -> None:
    assert git(repo, "merge", "-q", "--squash", "dev")
    assert git(repo, "commit", "-qm", "squash")
    run_git("switch", "-q", "dev", cwd=repo.path)
    dev = Repo.open(repo.path, settings=LOCAL)
    write(dev, {**THEIRS, 5: ("later", 5)}, message="Later")
    run_git("switch", "-q", "main", cwd=repo.path)

    assert git(repo, "merge", "-q", "--no-edit", "dev")

    sound(repo, {**BOTH, 5: ("later", 5)})


def test_three_branches_at_once(repo: Repo) -> None:
    run_git("switch", "-q", "-c", "third", "main~1", cwd=repo.path)
    while read(Repo.open(repo.path, settings=LOCAL)) != FIRST:
        run_git("reset", "-q", "--hard", "HEAD^", cwd=repo.path)
    write(Repo.open(repo.path, settings=LOCAL), edited(row7=("third", 7)), message="Third")
    run_git("switch", "-q", "main", cwd=repo.path)

    assert git(repo, "merge", "-q", "--no-edit", "dev", "third")

    sound(repo, dict(sorted({**BOTH, 7: ("third", 7)}.items())))


def test_merges_across(repo: Repo) -> None:
    run_git("branch", "old", "main", cwd=repo.path)
    assert git(repo, "merge", "-q", "--no-edit", "dev")
    write(Repo.open(repo.path, settings=LOCAL), {**BOTH, 6: ("main", 6)}, message="More")
    run_git("switch", "-q", "dev", cwd=repo.path)
    assert git(repo, "merge", "-q", "--no-edit", "old")
    write(Repo.open(repo.path, settings=LOCAL), {**BOTH, 7: ("dev", 7)}, message="More")

    assert git(repo, "merge", "-q", "--no-edit", "main")

    sound(repo, dict(sorted({**BOTH, 6: ("main", 6), 7: ("dev", 7)}.items())))


@pytest.mark.thorough
def test_a_fold_does_not_stop_an_edit_of_what_it_folded(repo: Repo) -> None:
    run_git("switch", "-q", "-c", "late", "main", cwd=repo.path)
    late = Repo.open(repo.path, settings=LOCAL)
    # Rows of the import, and of the file that the first edit wrote.
    write(late, edited(row1=("late", 1), row2=None, row20=None, row8=("late", 8)), message="Late")
    run_git("switch", "-q", "main", cwd=repo.path)
    Repo.open(repo.path, settings=LOCAL).optimize()

    assert git(repo, "merge", "-q", "--no-edit", "late")

    wanted = edited(row1=("late", 1), row2=None, row8=("late", 8))
    sound(repo, wanted)
    opened = Repo.open(repo.path, settings=LOCAL)
    assert require_files(opened.dataset("points")).derived_files
    opened.gc(grace_days=0)
    assert not list((opened.git.data_folder / "settled").rglob("*.json"))
    sound(repo, wanted)
    write(opened, {**wanted, 9: ("after", 9)})
    sound(repo, {**wanted, 9: ("after", 9)})


@pytest.mark.few(1)
@pytest.mark.parametrize("theirs", [("same cell", 1), None, ("name 1", 100)], ids=str)
def test_one_row_on_both_sides_stops_git(repo: Repo, theirs: tuple[str, int] | None) -> None:
    run_git("switch", "-q", "dev", cwd=repo.path)
    rows: dict[int, Any] = {**THEIRS, 1: theirs}
    write(
        Repo.open(repo.path, settings=LOCAL),
        {key: row for key, row in rows.items() if row is not None},
    )
    run_git("switch", "-q", "main", cwd=repo.path)

    assert not git(repo, "merge", "-q", "--no-edit", "dev")


@pytest.mark.few(1)
@pytest.mark.parametrize("way", [("merge", "--no-edit"), ("cherry-pick",), ("rebase",)], ids=str)
def test_a_change_of_all_rows_stops_git(
    repo: Repo, way: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MOST_KEYS", 3)
    monkeypatch.setattr(edit, "MOST_KEYS", 3)
    everything = {key: (name, 99) for key, (name, _) in OURS.items()}
    write(repo, everything, message="All")

    assert not git(repo, *way, "dev")

    run_git(way[0], "--abort", cwd=repo.path)
    result = Repo.open(repo.path, settings=LOCAL).merge("dev")
    assert result.kind == "conflicts" or result.commit is not None


def test_columns_of_both_sides_are_put_together(repo: Repo) -> None:
    add_column(repo, "ours")
    run_git("switch", "-q", "dev", cwd=repo.path)
    add_column(Repo.open(repo.path, settings=LOCAL), "theirs")
    run_git("switch", "-q", "main", cwd=repo.path)

    assert git(repo, "merge", "-q", "--no-edit", "dev")

    opened = Repo.open(repo.path, settings=LOCAL)
    assert {"ours", "theirs"} < set(opened.dataset("points").schema.names)
    assert list(opened.fsck(full=True)) == []


def test_two_columns_of_one_name_stop_git(repo: Repo) -> None:
    add_column(repo, "more")
    run_git("switch", "-q", "dev", cwd=repo.path)
    add_column(Repo.open(repo.path, settings=LOCAL), "more")
    run_git("switch", "-q", "main", cwd=repo.path)

    assert not git(repo, "merge", "-q", "--no-edit", "dev")


# Whatever is done

cells = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from([1, 2]))
steps = st.lists(
    st.one_of(
        st.dictionaries(st.integers(1, 6), st.none() | cells, min_size=1, max_size=3),
        st.sampled_from(["optimize", "revert"]),
    ),
    min_size=1,
    max_size=3,
)


def do(folder: Path, what: list[Any], mark: str) -> Rows:
    for step in what:
        repo = Repo.open(folder, settings=LOCAL)
        rows = read(repo)
        if step == "optimize":
            try:
                repo.optimize()
            except NoChangesError:
                pass
        elif step == "revert":
            if run_git("log", "-1", "--format=%s", cwd=folder).startswith(mark):
                run_git("revert", "--no-edit", "HEAD", cwd=folder)
        else:
            changed: dict[int, Any] = {**rows, **step}
            after = {key: row for key, row in sorted(changed.items()) if row is not None}
            if after != rows:
                write(repo, after, message=f"{mark} {len(rows)}")
    return read(Repo.open(folder, settings=LOCAL))


@pytest.mark.thorough
@examples(12, deadline=None)
@given(
    base=st.dictionaries(st.integers(1, 6), cells, min_size=1),
    ours=steps,
    theirs=steps,
    keys=st.sampled_from([2, 100]),
    way=st.sampled_from(["merge", "squash", "cherry-pick"]),
)
def test_what_git_makes_is_right_or_refused(
    base: Rows, ours: list[Any], theirs: list[Any], keys: int, way: str
) -> None:
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setattr(ledger, "MOST_KEYS", keys)
        patch.setattr(edit, "MOST_KEYS", keys)
        folder = Path(scratch) / "repo"
        repo = make(folder, dict(sorted(base.items())))
        before = read(repo)
        repo.create_branch("dev")
        mine = do(folder, ours, "Ours")
        run_git("switch", "-q", "dev", cwd=folder)
        other = do(folder, theirs, "Theirs")
        run_git("switch", "-q", "main", cwd=folder)
        expected, clashes = merged_rows(before, mine, other)
        options = {"merge": ["merge", "-q", "--no-edit"], "squash": ["merge", "-q", "--squash"]}
        target = "dev" if way != "cherry-pick" else "main..dev"
        through = git(repo, *options.get(way, ["cherry-pick"]), target)
        if not through:
            return
        run_git("commit", "-qm", "merged", cwd=folder, check=False)
        try:
            found = read(Repo.open(folder, settings=LOCAL))
        except UnfinishedMergeError:
            return
        except HavasuError:
            raise
        assert {k: v for k, v in found.items() if k not in clashes} == expected
        assert list(Repo.open(folder, settings=LOCAL).fsck(full=True)) == []


def test_a_commit_of_many_rows_marks_none_of_them(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "MOST_KEYS", 3)
    monkeypatch.setattr(edit, "MOST_KEYS", 3)
    repo.write("points", pa.table({"id": list(range(40, 60)), "name": ["x"] * 20}))

    view = require_files(repo.dataset("points"))

    assert view.epoch.number == 1
    assert all(delta.epoch is None for delta in view.deltas.values())
    assert not [n for n, _ in view.folder.blobs("edits") if n.count("/") > 5]
