"""A GIS team: three clones of one layer of parcels, edited in GeoPackages, one shared folder."""

from pathlib import Path

import pytest

from tests.cli.conftest import invoke
from tests.support.git import run_git
from tests.weeks.week import Row, User, compared, edit, made_by_kart

LAYER = "nz_waca_adjustments"


def person(shared: Path, place: Path) -> User:
    made = invoke(["clone", "--workingcopy", f"{place.name}.gpkg", shared, place])
    assert made.exit_code == 0, made.output
    return User(place)


@pytest.mark.thorough
def test_a_week(tmp_path: Path, shared_data: Path) -> None:
    kart = User(made_by_kart(shared_data, "polygons", tmp_path / "kart"))
    kart.does("export", LAYER, tmp_path / "parcels.gpkg")
    model = {key: dict(row) for key, row in kart.rows(LAYER).items()}
    shared = tmp_path / "shared.git"
    shared.mkdir()
    run_git("init", "--quiet", "--bare", cwd=shared)

    # Monday: the layer, as it was mailed around, goes in and is shared.
    assert invoke(["init", tmp_path / "ann"]).exit_code == 0
    ann = User(tmp_path / "ann")
    ann.does("import", tmp_path / "parcels.gpkg", "-m", "The layer")
    (dataset,) = ann.does("data", "ls").stdout.split()
    ann.agrees(dataset, model)
    ann.does("remote", "add", "origin", shared)
    ann.does("push", "-u", "origin", "main")
    ann.does("create-workingcopy", "ann.gpkg")
    bob, cat = (person(shared, tmp_path / name) for name in ("bob", "cat"))
    bob.agrees(dataset, model)

    # Tuesday: Ann and Bob edit different columns of one parcel, Bob takes one away too.
    first, second, third, *_ = sorted(model)
    edit(ann.repo / "ann.gpkg", f"UPDATE {dataset} SET adjusted_nodes = 7 WHERE id = {first}")
    edit(
        bob.repo / "bob.gpkg",
        f"UPDATE {dataset} SET date_adjusted = NULL WHERE id = {first}",
        f"DELETE FROM {dataset} WHERE id = {second}",
    )
    assert dataset in ann.does("status").stdout
    ann.does("commit", "-m", "Nodes of the first")
    ann.does("push")
    bob.does("commit", "-m", "No date, and one less")
    bob.may_not(20, "push")
    bob.does("pull")
    bob.does("push")
    model[first] |= {"adjusted_nodes": 7, "date_adjusted": None}
    del model[second]
    bob.agrees(dataset, model)
    ann.does("pull")
    ann.agrees(dataset, model)

    # Wednesday: both name another number for one cell, and Cat decides nothing but merges.
    edit(ann.repo / "ann.gpkg", f"UPDATE {dataset} SET survey_reference = 'A' WHERE id = {third}")
    edit(cat.repo / "cat.gpkg", f"UPDATE {dataset} SET survey_reference = 'C' WHERE id = {third}")
    cat.may_not(43, "pull", "nowhere")
    ann.does("commit", "-m", "A")
    ann.does("push")
    cat.does("commit", "-m", "C")
    before = cat.rows(dataset)
    assert f"{dataset}:feature:{third}" in (cat.does("pull").output + cat.does("conflicts").stdout)
    assert cat.rows(dataset) == before
    cat.does("resolve", f"{dataset}:feature:{third}", "--with", "theirs")
    cat.does("merge", "--continue")
    cat.does("push")
    model[third]["survey_reference"] = "A"
    cat.agrees(dataset, model)

    # Thursday: a new parcel is drawn on a branch, and the old one of Tuesday is wanted back.
    cat.does("switch", "-c", "drawn")
    edit(
        cat.repo / "cat.gpkg",
        f"INSERT INTO {dataset} (id, geom, survey_reference, adjusted_nodes)"
        f" SELECT 99, geom, 'new', 1 FROM {dataset} WHERE id = {third}",
    )
    cat.does("commit", "-m", "Drawn")
    cat.does("switch", "main")
    cat.agrees(dataset, model)
    cat.does("merge", "drawn")
    drawn: Row = dict.fromkeys(model[third]) | {
        "id": 99,
        "geom": model[third]["geom"],
        "survey_reference": "new",
        "adjusted_nodes": 1,
    }
    old = dict(model)
    model[99] = drawn
    cat.agrees(dataset, model)
    cat.does("push")

    # Friday: the week as one diff, and as each of them has it.
    for each in (ann, bob):
        each.does("pull")
        each.agrees(dataset, model)
        assert each.does("status", "-o", "json").exit_code == 0
        assert "feature" not in each.does("diff").stdout
    assert cat.changed(dataset, "HEAD^1...HEAD") == compared(old, model)
    assert "C" in cat.does("log", "--oneline").stdout
    cat.does("fsck")
