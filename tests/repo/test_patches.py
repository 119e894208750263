"""Patches: made here, applied here and elsewhere; what they claim is checked."""

import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.errors import HavasuError, InvalidInputError, NoChangesError, PatchError
from havasu_vc.writers.protocol import WriterOptions
from havasu_vc.writers.registry import writer_named
from tests.repo.tables import BY_ID, NO_KEY, points, rows, write
from tests.support.sound import LOCAL, CheckedRepo, checked, refuses
from tests.support.templates import empty_repo


def patch_of(repo: CheckedRepo, revision: str = "HEAD") -> bytes:
    out = io.StringIO()
    info, diffs = repo.repo.create_patch(revision)
    writer_named("patch")(diffs, out, WriterOptions(commit=info))
    return out.getvalue().encode()


def patch(content: dict[str, Any], path: str = "points", **header: Any) -> bytes:
    document = {"kart.patch/v1": {"message": "patched", **header}}
    return json.dumps({**document, "kart.diff/v1+hexwkb": {path: content}}).encode()


def features(*changes: dict[str, Any]) -> bytes:
    return patch({"feature": list(changes)})


@pytest.fixture
def other(tmp_path: Path, filled: CheckedRepo) -> CheckedRepo:
    """Another repository with the same table."""
    found = checked(tmp_path / "other")
    found.import_(tmp_path / "points.parquet", options=BY_ID)
    return found


@pytest.mark.thorough
def test_a_patch_makes_elsewhere_what_it_made_here(filled: CheckedRepo, other: CheckedRepo) -> None:
    filled.write("points", pa.table({"id": [1, 500], "name": ["a", "b"]}), message="edit\n\nbody")
    filled.write("points", pa.table({"id": [2, 3]}), mode="delete")
    for revision in ("HEAD^", "HEAD"):
        other.apply_patch(patch_of(filled, revision))
        assert rows(other, "points") == rows(filled, "points", revision)
    first, second = filled.log()[1], other.log()[1]
    assert second.message.rstrip("\n") == first.message.rstrip("\n")
    assert (second.author_name, second.author_time) == (first.author_name, first.author_time)
    assert list(other.fsck(full=True)) == []


@pytest.mark.thorough
def test_a_new_dataset_comes_and_goes_with_patches(
    filled: CheckedRepo, other: CheckedRepo, tmp_path: Path
) -> None:
    filled.import_(write(tmp_path / "more.parquet", points(20)), "a/more", options=BY_ID)
    filled.set_meta("a/more", {"title": "More"})
    other.apply_patch(patch_of(filled, "HEAD^"))
    other.apply_patch(patch_of(filled))
    assert rows(other, "a/more") == points(20).to_pylist()
    assert other.get_meta("a/more") == filled.get_meta("a/more")

    gone = json.loads(patch_of(filled, "HEAD^"))
    diff = gone["kart.diff/v1+hexwkb"]["a/more"]
    flipped = {
        "meta": {name: {"-": change["+"]} for name, change in diff["meta"].items()},
        "feature": [{"--": change["++"]} for change in diff["feature"]],
    }
    gone["kart.diff/v1+hexwkb"]["a/more"] = flipped
    with refuses(other.repo, PatchError):
        stale = json.loads(json.dumps(gone))
        stale["kart.diff/v1+hexwkb"]["a/more"]["feature"][0]["--"]["name"] = "other"
        other.repo.apply_patch(json.dumps(stale).encode())
    with refuses(other.repo, PatchError):
        short = json.loads(json.dumps(gone))
        short["kart.diff/v1+hexwkb"]["a/more"]["feature"].pop()
        other.repo.apply_patch(json.dumps(short).encode())
    other.apply_patch(json.dumps(gone).encode())
    assert other.datasets() == ("points",)
    assert list(other.fsck(full=True)) == []


def test_meta_items_and_schemas_are_patched(filled: CheckedRepo, other: CheckedRepo) -> None:
    columns = filled.get_meta("points", ["schema.json"])["schema.json"]
    columns[2]["name"] = "label"
    columns[3]["size"] = 64
    columns.append({"name": "more", "dataType": "text"})
    filled.set_meta("points", {"schema.json": columns, "title": "Points"})
    filled.write("points", pa.table({"id": [4], "more": ["x"], "label": ["y"]}))
    for revision in ("HEAD^", "HEAD"):
        other.apply_patch(patch_of(filled, revision))
        assert rows(other, "points") == rows(filled, "points", revision)
    assert other.get_meta("points", ["title"]) == {"title": "Points"}
    with refuses(other.repo, PatchError):
        other.repo.apply_patch(patch_of(filled, "HEAD^"))


def test_a_patch_keeps_the_ids_of_columns(filled: CheckedRepo, other: CheckedRepo) -> None:
    columns = filled.get_meta("points", ["schema.json"])["schema.json"]
    columns.append({"name": "more", "dataType": "text"})
    filled.set_meta("points", {"schema.json": columns})
    other.apply_patch(patch_of(filled))
    assert other.get_meta("points") == filled.get_meta("points")


def test_a_patch_renames_the_key_and_changes_rows(filled: CheckedRepo) -> None:
    before = filled.get_meta("points", ["schema.json"])["schema.json"]
    after = [{**c, "name": "number_of_point"} if c["name"] == "id" else c for c in before]
    first, second, *_ = json.loads(patch_of(filled))["kart.diff/v1+hexwkb"]["points"]["feature"]

    def renamed(row: dict[str, Any], **changes: Any) -> dict[str, Any]:
        return {"number_of_point" if n == "id" else n: v for n, v in row.items()} | changes

    content = {
        "meta": {"schema.json": {"-": before, "+": after}},
        "feature": [
            {"-": second["++"], "+": renamed(second["++"], name="edited")},
            {"--": first["++"]},
            {"++": renamed(first["++"], number_of_point=900)},
        ],
    }
    filled.apply_patch(patch(content))

    found = {row["number_of_point"]: row for row in rows(filled, "points")}
    assert len(found) == 100 and 0 not in found and 900 in found
    assert found[second["++"]["id"]]["name"] == "edited"
    assert list(filled.fsck(full=True)) == []


def test_a_patch_may_list_some_columns(filled: CheckedRepo) -> None:
    expected = {row["id"]: row for row in points(100).to_pylist()}
    filled.apply_patch(
        features(
            {"-": {"id": 3, "name": "row 3"}, "+": {"id": 3, "name": "x"}},
            {"+": {"id": 4, "number": 77}},
            {"+": {"id": 400, "number": 78}},
            {"-": {"id": 5}, "+": {"id": 5, "geom": None}},
            {"--": {"id": 6, "name": "row 6"}},
            {"-": {"id": 7}},
            {"++": {"id": 401}},
        )
    )
    expected[3]["name"] = "x"
    expected[4]["number"] = 77
    expected[400] = {"id": 400, "geom": None, "name": None, "number": 78}
    expected[401] = {"id": 401, "geom": None, "name": None, "number": None}
    expected[5]["geom"] = None
    del expected[6], expected[7]
    assert rows(filled, "points") == [expected[key] for key in sorted(expected)]


def test_a_patch_that_says_other_than_what_is_there_is_refused(filled: CheckedRepo) -> None:
    good = patch_of(filled)
    with refuses(filled.repo, HavasuError):
        filled.repo.apply_patch(good)
    filled.write("points", pa.table({"id": [1], "name": ["a"]}))
    made = patch_of(filled)
    filled.write("points", pa.table({"id": [1], "name": ["b"]}))
    with refuses(filled.repo, PatchError, match="1", hint=True):
        filled.repo.apply_patch(made)
    filled.write("points", pa.table({"id": [1]}), mode="delete")
    with refuses(filled.repo, PatchError):
        filled.repo.apply_patch(made)


def test_a_patch_is_tried_without_a_commit(filled: CheckedRepo) -> None:
    data = features({"+": {"id": 4, "number": 77}})
    result = filled.apply_patch(data, commit=False)
    assert result.commit is None and result.changes["points"].updates == 1
    assert len(filled.log()) == 1
    assert filled.apply_patch(io.BytesIO(data)).commit is not None
    with refuses(filled.repo, NoChangesError):
        filled.repo.apply_patch(data)
    assert filled.apply_patch(data, allow_empty=True).commit is not None
    assert filled.apply_patch(features({"+": {"id": 4, "number": 1}}), message="mine").commit
    assert filled.log()[0].message == "mine"


def test_patches_without_a_key(repo: CheckedRepo, tmp_path: Path) -> None:
    table = pa.table({"id": [1, 1, 2], "name": ["a", "a", None]})
    repo.import_(write(tmp_path / "t.parquet", table), options=NO_KEY)
    repo.apply_patch(
        patch({"feature": [{"--": {"id": 1, "name": "a"}}, {"++": {"id": 2, "name": None}}]}, "t")
    )
    found = sorted(map(str, repo.table("t").to_arrow().to_pylist()))
    assert found == sorted(
        map(str, [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 2, "name": None}])
    )
    for content in (
        [{"--": {"id": 1, "name": "z"}}],
        [{"--": {"id": 1, "name": "a"}}] * 3,
        [{"-": {"id": 1, "name": "a"}, "+": {"id": 1, "name": "b"}}],
        [{"--": {"id": 1}}],
    ):
        with refuses(repo.repo, InvalidInputError):
            repo.repo.apply_patch(patch({"feature": content}, "t"))


@pytest.mark.thorough
def test_several_datasets_are_patched_in_one_commit(filled: CheckedRepo, tmp_path: Path) -> None:
    filled.import_(write(tmp_path / "more.parquet", points(20)), options=BY_ID)
    document = json.loads(features({"+": {"id": 4, "number": 77}}))
    diff = document["kart.diff/v1+hexwkb"]
    diff["more"] = {"feature": [{"--": {"id": 4}}]}
    filled.apply_patch(json.dumps(document).encode())
    assert len(filled.log()) == 3
    assert len(rows(filled, "more")) == 19 and rows(filled, "points")[4]["number"] == 77
    diff["more"] = {"feature": [{"--": {"id": 4}}]}
    diff["points"] = {"feature": [{"+": {"id": 4, "number": 78}}]}
    with refuses(filled.repo, PatchError):
        filled.repo.apply_patch(json.dumps(document).encode())


def test_a_patch_into_a_repository_without_commits(filled: CheckedRepo, tmp_path: Path) -> None:
    empty = CheckedRepo(empty_repo(tmp_path / "empty", settings=LOCAL))
    empty.apply_patch(patch_of(filled))
    assert rows(empty, "points") == points(100).to_pylist()
    assert empty.get_meta("points") == filled.get_meta("points")
