"""Resolving conflicts: what each way makes of a row, and what makes no sense."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc import Repo
from havasu_vc.errors import (
    HavasuError,
    InvalidArgumentError,
    NoConflictError,
    SchemaViolationError,
    StateError,
)
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.merging.resolving import labels
from tests.repo.points import Rows, add, assert_clean, make, read, write
from tests.support.examples import examples
from tests.support.templates import copy_tree, empty_repo

BASE: Rows = {1: ("one", 1), 2: ("two", 2), 3: ("three", 3)}
OURS: Rows = {1: ("ONE", 1), 2: ("two", 22), 3: ("drei", 3), 9: ("ours", 9)}
THEIRS: Rows = {1: ("eins", 11), 2: ("two", 222), 9: ("theirs", 9)}
"""In conflict: the name of 1, the height of 2, the deleted 3, the inserted 9."""


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a merge that waits, for tests to copy."""
    return conflicting(tmp_path_factory.mktemp("conflicts")).path


@pytest.fixture
def repo(template: Path, tmp_path: Path) -> Repo:
    return Repo.open(copy_tree(template, tmp_path / "repo"))


def conflicting(folder: Path, ours: Rows = OURS, theirs: Rows = THEIRS) -> Repo:
    """Make a repository with a merge that waits."""
    repo = make(folder / "repo", BASE)
    diverge(repo, ours, theirs)
    assert repo.merge("side").kind == "conflicts"
    return repo


def diverge(repo: Repo, ours: Rows, theirs: Rows) -> None:
    repo.create_branch("side")
    write(repo, ours)
    repo.switch("side")
    write(repo, theirs)
    repo.switch("main")


def waiting(repo: Repo) -> list[str]:
    found = []
    for each in repo.conflicts():
        if each.rows is not None:
            found += [f"{each.path}:feature:{label}" for label in labels(each.rows).to_pylist()]
        found += [f"{each.path}:meta:{name}" for name in each.items]
    return found


def concluded(repo: Repo) -> dict[int, Any]:
    """Resolve the rest with ours, and return the rows."""
    if waiting(repo):
        repo.resolve_conflicts(choice="ours")
    assert repo.continue_merge().kind == "merge"
    assert_clean(repo)
    return read(repo)


def label(key: int) -> str:
    return f"points:feature:{key}"


def test_all_kinds_wait(repo: Repo) -> None:
    assert waiting(repo) == [label(1), label(2), label(3), label(9)]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("ours", {1: ("ONE", 1), 2: ("two", 22), 3: ("drei", 3), 9: ("ours", 9)}),
        ("theirs", {1: ("eins", 11), 2: ("two", 222), 9: ("theirs", 9)}),
        ("base", {1: ("one", 1), 2: ("two", 2), 3: ("three", 3)}),
        ("delete", {}),
    ],
)
def test_a_side_for_all(repo: Repo, choice: str, expected: dict[int, Any]) -> None:
    assert repo.resolve_conflicts(choice=choice) == 4
    assert waiting(repo) == []
    assert concluded(repo) == expected


@pytest.mark.parametrize(
    ("side", "expected"), [("ours", "ONE"), ("theirs", "eins"), ("base", "one")]
)
def test_columns_keep_the_cells_that_merged(repo: Repo, side: str, expected: str) -> None:
    assert repo.resolve_conflicts([label(1)], columns={"name": side}) == 1
    # Only theirs changed the height, which is no conflict.
    assert concluded(repo)[1] == (expected, 11)


def test_other_cells_in_conflict_are_asked_for(tmp_path: Path) -> None:
    repo = conflicting(tmp_path, {1: ("a", 7)}, {1: ("b", 8)})

    with pytest.raises(InvalidArgumentError, match=r"points:feature:1 is also .* 'height'"):
        repo.resolve_conflicts([label(1)], columns={"name": "theirs"})
    assert waiting(repo) == [label(1)]
    repo.resolve_conflicts([label(1)], columns={"name": "theirs"}, choice="base")
    assert concluded(repo)[1] == ("b", 1)


@pytest.mark.parametrize(("side", "kept"), [("ours", "theirs"), ("theirs", "ours")])
def test_a_new_key_keeps_both_rows(repo: Repo, side: str, kept: str) -> None:
    assert repo.resolve_conflicts(renumber=side) == 1
    assert waiting(repo) == [label(1), label(2), label(3)]
    rows = concluded(repo)
    assert (rows[9], rows[10]) == ((kept, 9), (side, 9))


def test_new_keys_are_beyond_all_that_were_given(tmp_path: Path) -> None:
    ours = {**BASE, 5: ("o5", 5), 6: ("o6", 6)}
    repo = conflicting(tmp_path, ours, {**BASE, 5: ("t5", 5), 6: ("t6", 6), 40: ("t", 0)})

    repo.resolve_conflicts([label(6)], renumber="theirs")
    repo.resolve_conflicts([label(5)], renumber="ours")

    expected = {**ours, 5: ("t5", 5), 40: ("t", 0), 41: ("t6", 6), 42: ("o5", 5)}
    assert concluded(repo) == expected


def test_the_highest_key_is_a_live_one(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", {**{key: ("x", key) for key in range(1, 400)}, 900: ("x", 0)})
    write(repo, {key: ("x", key) for key in range(1, 400)})
    now = read(repo)
    diverge(repo, {**now, 500: ("ours", 0)}, {**now, 500: ("theirs", 0)})
    repo.merge("side")

    repo.resolve_conflicts(renumber="theirs")

    assert concluded(repo)[501] == ("theirs", 0)


def test_only_rows_inserted_twice_are_renumbered(repo: Repo) -> None:
    with pytest.raises(InvalidArgumentError, match="both sides inserted"):
        repo.resolve_conflicts([label(1)], renumber="ours")
    repo.resolve_conflicts([label(9)], choice="ours")
    with pytest.raises(NoConflictError):
        repo.resolve_conflicts(renumber="ours")


def test_text_keys_cannot_be_counted_on(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo")
    file = tmp_path / "towns.parquet"
    pq.write_table(pa.table({"name": ["a"], "size": [1]}), file)
    repo.import_(file, "towns", options=SourceOptions(primary_key=("name",)))
    repo.create_branch("side")
    repo.write("towns", pa.table({"name": ["b"], "size": [2]}))
    repo.switch("side")
    repo.write("towns", pa.table({"name": ["b"], "size": [3]}))
    repo.switch("main")
    repo.merge("side")

    with pytest.raises(StateError, match="does not have an integer primary key"):
        repo.resolve_conflicts(["towns:feature:b"], renumber="ours")
    with pytest.raises(NoConflictError):
        repo.resolve_conflicts(renumber="ours")
    repo.resolve_conflicts(["towns:feature:b"], choice="theirs")
    repo.continue_merge()
    assert repo.table("towns").to_arrow().to_pydict() == {"name": ["a", "b"], "size": [1, 3]}


ROW = {"id": 1, "name": "uno", "height": 5}


@pytest.mark.parametrize(
    "document",
    [
        ROW,
        {"type": "Feature", "geometry": None, "properties": ROW},
        {
            "type": "FeatureCollection",
            "features": [{"type": "Feature", "geometry": None, "properties": ROW, "id": "x"}],
        },
    ],
    ids=["row", "feature", "collection"],
)
def test_a_row_that_somebody_wrote(repo: Repo, document: Any) -> None:
    assert repo.resolve_conflicts([label(1)], document=json.dumps(document).encode()) == 1
    assert concluded(repo)[1] == ("uno", 5)


def test_a_row_from_python(repo: Repo) -> None:
    repo.resolve_conflicts([label(9)], row={"id": 9, "name": None, "height": 90})
    assert concluded(repo)[9] == (None, 90)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"id": NaN}', "not JSON"),
        (b"{}", "no value for the column 'id'"),
        (b'{"id": 1, "name": "x"}', "no value for the column 'height'"),
        (b'{"id": 1, "name": "x", "height": 1, "z": 1}', "a column 'z'"),
        (b'{"id": 2, "name": "x", "height": 1}', "it is not points:feature:1"),
        (b'{"id": "1", "name": "x", "height": 1}', "whole number"),
        (b'{"id": null, "name": "x", "height": 1}', "required column 'id'"),
        (b'{"id": 1, "name": "x", "height": 1.5}', "whole number"),
        (b'{"id": 1, "name": "x", "height": 3000000000}', "32 bits"),
        (b'{"type": "FeatureCollection", "features": [{}, {}, {}]}', "there are 3"),
        (
            b'{"type": "Feature", "geometry": {"type": "Point", "coordinates": [1, 2]},'
            b' "properties": {"id": 1, "name": "x", "height": 1}}',
            "has a geometry",
        ),
    ],
)
def test_a_row_that_does_not_fit(repo: Repo, document: bytes, message: str) -> None:
    with pytest.raises((InvalidArgumentError, SchemaViolationError), match=message) as caught:
        repo.resolve_conflicts([label(1)], document=document)
    assert "\n" not in caught.value.message
    assert len(waiting(repo)) == 4


@pytest.mark.parametrize(
    ("filters", "resolution", "message"),
    [
        (["points:feature:77"], {"choice": "ours"}, "'points:feature:77'"),
        ([label(1), "points:feature:77"], {"choice": "ours"}, "'points:feature:77'"),
        (["nothing"], {"choice": "ours"}, "'nothing'"),
        (["points:meta"], {"choice": "ours"}, "'points:meta'"),
        (["points:other:1"], {"choice": "ours"}, "is no filter"),
        ([], {"choice": "mine"}, "'mine'"),
        ([], {}, "one way"),
        ([], {"choice": "ours", "renumber": "ours"}, "one way"),
        ([], {"renumber": "both"}, "'both'"),
        ([], {"row": ROW}, "4 are meant"),
        ([label(1)], {"columns": {"nome": "ours"}}, "no column 'nome'"),
        ([label(1)], {"columns": {"id": "ours"}}, "is the key"),
        ([label(1)], {"columns": {"name": "mine"}}, "not 'mine'"),
        ([label(1)], {"columns": {"name": "ours"}, "choice": "delete"}, "deleted"),
        ([label(3)], {"columns": {"name": "ours"}}, "one side deleted points:feature:3"),
        ([label(9)], {"columns": {"name": "base"}}, "no base"),
        ([label(1)], {"row": {"id": 1, "name": 5, "height": 1}}, "'name' cannot hold 5"),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    repo: Repo, filters: list[str], resolution: dict[str, Any], message: str
) -> None:
    with pytest.raises(HavasuError, match=message):
        repo.resolve_conflicts(filters, **resolution)
    assert len(waiting(repo)) == 4


def test_a_label_is_resolved_once(repo: Repo) -> None:
    repo.resolve_conflicts([label(1) + ":"], choice="ours")
    with pytest.raises(NoConflictError):
        repo.resolve_conflicts([label(1)], choice="theirs")


def test_without_a_merge_nothing_can_be_resolved(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", BASE)

    for action in (
        lambda: repo.resolve_conflicts(choice="ours"),
        lambda: list(repo.conflicts()),
        lambda: list(repo.view_conflicts()),
        repo.continue_merge,
        repo.abort_merge,
    ):
        with pytest.raises(StateError):
            action()


def test_items_take_any_version(repo: Repo) -> None:
    repo.abort_merge()
    for branch, title, about in (("side", "Theirs", "t"), ("main", "Ours", "o")):
        repo.switch(branch)
        repo.set_meta("points", {"title": title, "description": about})
    repo.merge("side")
    repo.resolve_conflicts(["points:feature"], choice="theirs")
    assert waiting(repo) == ["points:meta:description", "points:meta:title"]

    with pytest.raises(InvalidArgumentError, match="points:meta:title is resolved with"):
        repo.resolve_conflicts(["points:meta:title"], columns={"name": "ours"})
    repo.resolve_conflicts(["points:meta:title"], choice="theirs")
    repo.resolve_conflicts(["points:meta:description"], choice="delete")

    repo.continue_merge()
    assert repo.get_meta("points", ["title"])["title"] == "Theirs"
    assert "description" not in repo.get_meta("points")


@pytest.mark.parametrize("side", ["ours", "theirs"])
def test_columns_in_conflict_come_before_rows(repo: Repo, side: str) -> None:
    repo.abort_merge()
    for branch, name in (("side", "their_name"), ("main", "our_name")):
        repo.switch(branch)
        columns = repo.get_meta("points", ["schema.json"])["schema.json"]
        columns[1]["name"] = name
        repo.set_meta("points", {"schema.json": columns})
    repo.merge("side")

    with pytest.raises(InvalidArgumentError, match="columns of points are in conflict"):
        repo.resolve_conflicts([label(1)], choice="theirs")
    repo.resolve_conflicts(["points:meta:schema.json"], choice=side)
    repo.resolve_conflicts([label(1)], choice="theirs")
    rows = concluded(repo)

    assert rows == {1: ("eins", 11), 2: ("two", 22), 3: ("drei", 3), 9: ("ours", 9)}
    name = {"ours": "our_name", "theirs": "their_name"}[side]
    assert repo.dataset("points").schema.names == ("id", name, "height")


def test_two_datasets_are_resolved_apart(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", BASE)
    add(repo, tmp_path, BASE, "more/points")
    repo.create_branch("side")
    for dataset in ("points", "more/points"):
        write(repo, {1: ("o", 1)}, dataset=dataset)
    repo.switch("side")
    for dataset in ("points", "more/points"):
        write(repo, {1: ("t", 1)}, dataset=dataset)
    repo.switch("main")
    repo.merge("side")

    assert waiting(repo) == ["more/points:feature:1", "points:feature:1"]
    repo.resolve_conflicts(["more/*"], choice="theirs")
    assert waiting(repo) == ["points:feature:1"]
    repo.resolve_conflicts(choice="base")
    repo.continue_merge()

    assert read(repo, dataset="more/points") == {1: ("t", 1)}
    assert read(repo) == {1: ("one", 1)}


@pytest.mark.few(1)
@pytest.mark.parametrize(("choice", "count"), [("ours", 2), ("theirs", 4), ("base", 1)])
def test_rows_without_a_key_are_counted(tmp_path: Path, choice: str, count: int) -> None:
    repo = empty_repo(tmp_path / "repo")
    file = tmp_path / "log.parquet"

    def commit(copies: int) -> None:
        pq.write_table(pa.table({"what": ["a"] * copies + ["b"]}), file)
        repo.import_(file, "log", replace="log" in repo.datasets())

    commit(1)
    repo.create_branch("side")
    commit(2)
    repo.switch("side")
    commit(4)
    repo.switch("main")
    assert repo.merge("side").kind == "conflicts"

    (name,) = waiting(repo)
    with pytest.raises(InvalidArgumentError, match="how often"):
        repo.resolve_conflicts([name], choice="delete")
    repo.resolve_conflicts([name], choice=choice)
    repo.continue_merge()

    assert sorted(repo.table("log").to_arrow()["what"].to_pylist()) == ["a"] * count + ["b"]


cells = st.tuples(st.sampled_from(["x", "y", None]), st.integers(0, 2))
tables = st.dictionaries(st.integers(1, 5), cells, min_size=1)


@examples(8, deadline=None)
@given(ours=tables, theirs=tables, data=st.data())
def test_every_answer_is_what_the_merge_becomes(
    tmp_path_factory: pytest.TempPathFactory, ours: Rows, theirs: Rows, data: st.DataObject
) -> None:
    repo = make(tmp_path_factory.mktemp("merge") / "repo", BASE)
    diverge(repo, ours, theirs)
    if repo.merge("side").kind != "conflicts":
        return
    sides: dict[str, Rows] = {"ours": ours, "theirs": theirs, "base": BASE, "delete": {}}
    expected: dict[int, Any] = {}
    for name in waiting(repo):
        key = int(name.rpartition(":")[2])
        choice = data.draw(st.sampled_from(sorted(sides)))
        repo.resolve_conflicts([name], choice=choice)
        expected[key] = sides[choice].get(key)
    rows = concluded(repo)

    for key, row in expected.items():
        assert rows.get(key) == row
