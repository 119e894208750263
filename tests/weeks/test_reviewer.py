"""A reviewer: branches come by push to a bare server, which guards itself by a hook."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import shapely

from tests.cli.conftest import invoke
from tests.support.git import run_git
from tests.weeks.week import Rows, User, compared, made_by_kart

ROOT = Path(__file__).parents[2]
POLICY = """\
[[dataset]]
max-deletes = 3
required-columns = ["name"]
bounds = [166.0, -48.0, 179.0, -34.0]
"""


def written(place: Path, rows: Rows) -> Path:
    with place.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, ["id", "name", "height", "lon", "lat"])
        writer.writeheader()
        writer.writerows(rows.values())
    return place


def places(shared_data: Path, folder: Path) -> Rows:
    """Return places of New Zealand that have a name, each with a height that nobody measured."""
    kart = User(made_by_kart(shared_data, "points", folder), "fid")
    found: Rows = {}
    for key, row in sorted(kart.rows("nz_pa_points_topo_150k").items()):
        at = shapely.from_wkb(bytes.fromhex(row["geom"]))
        if row["name"] is not None:
            found[key] = {"id": key, "name": row["name"], "height": key / 2} | {
                "lon": at.x,
                "lat": at.y,
            }
    return found


def plain(user: User, revision: str = "HEAD") -> Rows:
    """Return rows without their geometry, which the coordinates say too."""
    found = user.rows("places", revision)
    return {key: {k: v for k, v in row.items() if k != "geom"} for key, row in found.items()}


@pytest.mark.thorough
def test_a_week(tmp_path: Path, shared_data: Path) -> None:
    model = places(shared_data, tmp_path / "kart")
    assert len(model) > 300
    seventh, eighth, *_ = sorted(model)[6:]
    last = max(model)
    file = tmp_path / "trees.csv"
    take = ("import", file, "places", "--replace", "--crs", "EPSG:4326", "-m")

    # Monday: a bare server with its hook, and the first table.
    server = tmp_path / "server.git"
    server.mkdir()
    run_git("init", "--quiet", "--bare", cwd=server)
    program = "from havasu_vc.cli.main import main; main()"
    hook = server / "hooks" / "pre-receive"
    hook.write_text(
        f"#!/bin/sh\nPYTHONPATH='{ROOT}' exec '{sys.executable}' -c '{program}' hook pre-receive\n"
    )
    hook.chmod(0o755)
    assert invoke(["init", tmp_path / "reviewer"]).exit_code == 0
    reviewer = User(tmp_path / "reviewer")
    first = ("import", written(file, model), "places", "--primary-key", "id", "--crs", "EPSG:4326")
    reviewer.does(*first, "-m", "Places")
    (reviewer.repo / ".havasu").mkdir(exist_ok=True)
    (reviewer.repo / ".havasu" / "policy.toml").write_text(POLICY)
    run_git("add", ".havasu/policy.toml", cwd=reviewer.repo)
    run_git("commit", "-qm", "Rules", cwd=reviewer.repo)
    reviewer.does("remote", "add", "origin", server)
    reviewer.does("push", "-u", "origin", "main")
    assert invoke(["clone", server, tmp_path / "worker"]).exit_code == 0
    worker = User(tmp_path / "worker")
    assert plain(worker) == model

    # Tuesday: a good branch. The review says how many rows, and it is merged.
    theirs = {key: dict(row) for key, row in model.items()}
    theirs[seventh]["height"] = 40.5
    theirs[last + 1] = theirs[last] | {"id": last + 1}
    worker.does("switch", "-c", "good")
    written(file, theirs)
    worker.does(*take, "Good")
    worker.does("push", "-u", "origin", "good")
    reviewer.does("fetch")
    assert reviewer.changed("places", "main...origin/good") == compared(model, theirs)
    reviewer.does("check", "main...origin/good")
    page = tmp_path / "review.html"
    reviewer.does("review", "main...origin/good", "-o", "html", "--output", page)
    assert b"https://" not in page.read_bytes().split(b"<body")[0]
    reviewer.does("merge", "origin/good")
    model = theirs
    assert plain(reviewer) == model
    reviewer.does("push")

    # Wednesday: a bad one, which the rules refuse: too many deletes, and a place far off.
    worker.does("switch", "main")
    worker.does("pull")
    worker.does("switch", "-c", "bad")
    bad = {key: dict(row) for key, row in sorted(model.items())[10:]}
    bad[last] |= {"lon": -41.3, "lat": 74.3}
    written(file, bad)
    worker.does(*take, "Bad")
    worker.does("push", "-u", "origin", "bad")
    reviewer.does("fetch")
    refused = reviewer.may_not(1, "check", "main...origin/bad")
    assert "10" in refused
    summary = json.dumps(
        json.loads(reviewer.does("review", "main...origin/bad", "-o", "json").stdout)
    )
    assert "delet" in summary
    assert plain(reviewer) == model

    # Thursday: a branch whose data never came is kept out by the server itself.
    worker.does("switch", "main")
    worker.does("switch", "-c", "lost")
    lost = {key: dict(row) for key, row in model.items()}
    lost[eighth]["height"] = 1.5
    written(file, lost)
    worker.does(*take, "Lost")
    pushed = subprocess.run(
        ["git", "-c", "core.hooksPath=/nowhere", "push", "-q", "origin", "lost"],
        cwd=worker.repo,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ},
    )
    assert pushed.returncode != 0, pushed.stderr
    assert "lost" not in run_git("branch", "--list", cwd=server)
    worker.does("push", "-u", "origin", "lost")
    reviewer.does("fetch")

    # Friday: both changed one cell. The reviewer settles it, and pushes.
    written(file, model | {eighth: model[eighth] | {"height": 2.5}})
    reviewer.does(*take, "Measured")
    shown = reviewer.does("merge", "origin/lost").output + reviewer.does("conflicts").output
    assert f"places:feature:{eighth}" in shown
    reviewer.does("resolve", f"places:feature:{eighth}", "--with", "theirs")
    reviewer.does("merge", "--continue")
    model[eighth]["height"] = 1.5
    assert plain(reviewer) == model
    reviewer.does("push")
    worker.does("switch", "main")
    worker.does("pull")
    assert plain(worker) == model
    worker.does("fsck")
