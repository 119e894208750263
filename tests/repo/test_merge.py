"""Merging branches: what becomes of rows, columns, meta items, datasets and the user's files."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import Repo, Settings
from havasu_vc.errors import ConflictError, HavasuError, InvalidArgumentError, StateError
from havasu_vc.history.conflicts import MergePolicy, Side
from tests.repo.points import Rows, add, add_column, assert_clean, make, merged_rows, read, write
from tests.support.examples import examples
from tests.support.git import run_git
from tests.support.sound import frozen
from tests.support.templates import empty_repo

FIRST: Rows = {key: (f"name {key}", key) for key in range(1, 9)}

cells = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))
tables = st.dictionaries(st.integers(1, 6), cells, max_size=6)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make(tmp_path / "repo", FIRST)


def fork(repo: Repo, ours: Callable[[], object], theirs: Callable[[], object]) -> None:
    """Do one thing on main and another on the branch `dev`."""
    repo.create_branch("dev")
    ours()
    repo.switch("dev")
    theirs()
    repo.switch("main")
    assert_clean(repo)


def in_turn(*actions: Callable[[], object]) -> Callable[[], None]:
    def run() -> None:
        for action in actions:
            action()

    return run


def columns(repo: Repo, *, dataset: str = "points") -> list[str]:
    return list(repo.dataset(dataset).schema.names)


def parents(repo: Repo, revision: str = "HEAD") -> list[str]:
    return run_git("rev-list", "--parents", "-n1", revision, cwd=repo.path).split()[1:]


def alter(repo: Repo, change: Callable[[list[dict[str, object]]], object]) -> None:
    """Commit another list of columns."""
    now = repo.get_meta("points", ["schema.json"])["schema.json"]
    change(now)
    repo.set_meta("points", {"schema.json": now})


def commit_file(repo: Repo, name: str, text: str) -> None:
    (repo.path / name).parent.mkdir(parents=True, exist_ok=True)
    (repo.path / name).write_text(text)
    run_git("add", name, cwd=repo.path)
    run_git("commit", "-qm", name, cwd=repo.path)


# Rows. Edits of both sides that could be alike have messages of their own: two commits of
# one second with the same content are one commit, and then the merge base.


def test_cells_of_one_row_merge(repo: Repo) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 1), 9: ("nine", 9)}),
        lambda: write(repo, {**{k: v for k, v in FIRST.items() if k != 4}, 1: ("name 1", 77)}),
    )
    ours, theirs = repo.resolve("main").commit, repo.resolve("dev").commit

    result = repo.merge("dev")

    assert result.kind == "merge"
    assert (result.changes["points"].updates, result.changes["points"].deletes) == (1, 1)
    expected = {**FIRST, 1: ("ours", 77), 9: ("nine", 9)}
    del expected[4]
    assert read(repo) == expected
    assert parents(repo) == [ours, theirs]
    assert repo.commit_info().message.strip() == 'Merge branch "dev" into main'
    assert_clean(repo)


@examples(6)
@given(base=tables, ours=tables, theirs=tables)
def test_rows_merge_as_cells_of_a_dict_do(base: Rows, ours: Rows, theirs: Rows) -> None:
    mark = ("zero", 0)
    with tempfile.TemporaryDirectory() as folder:
        repo = make(Path(folder) / "repo", {**base, 0: mark})
        fork(
            repo,
            lambda: write(repo, {**ours, 0: mark, 100: ("ours", 1)}, message="Ours"),
            lambda: write(repo, {**theirs, 0: mark, 200: ("theirs", 2)}, message="Theirs"),
        )
        expected, clashes = merged_rows(base, ours, theirs)

        result = repo.merge("dev")

        if clashes:
            assert result.kind == "conflicts"
            (found,) = result.conflicts
            assert found.total == len(clashes)
            repo.resolve_conflicts(choice="delete")
            result = repo.continue_merge()
        assert result.kind == "merge"
        assert read(repo) == {0: mark, **expected, 100: ("ours", 1), 200: ("theirs", 2)}
        assert_clean(repo)


@pytest.mark.thorough
@examples(4)
@given(base=tables, ours=tables, theirs=tables, policy=st.sampled_from(Side))
def test_a_policy_decides_and_both_directions_agree(
    base: Rows, ours: Rows, theirs: Rows, policy: Side
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        repo = make(Path(folder) / "repo", {**base, 0: ("zero", 0)})
        fork(
            repo,
            lambda: write(repo, {**ours, 0: ("zero", 1)}, message="Ours"),
            lambda: write(repo, {**theirs, 0: ("two", 0)}, message="Theirs"),
        )
        other = Side.OURS if policy is Side.THEIRS else Side.THEIRS
        start = repo.resolve("main").commit

        repo.merge("dev", policy=MergePolicy(side=policy))
        forth = read(repo)
        repo.switch("dev")
        repo.merge(str(start), policy=MergePolicy(side=other))

        assert forth == read(repo)
        assert forth[0] == ("two", 1)
        assert_clean(repo)


def test_columns_have_policies_and_nulls_yield(repo: Repo) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 10), 2: (None, 20), 3: ("ours", 3)}),
        lambda: write(repo, {**FIRST, 1: ("theirs", 11), 2: ("theirs", 2), 3: (None, 30)}),
    )
    policy = MergePolicy(columns={"height": Side.THEIRS}, fill_nulls=True)

    result = repo.merge("dev", policy=policy)

    assert result.kind == "conflicts"
    (found,) = result.conflicts
    assert found.rows is not None
    assert found.rows.column("columns").to_pylist() == [["name"]]
    repo.resolve_conflicts(choice="ours")
    repo.continue_merge()
    rows = read(repo)
    assert rows[2] == ("theirs", 20)
    assert rows[3] == ("ours", 30)
    assert rows[1][0] == "ours"
    assert_clean(repo)


def test_a_table_without_a_key_merges_counts(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
    file = tmp_path / "bag.parquet"

    def bag(words: str) -> None:
        pq.write_table(pa.table({"word": words.split()}), file)
        repo.import_(file, "bag", replace="bag" in repo.datasets())

    def count() -> list[str]:
        return sorted(repo.table("bag").to_arrow().column("word").to_pylist())

    bag("a a b c")
    fork(repo, lambda: bag("a a a b c"), lambda: bag("a a c d d"))

    assert repo.merge("dev").kind == "merge"
    assert count() == ["a", "a", "a", "c", "d", "d"]
    assert_clean(repo)

    repo.delete_branch("dev", force=True)
    fork(repo, lambda: bag("a c d d"), lambda: bag("a a a a c d d"))
    result = repo.merge("dev")
    assert result.kind == "conflicts"
    assert result.conflicts[0].total == 1
    assert_clean(repo)


# Columns and meta items


def test_columns_of_both_sides_merge(repo: Repo) -> None:
    def ours() -> None:
        add_column(repo, "owner")
        repo.write("points", pa.table({"id": [1], "owner": ["me"]}))

    def theirs() -> None:
        add_column(repo, "colour")
        repo.write("points", pa.table({"id": [1, 2], "colour": ["red", "blue"]}))

    fork(repo, ours, theirs)
    assert repo.merge("dev").kind == "merge"

    assert set(columns(repo)) == {"id", "name", "height", "owner", "colour"}
    rows = {row["id"]: row for row in repo.table("points").to_arrow().to_pylist()}
    assert (rows[1]["owner"], rows[1]["colour"], rows[2]["colour"]) == ("me", "red", "blue")
    assert_clean(repo)


def test_a_renamed_column_takes_edits(repo: Repo) -> None:
    def rename(now: list[dict[str, object]]) -> None:
        now[1]["name"] = "label"

    fork(
        repo,
        lambda: alter(repo, rename),
        lambda: write(repo, {**FIRST, 3: ("edited", 3), 9: ("nine", 9)}),
    )
    assert repo.merge("dev").kind == "merge"

    assert columns(repo) == ["id", "label", "height"]
    assert read(repo) == {**FIRST, 3: ("edited", 3), 9: ("nine", 9)}
    assert_clean(repo)


def test_a_rename_on_their_side_takes_our_edits(repo: Repo) -> None:
    def rename(now: list[dict[str, object]]) -> None:
        now[1]["name"] = "label"

    fork(
        repo,
        lambda: write(repo, {**FIRST, 3: ("edited", 3), 9: ("nine", 9)}),
        lambda: alter(repo, rename),
    )
    assert repo.merge("dev").kind == "merge"

    assert columns(repo) == ["id", "label", "height"]
    assert read(repo) == {**FIRST, 3: ("edited", 3), 9: ("nine", 9)}
    assert_clean(repo)


def test_a_widened_column_takes_edits(repo: Repo) -> None:
    def widen(now: list[dict[str, object]]) -> None:
        now[2]["size"] = 64

    def theirs() -> None:
        alter(repo, widen)
        repo.write("points", pa.table({"id": [2], "height": pa.array([1 << 40])}))

    fork(repo, lambda: write(repo, {**FIRST, 1: ("name 1", 100)}), theirs)
    assert repo.merge("dev").kind == "merge"

    assert read(repo) == {**FIRST, 1: ("name 1", 100), 2: ("name 2", 1 << 40)}
    assert_clean(repo)


def test_a_dropped_column_stays_dropped(repo: Repo) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 1)}),
        lambda: alter(repo, lambda now: now.pop()),
    )
    assert repo.merge("dev").kind == "merge"

    assert read(repo) == {k: (v[0],) for k, v in {**FIRST, 1: ("ours", 1)}.items()}
    assert_clean(repo)


@pytest.mark.few(1)
@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_schemas_in_conflict_wait(repo: Repo, side: str) -> None:
    def rename(name: str) -> Callable[[list[dict[str, object]]], None]:
        def change(now: list[dict[str, object]]) -> None:
            now[1]["name"] = name

        return change

    fork(repo, lambda: alter(repo, rename("label")), lambda: alter(repo, rename("title")))
    result = repo.merge("dev")

    assert result.kind == "conflicts"
    assert dict(result.conflicts[0].items) == {"schema.json": None}
    assert_clean(repo)
    repo.resolve_conflicts(choice=side)
    repo.continue_merge()
    assert columns(repo)[1] == {"ours": "label", "theirs": "title"}[side]
    assert read(repo) == FIRST
    assert_clean(repo)


def test_meta_items_merge_one_by_one(repo: Repo) -> None:
    fork(
        repo,
        lambda: repo.set_meta("points", {"title": "Ours"}),
        lambda: repo.set_meta("points", {"description": "Theirs"}),
    )
    assert repo.merge("dev").kind == "merge"
    assert repo.get_meta("points", ["title", "description"]) == {
        "title": "Ours",
        "description": "Theirs",
    }
    assert_clean(repo)


def test_meta_items_in_conflict_wait(repo: Repo) -> None:
    fork(
        repo,
        lambda: repo.set_meta("points", {"title": "Ours"}),
        lambda: repo.set_meta("points", {"title": "Theirs"}),
    )
    result = repo.merge("dev")

    assert dict(result.conflicts[0].items) == {"title": None}
    assert repo.resolve_conflicts(["points:meta:title"], choice="theirs") == 1
    repo.continue_merge()
    assert repo.get_meta("points", ["title"]) == {"title": "Theirs"}
    assert_clean(repo)


# Datasets as wholes


def remove(repo: Repo, dataset: str) -> None:
    """Commit with git that a dataset goes."""
    run_git("rm", "-rq", "--cached", "--sparse", dataset, cwd=repo.path)
    run_git("commit", "-qm", "remove", cwd=repo.path)


def test_datasets_come_and_go_with_a_side(repo: Repo, tmp_path: Path) -> None:
    add(repo, tmp_path, {1: ("one", 1)}, "lines")
    add(repo, tmp_path, {1: ("one", 1)}, "old")
    fork(
        repo,
        in_turn(
            lambda: add(repo, tmp_path, {2: ("two", 2)}, "mine"),
            lambda: remove(repo, "old"),
        ),
        in_turn(
            lambda: add(repo, tmp_path, {3: ("three", 3)}, "theirs"),
            lambda: remove(repo, "lines"),
        ),
    )
    assert repo.merge("dev").kind == "merge"

    assert repo.datasets() == ("mine", "points", "theirs")
    assert read(repo, dataset="theirs") == {3: ("three", 3)}
    assert_clean(repo)


@pytest.mark.few(1)
@pytest.mark.parametrize("side", ["ours", "theirs"])
@pytest.mark.parametrize("remover", ["ours", "theirs"])
def test_a_removed_dataset_that_was_edited_waits(repo: Repo, side: str, remover: str) -> None:
    def edit() -> None:
        write(repo, {**FIRST, 1: ("edited", 1)})

    def gone() -> None:
        remove(repo, "points")

    fork(repo, *((gone, edit) if remover == "ours" else (edit, gone)))
    result = repo.merge("dev")

    assert result.kind == "conflicts"
    assert dict(result.conflicts[0].items) == {"dataset": None}
    repo.resolve_conflicts(choice=side)
    repo.continue_merge()
    assert repo.datasets() == (() if side == remover else ("points",))
    assert_clean(repo)


def test_a_dataset_that_both_added_waits(repo: Repo, tmp_path: Path) -> None:
    fork(
        repo,
        lambda: add(repo, tmp_path, {1: ("ours", 1)}, "new"),
        lambda: add(repo, tmp_path, {1: ("theirs", 1)}, "new"),
    )
    result = repo.merge("dev")

    assert result.kind == "conflicts"
    assert [each.path for each in result.conflicts] == ["new"]
    repo.resolve_conflicts(["new"], choice="theirs")
    repo.continue_merge()
    assert read(repo, dataset="new") == {1: ("theirs", 1)}
    assert_clean(repo)


# The user's files


def test_files_of_the_user_merge_by_lines(repo: Repo) -> None:
    commit_file(repo, "notes.txt", "one\ntwo\nthree\n")
    fork(
        repo,
        in_turn(
            lambda: commit_file(repo, "notes.txt", "ONE\ntwo\nthree\n"),
            lambda: write(repo, {**FIRST, 1: ("ours", 1)}),
        ),
        in_turn(
            lambda: commit_file(repo, "notes.txt", "one\ntwo\nTHREE\n"),
            lambda: commit_file(repo, "docs/new.md", "new\n"),
            lambda: write(repo, {**FIRST, 2: ("theirs", 2)}),
        ),
    )
    (repo.path / "untracked.txt").write_text("mine\n")

    assert repo.merge("dev").kind == "merge"

    assert (repo.path / "notes.txt").read_text() == "ONE\ntwo\nTHREE\n"
    assert (repo.path / "docs" / "new.md").read_text() == "new\n"
    (repo.path / "untracked.txt").unlink()
    assert_clean(repo)


def test_files_that_clash_stop_the_merge(repo: Repo) -> None:
    commit_file(repo, "notes.txt", "one\n")
    fork(
        repo,
        lambda: commit_file(repo, "notes.txt", "ours\n"),
        lambda: commit_file(repo, "notes.txt", "theirs\n"),
    )
    with frozen(repo), pytest.raises(ConflictError, match=r"notes\.txt"):
        repo.merge("dev")
    assert_clean(repo)


# Kinds of merges


def both_edited(repo: Repo) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 1)}),
        lambda: write(repo, {**FIRST, 2: ("theirs", 2)}),
    )


def test_fast_forward(repo: Repo) -> None:
    fork(repo, lambda: None, lambda: write(repo, {**FIRST, 2: ("theirs", 2)}))
    tip = repo.resolve("dev").commit

    with frozen(repo):
        assert repo.merge("dev", dry_run=True).kind == "fast-forward"
    assert repo.merge("dev", fast_forward="only").kind == "fast-forward"

    assert repo.head().commit == tip
    assert repo.merge("dev").kind == "up-to-date"
    assert_clean(repo)


def test_no_fast_forward_makes_a_commit(repo: Repo) -> None:
    fork(repo, lambda: None, lambda: write(repo, {**FIRST, 2: ("theirs", 2)}))

    assert repo.merge("dev", fast_forward="never", message="Join").kind == "merge"

    assert len(parents(repo)) == 2
    assert repo.commit_info().message.strip() == "Join"
    assert read(repo)[2] == ("theirs", 2)
    assert_clean(repo)


def test_a_squash_has_one_parent(repo: Repo) -> None:
    both_edited(repo)
    before = repo.head().commit

    assert repo.merge("dev", squash=True).kind == "squash"

    assert parents(repo) == [before]
    assert read(repo) == {**FIRST, 1: ("ours", 1), 2: ("theirs", 2)}
    assert_clean(repo)


def test_what_cannot_be_merged_is_refused_and_nothing_changes(repo: Repo) -> None:
    both_edited(repo)
    run_git("checkout", "-q", "--orphan", "apart", cwd=repo.path)
    run_git("commit", "-qm", "apart", cwd=repo.path)
    run_git("switch", "-q", "main", cwd=repo.path)

    with frozen(repo):
        with pytest.raises(StateError, match="fast-forward"):
            repo.merge("dev", fast_forward="only")
        with pytest.raises(StateError, match="in common"):
            repo.merge("apart")
        with pytest.raises(InvalidArgumentError):
            repo.merge("dev", fast_forward="sometimes")
        for revision in ("nothing", "[EMPTY]"):
            with pytest.raises(HavasuError):
                repo.merge(revision)
        with pytest.raises(StateError):
            repo.continue_merge()
        with pytest.raises(StateError):
            repo.abort_merge()
        with pytest.raises(StateError):
            list(repo.conflicts())


@pytest.mark.parametrize("clash", [False, True])
def test_a_dry_run_changes_nothing(repo: Repo, clash: bool) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 1)}),
        lambda: write(repo, {**FIRST, 1 if clash else 2: ("theirs", 2)}),
    )
    with frozen(repo):
        result = repo.merge("dev", dry_run=True)

    assert result.kind == ("conflicts" if clash else "merge")
    assert result.commit is None
    assert_clean(repo)


MOVES: dict[str, Callable[[Repo], object]] = {
    "write": lambda repo: repo.write("points", pa.table({"id": [7], "name": ["new"]})),
    "import": lambda repo: repo.import_("none.parquet"),
    "apply": lambda repo: repo.apply_patch(b"{}"),
    "commit": lambda repo: repo.commit_from("none.gpkg"),
    "meta": lambda repo: repo.set_meta("points", {"title": "t"}),
    "optimize": lambda repo: repo.optimize(),
    "repair": lambda repo: repo.repair(),
    "switch": lambda repo: repo.switch("dev"),
    "new branch": lambda repo: repo.switch("more", create=True),
    "merge": lambda repo: repo.merge("dev"),
    "revert": lambda repo: repo.revert("HEAD"),
    "cherry-pick": lambda repo: repo.cherry_pick("dev"),
    "restore": lambda repo: repo.restore(source="HEAD^"),
    "soft reset": lambda repo: repo.reset("HEAD^", mode="soft"),
}


@pytest.mark.parametrize("what", MOVES)
@pytest.mark.few(1)
def test_nothing_else_moves_head_while_a_merge_waits(repo: Repo, what: str) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 1)}),
        lambda: write(repo, {**FIRST, 1: ("theirs", 1)}),
    )
    repo.merge("dev")

    with frozen(repo), pytest.raises(StateError, match="a merge waits") as caught:
        MOVES[what](repo)

    assert any("--abort" in hint for hint in caught.value.hints)
    repo.resolve_conflicts(choice="theirs")
    repo.continue_merge()
    assert_clean(repo)


def test_conflicts_wait_and_can_be_dropped(repo: Repo) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 1), 2: ("ours", 2)}),
        lambda: write(repo, {**FIRST, 1: ("theirs", 1), 2: ("theirs", 2)}),
    )
    head = repo.head().commit
    repo.merge("dev")

    again = Repo.open(repo.path, settings=repo.settings)
    assert again.status().state == "merge"
    with pytest.raises(StateError, match="waits"):
        again.merge("dev")
    again.resolve_conflicts(["points:feature:1"], choice="theirs")
    with pytest.raises(ConflictError, match="1 conflicts"):
        again.continue_merge()
    again.abort_merge()

    assert again.status().state == "clean"
    assert again.head().commit == head
    assert_clean(again)
    with pytest.raises(StateError):
        again.abort_merge()


def test_a_state_that_is_damaged_can_be_dropped(repo: Repo) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 1)}),
        lambda: write(repo, {**FIRST, 1: ("theirs", 1)}),
    )
    repo.merge("dev")
    (repo.git.git_directory / "havasu" / "merge" / "state.json").write_text("{")

    with pytest.raises(HavasuError, match="state of the merge"):
        repo.continue_merge()
    repo.abort_merge()

    assert repo.status().state == "clean"
    assert_clean(repo)


def test_head_that_moved_is_noticed(repo: Repo) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 1)}),
        lambda: write(repo, {**FIRST, 1: ("theirs", 1)}),
    )
    repo.merge("dev")
    repo.resolve_conflicts(choice="theirs")
    run_git("commit", "--quiet", "--allow-empty", "-m", "later", cwd=repo.path)

    with frozen(repo), pytest.raises(StateError, match="moved"):
        repo.continue_merge()
    repo.abort_merge()
    assert_clean(repo)


def test_merging_merges(repo: Repo) -> None:
    both_edited(repo)
    repo.create_branch("old")
    repo.merge("dev")
    write(repo, {**read(repo), 3: ("ours", 3)})
    repo.switch("dev")
    repo.merge("main~1")
    write(repo, {**read(repo), 4: ("theirs", 4)})
    repo.switch("main")

    assert repo.merge("dev").kind == "merge"

    changed = {1: ("ours", 1), 2: ("theirs", 2), 3: ("ours", 3), 4: ("theirs", 4)}
    assert read(repo) == {**FIRST, **changed}
    assert_clean(repo)


def cross(repo: Repo) -> None:
    """Merge main and dev into each other, so that they have two merge bases."""
    first = repo.resolve("main").commit
    for branch, other in (("main", "dev"), ("dev", str(first))):
        repo.switch(branch)
        if repo.merge(other).kind == "conflicts":
            repo.resolve_conflicts(choice="ours")
            repo.continue_merge()
    repo.switch("main")
    assert len(run_git("merge-base", "--all", "main", "dev", cwd=repo.path).split()) == 2


@pytest.mark.thorough
def test_branches_merged_crosswise_merge(repo: Repo) -> None:
    commit_file(repo, "notes.txt", "one\ntwo\nthree\nfour\nfive\n")
    fork(
        repo,
        in_turn(
            lambda: write(repo, {**FIRST, 1: ("ours", 1)}),
            lambda: commit_file(repo, "notes.txt", "ONE\ntwo\nthree\nfour\nfive\n"),
        ),
        in_turn(
            lambda: write(repo, {**FIRST, 1: ("name 1", 10), 2: ("theirs", 2)}),
            lambda: commit_file(repo, "notes.txt", "one\ntwo\nthree\nfour\nFIVE\n"),
        ),
    )
    cross(repo)
    write(repo, {**read(repo), 1: ("again", 10), 3: ("ours", 3)})
    repo.switch("dev")
    write(repo, {**read(repo), 1: ("ours", 11), 4: ("theirs", 4)})
    commit_file(repo, "notes.txt", "ONE\ntwo\nTHREE\nfour\nFIVE\n")
    repo.switch("main")

    with frozen(repo):
        assert repo.merge("dev", dry_run=True).kind == "merge"
    assert repo.merge("dev").kind == "merge"

    changed = {1: ("again", 11), 2: ("theirs", 2), 3: ("ours", 3), 4: ("theirs", 4)}
    assert read(repo) == {**FIRST, **changed}
    assert (repo.path / "notes.txt").read_text() == "ONE\ntwo\nTHREE\nfour\nFIVE\n"
    assert_clean(repo)


@pytest.mark.thorough
def test_what_both_settled_differently_is_in_conflict_again(repo: Repo) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 10), 2: ("ours", 2), 9: ("ours", 9)}),
        lambda: write(repo, {**FIRST, 1: ("theirs", 10), 2: ("theirs", 2), 9: ("theirs", 9)}),
    )
    cross(repo)
    assert read(repo, "main")[1] == ("ours", 10)
    assert read(repo, "dev")[1] == ("theirs", 10)

    result = repo.merge("dev")

    assert result.kind == "conflicts"
    rows = result.conflicts[0].rows
    assert rows is not None
    assert rows.column("columns").to_pylist() == [["name"], ["name"], ["name"]]
    repo.resolve_conflicts(choice="theirs")
    repo.continue_merge()
    changed = {1: ("theirs", 10), 2: ("theirs", 2), 9: ("theirs", 9)}
    assert read(repo) == {**FIRST, **changed}
    assert_clean(repo)


@pytest.mark.thorough
@examples(4)
@given(base=tables, ours=tables, theirs=tables, later=tables)
def test_a_crossing_without_conflicts_changes_no_merge(
    base: Rows, ours: Rows, theirs: Rows, later: Rows
) -> None:
    mark = ("zero", 0)
    with tempfile.TemporaryDirectory() as folder:
        repo = make(Path(folder) / "repo", {**base, 0: mark})
        apart = {key + 10: row for key, row in theirs.items()}
        fork(
            repo,
            lambda: write(repo, {**ours, 0: mark, 100: mark}, message="Ours"),
            lambda: write(repo, {**base, **apart, 0: mark, 200: mark}, message="Theirs"),
        )
        cross(repo)
        both = read(repo)
        assert both == dict(sorted({**ours, **apart, 0: mark, 100: mark, 200: mark}.items()))
        write(repo, {**both, 300: mark})
        repo.switch("dev")
        write(repo, {**later, 0: mark, 400: mark})
        repo.switch("main")

        assert repo.merge("dev").kind == "merge"

        assert read(repo) == {**dict(sorted(later.items())), 0: mark, 300: mark, 400: mark}
        assert_clean(repo)


# Moved datasets


def move(repo: Repo, old: str, new: str) -> None:
    """Commit with git that a dataset is elsewhere."""
    tree = run_git("rev-parse", f"HEAD:{old}", cwd=repo.path)
    run_git("rm", "-rq", "--cached", "--sparse", old, cwd=repo.path)
    run_git("read-tree", f"--prefix={new}/", tree, cwd=repo.path)
    run_git("commit", "-qm", f"move {old}", cwd=repo.path)
    run_git("sparse-checkout", "reapply", cwd=repo.path)


@pytest.mark.parametrize("mover", ["ours", "theirs"])
def test_a_moved_dataset_takes_edits(repo: Repo, mover: str) -> None:
    def edit() -> None:
        write(repo, {**FIRST, 1: ("edited", 1)})

    def moved() -> None:
        move(repo, "points", "more/places")

    fork(repo, *((moved, edit) if mover == "ours" else (edit, moved)))
    assert repo.merge("dev").kind == "merge"

    assert repo.datasets() == ("more/places",)
    assert read(repo, dataset="more/places") == {**FIRST, 1: ("edited", 1)}
    assert_clean(repo)


def test_a_dataset_moved_and_edited_merges_with_edits(repo: Repo) -> None:
    fork(
        repo,
        in_turn(
            lambda: move(repo, "points", "places"),
            lambda: write(repo, {**FIRST, 1: ("ours", 1)}, dataset="places"),
        ),
        lambda: write(repo, {**FIRST, 1: ("name 1", 10), 2: ("theirs", 2)}),
    )
    assert repo.merge("dev").kind == "merge"

    assert repo.datasets() == ("places",)
    expected = {**FIRST, 1: ("ours", 10), 2: ("theirs", 2)}
    assert read(repo, dataset="places") == expected
    assert_clean(repo)


def test_a_dataset_moved_to_two_places_is_refused(repo: Repo) -> None:
    fork(
        repo,
        lambda: move(repo, "points", "here"),
        lambda: move(repo, "points", "there"),
    )
    with frozen(repo), pytest.raises(ConflictError, match="here on one side and to there"):
        repo.merge("dev")


# Where


def test_a_bare_repository_is_enough(tmp_path: Path) -> None:
    repo = make(tmp_path / "bare.git", FIRST, bare=True)
    both_edited(repo)

    assert repo.merge("dev").kind == "merge"

    assert read(repo) == {**FIRST, 1: ("ours", 1), 2: ("theirs", 2)}
    assert_clean(repo)


def test_a_linked_work_tree_has_a_merge_of_its_own(repo: Repo, tmp_path: Path) -> None:
    fork(
        repo,
        lambda: write(repo, {**FIRST, 1: ("ours", 1)}),
        lambda: write(repo, {**FIRST, 1: ("theirs", 1)}),
    )
    place = tmp_path / "linked"
    run_git("worktree", "add", "-q", place, "dev", cwd=repo.path)
    linked = Repo.open(place, settings=repo.settings)

    assert linked.merge("main").kind == "conflicts"
    assert repo.status().state == "clean"
    linked.resolve_conflicts(choice="theirs")
    linked.continue_merge()

    assert read(linked) == {**FIRST, 1: ("ours", 1)}
    for each in (repo, linked):
        assert_clean(each)


# At the same time

COMMITTER = """
import sys
import pyarrow as pa
from havasu_vc import Repo, Settings

place, worker, commits = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
repo = Repo.open(place, settings=Settings(engine="local"))
for number in range(commits):
    key = 1000 * (worker + 1) + number
    cell = pa.table({"id": [key, worker + 1], "name": [f"{worker}-{number}"] * 2})
    repo.write("points", cell, message=f"{worker}-{number}")
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("processes", "commits"), [(4, 5), pytest.param(8, 20, marks=pytest.mark.slow)]
)
def test_no_commit_is_lost(tmp_path: Path, processes: int, commits: int) -> None:
    repo = make(tmp_path / "repo", FIRST)
    running = [
        subprocess.Popen(
            [sys.executable, "-c", COMMITTER, str(repo.path), str(worker), str(commits)],
            cwd=Path(__file__).parents[2],
            stderr=subprocess.PIPE,
        )
        for worker in range(processes)
    ]
    for process in running:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()

    names = {f"{worker}-{number}" for worker in range(processes) for number in range(commits)}
    subjects = run_git("log", "--format=%s", f"-n{len(names)}", cwd=repo.path).splitlines()
    assert set(subjects) == names
    assert len(subjects) == len(names)
    rows = read(repo)
    for worker in range(processes):
        assert rows[worker + 1] == (f"{worker}-{commits - 1}", worker + 1)
        for number in range(commits):
            assert rows[1000 * (worker + 1) + number] == (f"{worker}-{number}", None)
    assert len(rows) == len(FIRST) + len(names)
    assert_clean(repo)
