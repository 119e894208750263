"""What the real git does to edited datasets, taken over: rows end as a merge of rows has them.

Whatever git is made to do, one of three things follows: the rows are the row-level
merge; or reading is refused, and the refusal names what mends it; or somebody chose one
side's dataset as a whole.
"""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import Repo
from havasu_vc.errors import (
    ConflictError,
    HavasuError,
    NoChangesError,
    StateError,
    UnfinishedMergeError,
)
from havasu_vc.history.conflicts import MergePolicy, Side
from havasu_vc.model.commits import ChangeCounts
from tests.repo.points import Rows, add_column, assert_clean, make, merged_rows, read, table, write
from tests.support.examples import examples
from tests.support.git import run_git

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 9)}
OURS: Rows = {**FIRST, 1: ("ours", 1), 2: ("ours", 2)}
THEIRS: Rows = {**FIRST, 1: ("name 1", 100), 3: ("theirs", 3)}
BOTH: Rows = {**FIRST, 1: ("ours", 100), 2: ("ours", 2), 3: ("theirs", 3)}
CLASH: Rows = {**FIRST, 1: ("theirs", 1), 3: ("theirs", 3)}


@pytest.fixture
def repo(tmp_path: Path) -> Iterator[Repo]:
    repo = make(tmp_path / "repo", FIRST)
    yield repo
    assert not (repo.path / "points" / ".havasu-dataset").exists()


def fork(repo: Repo, ours: Rows, theirs: Rows) -> None:
    repo.create_branch("dev")
    write(repo, ours, message="Ours")
    repo.switch("dev")
    write(repo, theirs, message="Theirs")
    repo.switch("main")


def upsert(repo: Repo, rows: Rows) -> None:
    repo.write("points", table(rows))


def git(repo: Repo, *args: str, stops: bool | None = None) -> int:
    """Run git; `stops` says whether it must fail."""
    done = subprocess.run(
        ["git", *args],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GIT_EDITOR": ":"},
    )
    if stops is not None:
        assert bool(done.returncode) is stops, done.stdout + done.stderr
    return done.returncode


def log(repo: Repo, text: str, revision: str = "HEAD") -> str:
    return run_git("log", "-1", f"--format={text}", revision, cwd=repo.path)


def test_a_merge_is_concluded(repo: Repo) -> None:
    fork(repo, OURS, THEIRS)
    git(repo, "merge", "dev", stops=True)
    assert repo.status().state == "merge"

    result = repo.continue_merge()

    assert (result.kind, result.commit) == ("merge", repo.head().commit)
    assert result.changes["points"].updates == 2
    assert read(repo) == BOTH
    assert log(repo, "%s") == "Merge branch 'dev'"
    assert len(log(repo, "%P").split()) == 2
    assert repo.status().state == "clean"
    assert_clean(repo)


def test_a_message_can_be_given(repo: Repo) -> None:
    fork(repo, OURS, THEIRS)
    git(repo, "merge", "dev", stops=True)

    repo.continue_merge(message="Bring together")

    assert log(repo, "%B").strip() == "Bring together"
    assert_clean(repo)


def test_conflicts_of_rows_wait_while_git_waits(repo: Repo) -> None:
    fork(repo, OURS, CLASH)
    git(repo, "merge", "dev", stops=True)

    assert repo.continue_merge().kind == "conflicts"
    with pytest.raises(ConflictError, match="not resolved"):
        repo.continue_merge()
    again = Repo.open(repo.path, settings=repo.settings)
    assert again.resolve_conflicts(choice="theirs") == 1
    assert again.continue_merge().kind == "merge"

    assert read(again) == {**BOTH, 1: ("theirs", 1)}
    assert_clean(again)


@pytest.mark.few(1)
@pytest.mark.parametrize("waits", [False, True])
def test_a_merge_is_given_up(repo: Repo, waits: bool) -> None:
    fork(repo, OURS, CLASH)
    head = repo.head().commit
    git(repo, "merge", "dev", stops=True)
    if waits:
        repo.continue_merge()

    repo.abort_merge()

    assert (repo.head().commit, repo.status().state) == (head, "clean")
    assert_clean(repo)
    with pytest.raises(StateError):
        repo.abort_merge()


@pytest.mark.thorough
def test_a_merge_that_git_gave_up_waits_no_more(repo: Repo) -> None:
    fork(repo, OURS, CLASH)
    git(repo, "merge", "dev", stops=True)
    repo.continue_merge()
    git(repo, "merge", "--abort", stops=False)
    git(repo, "sparse-checkout", "reapply", stops=False)

    with pytest.raises(StateError):
        repo.continue_merge()

    assert repo.merge("dev").kind == "conflicts"
    repo.abort_merge()
    assert_clean(repo)


def test_files_in_conflict_are_for_the_user(repo: Repo) -> None:
    notes = repo.path / "notes.txt"
    for branch, text in (("main", "base\n"), ("main", "ours\n"), ("dev", "theirs\n")):
        if text == "ours\n":
            repo.create_branch("dev")
        repo.switch(branch)
        notes.write_text(text)
        run_git("add", "notes.txt", cwd=repo.path)
        run_git("commit", "-qm", text, cwd=repo.path)
        write(repo, {"ours\n": OURS, "theirs\n": THEIRS}.get(text, FIRST))
    repo.switch("main")
    git(repo, "merge", "dev", stops=True)

    with pytest.raises(ConflictError, match=r"notes\.txt"):
        repo.continue_merge()
    notes.write_text("both\n")
    git(repo, "add", "notes.txt", stops=False)
    repo.continue_merge()

    assert read(repo) == BOTH
    assert notes.read_text() == "both\n"
    assert_clean(repo)


def by_somebody(repo: Repo) -> None:
    """Let the branch `dev` have a commit of another author."""
    run_git("switch", "-q", "dev", cwd=repo.path)
    run_git(
        "commit",
        "-q",
        "--amend",
        "--author=A Nother <a@nother.org>",
        "-m",
        "Their #1",
        cwd=repo.path,
    )
    run_git("switch", "-q", "main", cwd=repo.path)


def test_a_cherry_pick_is_concluded(repo: Repo) -> None:
    fork(repo, OURS, THEIRS)
    by_somebody(repo)
    head = repo.head().commit
    git(repo, "cherry-pick", "dev", stops=True)

    assert repo.continue_merge().kind == "cherry-pick"

    assert read(repo) == BOTH
    assert (log(repo, "%an|%s"), log(repo, "%P")) == ("A Nother|Their #1", head)
    assert_clean(repo)


@pytest.mark.thorough
def test_picks_of_several_commits_go_on(repo: Repo) -> None:
    fork(repo, OURS, THEIRS)
    repo.switch("dev")
    write(repo, {**THEIRS, 4: ("more", 4)}, message="More")
    write(repo, {**THEIRS, 4: ("most", 4)}, message="Most")
    repo.switch("main")
    git(repo, "cherry-pick", "main..dev", stops=True)

    repo.continue_merge()

    assert read(repo) == {**BOTH, 4: ("most", 4)}
    assert run_git("log", "--format=%s", "-4", cwd=repo.path).split() == [
        "Most",
        "More",
        "Theirs",
        "Ours",
    ]
    assert_clean(repo)


def test_a_pick_that_brings_nothing_is_skipped(repo: Repo) -> None:
    fork(repo, {**OURS, 3: ("theirs", 3)}, {**FIRST, 3: ("theirs", 3)})
    head = repo.head().commit
    git(repo, "cherry-pick", "dev", stops=True)

    repo.continue_merge()

    assert (repo.head().commit, repo.status().state) == (head, "clean")
    assert_clean(repo)


def test_a_revert_is_concluded(repo: Repo) -> None:
    undone = write(repo, OURS, message="Ours")
    write(repo, {**OURS, 1: ("ours", 50)}, message="Later")
    git(repo, "revert", "--no-edit", undone, stops=True)

    assert repo.continue_merge().kind == "revert"

    assert read(repo) == {**FIRST, 1: ("name 1", 50)}
    assert log(repo, "%s") == 'Revert "Ours"'
    assert_clean(repo)


def test_git_alone_reverts_rows_that_nobody_edited_since(repo: Repo) -> None:
    undone = write(repo, OURS, message="Ours")
    write(repo, {**OURS, 5: ("five", 50)}, message="Later")

    git(repo, "revert", "--no-edit", undone, stops=False)

    assert read(repo) == {**FIRST, 5: ("five", 50)}
    assert_clean(repo)


@pytest.mark.parametrize("backend", ["--merge", "--apply"])
def test_a_rebase_goes_on_to_its_end(repo: Repo, backend: str) -> None:
    fork(repo, OURS, THEIRS)
    repo.switch("dev")
    write(repo, {**THEIRS, 4: ("more", 4)}, message="More")
    onto = repo.resolve("main").commit
    git(repo, "rebase", backend, "main", stops=True)

    assert repo.continue_merge().kind == "rebase"

    assert read(repo) == {**BOTH, 4: ("more", 4)}
    assert read(repo, "HEAD^") == BOTH
    assert repo.resolve("HEAD~2").commit == onto
    assert (repo.head_branch, log(repo, "%s"), log(repo, "%s", "HEAD^")) == (
        "dev",
        "More",
        "Theirs",
    )
    assert_clean(repo)


@pytest.mark.thorough
def test_a_rebase_waits_at_each_conflict_and_can_be_given_up(repo: Repo) -> None:
    fork(repo, OURS, CLASH)
    repo.switch("dev")
    tip = write(repo, {**CLASH, 2: ("clash", 2)}, message="More")
    git(repo, "rebase", "main", stops=True)

    assert repo.continue_merge().kind == "conflicts"
    repo.resolve_conflicts(choice="theirs")
    second = repo.continue_merge()
    assert second.kind == "conflicts"
    repo.abort_merge()
    assert (repo.head().commit, repo.head_branch) == (tip, "dev")
    assert_clean(repo)

    git(repo, "rebase", "main", stops=True)
    repo.continue_merge()
    repo.resolve_conflicts(choice="theirs")
    repo.continue_merge()
    repo.resolve_conflicts(choice="theirs")
    assert repo.continue_merge().kind == "rebase"
    assert read(repo) == {**CLASH, 2: ("clash", 2)}
    assert_clean(repo)


@pytest.mark.thorough
def test_a_squash_is_concluded(repo: Repo) -> None:
    fork(repo, OURS, THEIRS)
    head = repo.head().commit
    git(repo, "merge", "--squash", "dev", stops=True)

    assert repo.continue_merge().kind == "squash"

    assert read(repo) == BOTH
    assert log(repo, "%P") == head
    assert "Theirs" in log(repo, "%B")
    assert_clean(repo)


def test_a_squash_that_brings_nothing_ends(repo: Repo) -> None:
    fork(repo, {**OURS, 3: ("theirs", 3)}, {**FIRST, 3: ("theirs", 3)})
    head = repo.head().commit
    git(repo, "merge", "--squash", "dev", stops=True)

    assert repo.continue_merge().kind == "empty"

    assert (repo.head().commit, repo.status().state) == (head, "clean")
    assert_clean(repo)


def test_a_squash_is_given_up(repo: Repo) -> None:
    fork(repo, OURS, THEIRS)
    git(repo, "merge", "--squash", "dev", stops=True)

    repo.abort_merge()

    assert read(repo) == OURS
    assert_clean(repo)
    with pytest.raises(StateError):
        repo.continue_merge()


@pytest.mark.few(1)
@pytest.mark.parametrize("rebase", ["--rebase", "--no-rebase"])
def test_a_pull_is_concluded(repo: Repo, tmp_path: Path, rebase: str) -> None:
    fork(repo, OURS, THEIRS)
    git(repo, "remote", "add", "origin", str(repo.path), stops=False)
    git(repo, "pull", rebase, "origin", "dev", stops=True)

    repo.continue_merge()

    assert read(repo) == BOTH
    assert_clean(repo)


def test_an_octopus_is_refused(repo: Repo) -> None:
    fork(repo, OURS, THEIRS)
    repo.create_branch("third", "dev")
    repo.switch("third")
    write(repo, {**THEIRS, 7: ("seven", 70)})
    repo.switch("main")
    git(repo, "merge", "dev", "third")
    git(repo, "reset", "-q", "--hard", stops=False)
    git(repo, "sparse-checkout", "reapply", stops=False)
    assert read(repo) == OURS
    assert_clean(repo)


@pytest.mark.parametrize("option", ["--no-commit", "--commit"])
@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.few(1)
def test_what_a_forced_side_leaves_is_recognised(tmp_path: Path, side: str, option: str) -> None:
    # So many that a small edit leaves the first file alone, and git finds nothing alike.
    many = {key: (hashlib.sha256(b"%d" % key).hexdigest(), key) for key in range(100, 12_000)}
    repo = make(tmp_path / "repo", {**FIRST, **many})
    repo.create_branch("dev")
    upsert(repo, {1: ("ours", 1), 2: ("ours", 2)})
    repo.switch("dev")
    # Another cell of a row that ours changed too.
    upsert(repo, {1: ("name 1", 100), 3: ("theirs", 3), 9: ("nine", 9)})
    repo.switch("main")
    git(repo, "merge", "--no-edit", option, "-X", side, "dev", stops=False)

    if option == "--no-commit":
        repo.continue_merge()
    else:
        with pytest.raises(UnfinishedMergeError) as caught:
            read(repo)
        assert any("havasu-vc repair" in hint for hint in caught.value.hints)
        repo.repair()

    changed = {1: ("ours", 100), 2: ("ours", 2), 3: ("theirs", 3), 9: ("nine", 9)}
    assert read(repo) == dict(sorted({**FIRST, **many, **changed}.items()))
    assert_clean(repo)


def move(repo: Repo, new: str = "places") -> None:
    """Commit with git that the dataset is elsewhere."""
    tree = run_git("rev-parse", "HEAD:points", cwd=repo.path)
    run_git("rm", "-rq", "--cached", "--sparse", "points", cwd=repo.path)
    run_git("read-tree", f"--prefix={new}/", tree, cwd=repo.path)
    run_git("commit", "-qm", "move", cwd=repo.path)
    run_git("sparse-checkout", "reapply", cwd=repo.path)


@pytest.mark.parametrize("way", ["merge", "cherry-pick", "rebase", "merge --squash"])
@pytest.mark.parametrize("mover", ["main", "dev"])
@pytest.mark.few(2)
def test_a_dataset_that_one_side_moved_takes_edits(repo: Repo, mover: str, way: str) -> None:
    fork(repo, FIRST, FIRST)
    for branch in ("main", "dev"):
        repo.switch(branch)
        if branch == mover:
            move(repo)
        else:
            write(repo, OURS)
    repo.switch("main")

    git(repo, *way.split(), "dev")
    if repo.status().state != "clean" or run_git("status", "--porcelain", cwd=repo.path):
        repo.continue_merge()
    if repo.status().problems:
        repo.repair()

    assert repo.datasets() == ("places",)
    assert read(repo, dataset="places") == OURS
    assert_clean(repo)


def test_a_pick_of_edits_after_a_move_is_merged_with_ours(repo: Repo) -> None:
    """git sees no conflict where markers of one row stand in two folders."""
    repo.create_branch("dev")
    write(repo, OURS)
    repo.switch("dev")
    move(repo)
    write(repo, THEIRS, dataset="places")
    repo.switch("main")
    git(repo, "cherry-pick", "main..dev", stops=False)
    assert repo.status().problems

    repo.repair()

    assert repo.datasets() == ("places",)
    assert read(repo, dataset="places") == BOTH
    assert_clean(repo)


def test_a_pick_of_edits_after_a_move_asks_about_cells(repo: Repo) -> None:
    repo.create_branch("dev")
    write(repo, OURS)
    repo.switch("dev")
    move(repo)
    write(repo, CLASH, dataset="places")
    repo.switch("main")
    # Whether git stops for a folder that was renamed depends on the names of deltas.
    git(repo, "-c", "merge.directoryRenames=false", "cherry-pick", "main..dev", stops=False)

    with pytest.raises(ConflictError, match="1 conflict") as caught:
        repo.repair()
    assert any("-X theirs" in hint for hint in caught.value.hints)
    repo.repair(policy=MergePolicy(side=Side.THEIRS))

    assert read(repo, dataset="places") == {**BOTH, 1: ("theirs", 1)}
    assert_clean(repo)


def test_a_forced_pick_of_a_row_that_both_changed_is_not_taken(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", FIRST)
    fork(repo, {**FIRST, 1: ("ours", 1)}, {9: ("nine", 9)})
    git(repo, "cherry-pick", "-X", "theirs", "main..dev", stops=False)

    with pytest.raises(UnfinishedMergeError):
        read(repo)
    result = repo.repair()
    picked = run_git("log", "--format=%h", "-2", "HEAD^", cwd=repo.path).split()
    for commit in picked:
        said = f"points: what {commit[:7]}"
        assert any(
            note.startswith(said) and "(Theirs) changed is not in it" in note
            for note in result.notes
        )
    assert read(repo) == {**FIRST, 1: ("ours", 1)}


def test_a_commit_of_ours_does_not_settle_a_merge_of_git(repo: Repo) -> None:
    fork(repo, OURS, THEIRS)
    git(repo, "merge", "dev", stops=True)

    with pytest.raises(StateError, match="merge"):
        repo.write("points", repo.table("points").to_arrow().slice(0, 1), mode="delete")
    repo.continue_merge()

    assert read(repo) == BOTH
    assert_clean(repo)


def test_a_fold_that_was_resolved_in_the_wrong_folder_loses_no_row(repo: Repo) -> None:
    """The pick of edits comes to the table that was moved; a fold of them, by hand, is let go."""
    repo.create_branch("dev")
    move(repo)
    repo.switch("dev")
    write(repo, OURS)
    repo.optimize()
    repo.switch("main")
    git(repo, "cherry-pick", "main..dev", stops=True)
    by_hand(repo, "theirs")
    git(repo, "cherry-pick", "--continue", stops=False)
    assert repo.status().problems

    result = repo.repair()

    notes = result.notes
    assert any("changed is not in it" in note for note in notes), notes
    assert any("is brought to places" in note for note in notes), notes
    assert result.changes == {"places": ChangeCounts(updates=2)}
    assert repo.datasets() == ("places",)
    assert read(repo, dataset="places") == OURS
    assert_clean(repo)


# Whatever git is made to do

cells = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))
tables = st.dictionaries(st.integers(1, 6), cells, max_size=6)
steps = st.lists(
    st.one_of(tables, st.sampled_from(["optimize", "column", "title", "move"])),
    min_size=1,
    max_size=3,
)
WAYS = {
    "merge": ("merge", "--no-edit"),
    "squash": ("merge", "--squash"),
    "cherry-pick": ("cherry-pick", "main..dev"),
    "rebase": ("rebase",),
}


def do(repo: Repo, what: list[Rows | str], mark: int) -> dict[int, Any]:
    """Make the edits of one side; return its rows."""
    for step in what:
        (dataset,) = repo.datasets()
        if step == "optimize":
            with suppress(NoChangesError):
                repo.optimize()
        elif step == "column":
            # Ids are drawn anew on each side: two columns that cannot be one.
            with suppress(HavasuError):
                add_column(repo, f"more{mark}", dataset=dataset)
        elif step == "title":
            with suppress(NoChangesError):
                repo.set_meta(dataset, {"title": f"Title {mark}"})
        elif step == "move":
            if dataset == "points":
                move(repo)
        elif not isinstance(step, str):
            # Said by side: two equal commits of one second are one, and then the merge base.
            rows = {**step, 0: ("zero", 0), mark: ("mark", mark)}
            write(repo, rows, dataset=dataset, message=f"Write {mark}")
    return cells_of(repo)


def cells_of(repo: Repo) -> dict[int, Any]:
    """Return the rows of the only dataset, without columns that came later."""
    (dataset,) = repo.datasets()
    return {key: row[:2] for key, row in read(repo, dataset=dataset).items()}


def last_sound_cells(repo: Repo) -> dict[int, Any]:
    """Return the rows of the last commit before HEAD in which the only dataset is sound."""
    for commit in run_git("rev-list", "--first-parent", "HEAD^", cwd=repo.path).split():
        with suppress(HavasuError):
            datasets = repo.datasets(commit)
            if len(datasets) == 1:
                rows = read(repo, commit, dataset=datasets[0])
                return {key: row[:2] for key, row in rows.items()}
    raise AssertionError("no commit is sound")


def rows_ever(repo: Repo) -> set[tuple[int, Any]]:
    """Return each row that any commit of any branch has, in a dataset that is sound there."""
    found: set[tuple[int, Any]] = set()
    for commit in run_git("rev-list", "--all", cwd=repo.path).split():
        for dataset in repo.datasets(commit):
            with suppress(HavasuError):
                rows = read(repo, commit, dataset=dataset)
                found.update((key, row[:2]) for key, row in rows.items())
    return found


def columns_of(repo: Repo) -> set[str]:
    (dataset,) = repo.datasets()
    return set(repo.dataset(dataset).schema.names)


def by_hand(repo: Repo, side: str) -> None:
    """Resolve what is in conflict with one side's files, as somebody might who does not know."""
    for path in run_git("diff", "--name-only", "--diff-filter=U", cwd=repo.path).splitlines():
        stage = {"ours": 2, "theirs": 3}[side]
        command = ["git", "cat-file", "blob", f":{stage}:{path}"]
        found = subprocess.run(command, cwd=repo.path, capture_output=True, check=False)
        if found.returncode:
            run_git("rm", "-q", "--cached", "--sparse", path, cwd=repo.path)
            (repo.path / path).unlink(missing_ok=True)
            continue
        place = repo.path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(found.stdout)
        run_git("add", "--sparse", path, cwd=repo.path)


def settle(repo: Repo) -> None:
    """Go on with all that waits, deleting rows in conflict."""
    for _ in range(20):
        result = repo.continue_merge()
        if result.kind != "conflicts":
            return
        for each in result.conflicts:
            for name in each.items:
                repo.resolve_conflicts([f"{each.path}:meta:{name}"], choice="ours")
            if each.rows is not None:
                repo.resolve_conflicts([f"{each.path}:feature"], choice="delete")
    raise AssertionError("it never ends")


@pytest.mark.thorough
@examples(8)
@given(
    base=tables,
    ours=steps,
    theirs=steps,
    way=st.sampled_from(sorted(WAYS)),
    force=st.sampled_from(["", "ours", "theirs"]),
    hand=st.sampled_from(["", "ours", "theirs"]),
)
def test_rows_are_merged_or_it_is_said(
    base: Rows,
    ours: list[Rows | str],
    theirs: list[Rows | str],
    way: str,
    force: str,
    hand: str,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = make(Path(folder) / "repo", {**base, 0: ("zero", 0)})
        before = cells_of(repo)
        repo.create_branch("dev")
        mine, columns = do(repo, ours, 100), columns_of(repo)
        repo.switch("dev")
        other = do(repo, theirs, 200)
        columns |= columns_of(repo)
        if way == "rebase":
            mine, other = other, mine
        else:
            repo.switch("main")
        expected, clashes = merged_rows(before, mine, other)
        if repo.resolve("main").commit == repo.resolve("dev").commit:
            return
        options = ["-X", force] if force else []
        target = [] if way == "cherry-pick" else ["main" if way == "rebase" else "dev"]

        code = git(repo, *WAYS[way], *options, *target)
        if code and hand:
            by_hand(repo, hand)
            if way in ("merge", "squash"):
                git(repo, "commit", "-q", "--no-edit")
            else:
                git(repo, way, "--continue")
        stopped = repo.status().state != "clean" or run_git("status", "--porcelain", cwd=repo.path)
        if stopped:
            try:
                settle(repo)
            except UnfinishedMergeError:
                repo.abort_merge()
                assert_clean(repo)
                return
        try:
            broken = list(repo.datasets())
            for each in broken:
                repo.dataset(each)
            rows = cells_of(repo)
        except UnfinishedMergeError as error:
            assert error.hints
            try:
                repaired = repo.repair()
            except HavasuError as refused:
                assert refused.hints
                return
            rows = cells_of(repo)
            if any("is not in it" in note for note in repaired.notes):
                # Where one parent is all that tells, its version is taken, and that is said.
                sound = last_sound_cells(repo)
                if any("is brought to" in note for note in repaired.notes):
                    # With what was edited in the folder that was moved.
                    assert set(rows.items()) <= rows_ever(repo)
                    assert {100, 200} & set(sound) <= set(rows)
                else:
                    assert rows == sound
                assert_clean(repo)
                return
        # Steps of a rebase clash also where their sum does not.
        if way in ("merge", "squash") or (not clashes and len(theirs) == 1 == len(ours)):
            assert {k: v for k, v in rows.items() if k not in clashes} == expected
            # Who takes the side that has no such file takes the column out.
            assert columns_of(repo) == columns or (code and hand and columns_of(repo) < columns)
        assert_clean(repo)
