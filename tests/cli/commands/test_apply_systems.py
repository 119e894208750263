"""`havasu-vc apply` of patches in another reference system, and in the place of a commit."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Run, invoke, succeed
from tests.compat.kart import needs_data, unpacked
from tests.support.git import run_git


def written(path: Path, changes: list[dict[str, Any]], **header: Any) -> Path:
    header = {"message": "patched", **header}
    document = {"kart.patch/v1": header, "kart.diff/v1+hexwkb": {"points": {"feature": changes}}}
    path.write_text(json.dumps(document))
    return path


def places(run: Run, revision: str) -> dict[int, list[float]]:
    """Return where each row of a commit's insertions and updates lies."""
    shown = succeed(run("diff", f"[EMPTY]...{revision}", "-o", "geojson")).stdout
    features = json.loads(shown)["features"]
    return {
        each["properties"]["id"]: each["geometry"]["coordinates"]
        for each in features
        if each["geometry"] is not None
    }


def test_a_patch_in_another_system_comes_to_lie_where_it_was(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "far.patch"
    succeed(run("create-patch", "--crs", "EPSG:3857", "--output", path))
    expected = places(run, "HEAD")
    succeed(run("checkout", "-b", "other", "HEAD^"))

    assert "1 insert, 1 update, 1 delete" in succeed(run("apply", path)).stderr

    found = places(run, "HEAD")
    assert found.keys() == expected.keys()
    for key, coordinates in expected.items():
        assert found[key] == pytest.approx(coordinates, abs=1e-9)


def test_a_whole_dataset_comes_from_another_system(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "far.patch"
    document = json.loads(succeed(run("create-patch", "HEAD^", "--crs", "EPSG:3857")).stdout)
    document["kart.patch/v1"]["base"] = "0" * 40
    path.write_text(json.dumps(document))
    expected = places(run, "HEAD^")
    other = tmp_path / "other"
    succeed(invoke(["init", other]))

    succeed(invoke(["-C", other, "apply", path]))

    def there(*arguments: str | Path, stdin: str | bytes = "") -> Any:
        return invoke(["-C", other, *arguments], stdin=stdin)

    found = places(there, "HEAD")
    assert found.keys() == expected.keys()
    for key, coordinates in expected.items():
        assert found[key] == pytest.approx(coordinates, abs=1e-9)


def test_what_another_system_cannot_be_held_against_is_refused(run: Run, tmp_path: Path) -> None:
    head = json.loads(run("log", "-1", "-o", "json").stdout)[0]["commit"]
    insert = {"++": {"id": 9, "name": "x", "geom": None}}

    result = run("apply", written(tmp_path / "a", [insert], crs="EPSG:3857"))
    assert result.exit_code == 22
    assert "require a 'base' commit reference" in result.stderr

    both = {"-": {"id": 1}, "+": {"id": 1, "name": "x"}}
    result = run("apply", written(tmp_path / "b", [both], crs="EPSG:3857", base=head))
    assert result.exit_code == 22
    assert "must not include '-' values in edits" in result.stderr

    result = run("apply", written(tmp_path / "c", [insert], crs="EPSG:nope", base=head))
    assert result.exit_code == 25


def test_a_dataset_that_is_not_there(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a"
    change = {"feature": [{"++": {"id": 1}}]}
    document = {"kart.patch/v1": {"message": "m"}, "kart.diff/v1+hexwkb": {"nowhere": change}}
    path.write_text(json.dumps(document))

    result = run("apply", path)

    assert result.exit_code == 49
    assert "the dataset 'nowhere', which is not there" in result.stderr


def test_stars_of_old_patches_are_told(run: Run, tmp_path: Path) -> None:
    result = run("apply", written(tmp_path / "a", [{"*": {"id": 1, "name": "x"}}]))

    assert result.exit_code == 30
    assert "`+` alone does the same" in result.stderr


def test_amending_takes_the_place_of_the_commit(run: Run, repo: Path, tmp_path: Path) -> None:
    parent = run_git("rev-parse", "HEAD^", cwd=repo)
    before = run_git("rev-parse", "HEAD", cwd=repo)
    change = {"+": {"id": 1, "name": "amended"}}

    succeed(run("apply", "--amend", written(tmp_path / "a", [change])))

    assert run_git("rev-parse", "HEAD^", cwd=repo) == parent
    assert run_git("log", "-1", "--format=%s", cwd=repo) == "patched"
    shown = succeed(run("diff", before, "HEAD", "-o", "json")).stdout
    (only,) = json.loads(shown)["kart.diff/v1+hexwkb"]["points"]["feature"]
    assert only["+"]["name"] == "amended"
    assert run("apply", "--amend", "--no-commit", tmp_path / "a").exit_code == 2
    change = {"-": {"id": 1, "name": "amended"}, "+": {"id": 1, "name": "again"}}
    succeed(run("apply", "--amend", "--ref", "main", written(tmp_path / "b", [change])))
    assert run_git("rev-parse", "HEAD^", cwd=repo) == parent


def test_an_item_that_is_there_is_not_made_anew(run: Run, tmp_path: Path) -> None:
    succeed(run("meta", "set", "points", "title=Old"))
    head = json.loads(run("log", "-1", "-o", "json").stdout)[0]["commit"]
    document: dict[str, Any] = {
        "kart.patch/v1": {"message": "m"},
        "kart.diff/v1+hexwkb": {"points": {"meta": {"title": {"+": "New"}}}},
    }
    path = tmp_path / "a"
    path.write_text(json.dumps(document))

    assert run("apply", path).exit_code == 22
    assert json.loads(run("meta", "get", "points", "-o", "json").stdout)["points"]["title"] == "Old"

    document["kart.patch/v1"]["base"] = head
    path.write_text(json.dumps(document))
    succeed(run("apply", path))
    assert json.loads(run("meta", "get", "points", "-o", "json").stdout)["points"]["title"] == "New"


@needs_data
def test_a_kart_dataset_takes_them_too(tmp_path: Path) -> None:
    repo = unpacked("points", tmp_path)
    path = tmp_path / "far.patch"
    succeed(invoke(["-C", repo, "create-patch", "--crs", "EPSG:2193", "--output", path]))
    succeed(invoke(["-C", repo, "switch", "-c", "other", "HEAD^", "--discard-changes"]))

    succeed(invoke(["-C", repo, "apply", path]))

    def names(revision: str) -> list[str]:
        shown = invoke(["-C", repo, "diff", "HEAD^", revision, "-o", "json"]).stdout
        changes = json.loads(shown)["kart.diff/v1+hexwkb"]["nz_pa_points_topo_150k"]["feature"]
        return [each["+"]["name"] for each in changes]

    assert names("HEAD") == names("main") != []
