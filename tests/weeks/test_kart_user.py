"""Somebody who used Kart: stays in the repository, works on, and converts when all have moved."""

from pathlib import Path

import pytest

from tests.support.git import run_git
from tests.weeks.week import User, compared, edit, made_by_kart

LAYER = "nz_pa_points_topo_150k"


@pytest.mark.thorough
def test_a_week(tmp_path: Path, shared_data: Path) -> None:
    user = User(made_by_kart(shared_data, "points", tmp_path / "kart"), "fid")
    git = ("--git-dir", str(user.repo / ".kart"))

    # Monday: nothing is converted; what Kart committed is read, and its ids stay.
    model = user.rows(LAYER)
    before = user.rows(LAYER, "HEAD^")
    assert len(model) == 2143
    assert user.changed(LAYER, "HEAD^...HEAD") == compared(before, model)
    was = run_git(*git, "rev-parse", "HEAD", cwd=user.repo)
    assert "Improve naming" in user.does("log").stdout
    user.does("create-workingcopy", "work.gpkg")
    user.agrees(LAYER, model)
    assert run_git(*git, "rev-parse", "HEAD", cwd=user.repo) == was

    # Tuesday: edits in the working copy, as Kart's own triggers note them.
    first, second, third, *_ = sorted(model)
    table = user.repo / "work.gpkg"
    edit(
        table,
        f"UPDATE {LAYER} SET name = 'Te Ara', name_ascii = 'Te Ara' WHERE fid = {first}",
        f"DELETE FROM {LAYER} WHERE fid = {second}",
    )
    user.does("commit", "-m", "Tuesday")
    model[first] |= {"name": "Te Ara", "name_ascii": "Te Ara"}
    del model[second]
    user.agrees(LAYER, model)

    # Wednesday: two branches edit two cells of one row, which Kart would call a conflict.
    user.does("switch", "-c", "other")
    edit(table, f"UPDATE {LAYER} SET macronated = 'Y' WHERE fid = {third}")
    user.does("commit", "-m", "Other")
    user.does("switch", "main")
    edit(table, f"UPDATE {LAYER} SET name = 'Three' WHERE fid = {third}")
    user.does("commit", "-m", "Ours")
    user.does("merge", "other")
    model[third] |= {"macronated": "Y", "name": "Three"}
    user.agrees(LAYER, model)

    # Thursday: what Kart has not. The merge is undone and done again.
    user.does("revert", "-m", "1", "HEAD")
    model[third]["macronated"] = user.rows(LAYER, "other^")[third]["macronated"]
    user.agrees(LAYER, model)
    user.does("reset", "--hard", "HEAD^")
    model[third]["macronated"] = "Y"
    user.agrees(LAYER, model)
    blamed = user.does("blame", f"{LAYER}:feature:{first}").stdout
    assert run_git(*git, "log", "-1", "--format=%h", "--grep=Tuesday", cwd=user.repo)[:7] in blamed
    told = user.does("sql", f"SELECT count(*) AS n FROM {LAYER}", "-o", "csv").stdout
    assert told.split() == ["n", str(len(model))]

    # Friday: Parquet, and back, without a row that changes.
    tree = run_git(*git, "rev-parse", "HEAD^{tree}", cwd=user.repo)
    user.does("convert", LAYER, "--to", "havasu")
    user.agrees(LAYER, model)
    assert user.changed(LAYER, "HEAD^...HEAD") == (set(), set(), set())
    user.does("convert", LAYER, "--to", "kart")
    assert run_git(*git, "rev-parse", "HEAD^{tree}", cwd=user.repo) == tree
    user.agrees(LAYER, model)
    user.does("fsck")
