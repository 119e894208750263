"""`havasu-vc create-patch`."""

import json
from pathlib import Path

from tests.cli.conftest import Run, succeed


def test_a_patch_names_its_base(run: Run) -> None:
    patch = json.loads(succeed(run("create-patch")).stdout)
    first = json.loads(run("log", "HEAD^", "-o", "json").stdout)[0]

    assert patch["kart.patch/v1"]["base"] == first["commit"]
    assert patch["kart.patch/v1"]["message"].strip() == "Second"
    labels = [sorted(change) for change in patch["kart.diff/v1+hexwkb"]["points"]["feature"]]
    assert labels == [["+", "-"], ["--"], ["++"]]


def test_style_and_output(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.patch"
    result = succeed(run("create-patch", "HEAD", "--json-style", "compact", "--output", path))

    assert result.stdout == ""
    assert path.read_text().count("\n") == 1


def test_another_crs_is_named(run: Run) -> None:
    patch = json.loads(succeed(run("create-patch", "--crs", "EPSG:2193")).stdout)

    assert patch["kart.patch/v1"]["crs"] == "EPSG:2193"


def test_no_such_commit(run: Run) -> None:
    assert run("create-patch", "nope").exit_code == 47


def test_rows_may_be_left_out_of_it(run: Run, tmp_path: Path) -> None:
    said = succeed(run("create-patch", "--diff-format", "no-data-changes")).stdout
    patch = json.loads(said)
    assert patch["kart.diff/v1+hexwkb"]["points"] == {"data_changes": True}
    (tmp_path / "a.patch").write_text(said)

    refused = run("apply", tmp_path / "a.patch")

    assert refused.exit_code == 22
    assert "leaves them out" in refused.stderr


def test_it_may_have_no_diff(run: Run) -> None:
    patch = json.loads(succeed(run("create-patch", "--diff-format", "none")).stdout)
    assert list(patch) == ["kart.patch/v1"]


def test_a_second_revision_is_no_filter(run: Run) -> None:
    refused = run("create-patch", "HEAD", "HEAD^")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "'HEAD^' is no dataset there" in refused.stderr
    assert succeed(run("create-patch", "HEAD", "points")).stdout
