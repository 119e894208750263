"""Commits of the edited rows that meet a condition or a box: the rest stays edited."""

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import shapely

from havasu_vc import Repo
from tests.cli.conftest import Run, succeed
from tests.support.git import run_git
from tests.workspace import by_hand

pytest.importorskip("duckdb")
Rows = dict[int, tuple[str | None, float]]


def at(longitude: float, latitude: float) -> bytes:
    point: bytes = shapely.to_wkb(
        shapely.set_srid(shapely.Point(longitude, latitude), 4326), flavor="extended"
    )
    return point


def committed(repo: Path) -> Rows:
    rows = Repo.open(repo).table("points").to_arrow(["id", "name", "height"]).to_pylist()
    return {row["id"]: (row["name"], row["height"]) for row in rows}


def edited(run: Run, *filters: str) -> str:
    return succeed(run("diff", "-o", "json-lines", *filters)).stdout


@pytest.fixture
def table(run: Run, repo: Path) -> Path:
    """The table of points, checked out: 10 and 11 are inserted, 1 at 174.5, -41 is deleted."""
    succeed(run("checkout"))
    place = repo / "tables" / "points"
    rows = [
        {"id": 10, "name": "ten", "height": 10.0, "geom": at(10, 10)},
        {"id": 11, "name": "eleven", "height": 11.0, "geom": at(20, 20)},
    ]
    by_hand.insert(place, rows)
    by_hand.delete(place, [0])
    return place


@pytest.mark.thorough
def test_rows_of_a_table_by_a_condition(run: Run, repo: Path, table: Path) -> None:
    before = committed(repo)

    said = succeed(run("commit", "-m", "High", "--where", "height > 10.5 OR name = 'one'")).stderr

    assert "points: 1 insert, 1 delete" in said
    del before[1]
    assert committed(repo) == {**before, 11: ("eleven", 11.0)}
    rest = edited(run)
    assert '"ten"' in rest and '"eleven"' not in rest and '"one"' not in rest
    assert "stash" not in run_git("for-each-ref", cwd=repo)
    succeed(run("commit", "-m", "The rest"))
    assert committed(repo) == {**before, 10: ("ten", 10.0), 11: ("eleven", 11.0)}


@pytest.mark.thorough
def test_rows_of_a_table_by_a_box(run: Run, repo: Path, table: Path) -> None:
    before = committed(repo)

    said = succeed(run("commit", "-n", "points", "--box", "170,-50,180,0")).stderr
    assert "points: 1 delete" in said
    succeed(run("commit", "points", "--box", "9,9,11,11", "-m", "Ten"))
    assert committed(repo) == {**before, 10: ("ten", 10.0)}
    # Around the globe, where 174.5 lies and 20 does not.
    succeed(run("commit", "--box", "170,-50,10,50", "-m", "One"))

    del before[1]
    assert committed(repo) == {**before, 10: ("ten", 10.0)}
    assert '"eleven"' in edited(run)


def test_a_condition_and_a_box_together(run: Run, repo: Path, table: Path) -> None:
    before = committed(repo)

    everywhere = run("commit", "-m", "x", "--where", "name = 'ten'", "--box", "15,15,25,25")
    assert everywhere.exit_code != 0 and "nothing to commit" in everywhere.stderr
    said = succeed(
        run("commit", "-m", "Ten", "--box", "5,5,25,25", "--where", "name = 'ten' OR height < 5")
    ).stderr

    assert "points: 1 insert" in said and "delete" not in said
    assert committed(repo) == {**before, 10: ("ten", 10.0)}
    rest = edited(run, "points:box:5,5,25,25:where:height > 1")
    assert '"eleven"' in rest and '"one"' not in rest


def test_a_move_into_a_box_of_what_met_the_condition_before(
    run: Run, repo: Path, table: Path
) -> None:
    """One of the two sides has to meet both."""
    by_hand.delete(table, [1])
    by_hand.insert(table, [{"id": 2, "name": "moved", "height": 2.0, "geom": at(10, 10)}])

    assert '"moved"' not in edited(run, "points:box:9,9,11,11:where:name = 'TWO'")
    assert '"moved"' in edited(run, "points:box:9,9,11,11:where:name = 'moved'")


def test_functions_of_geometries_in_a_condition(run: Run, repo: Path, table: Path) -> None:
    before = committed(repo)

    succeed(run("commit", "-m", "East", "--where", "st_x(geom) BETWEEN 15 AND 25"))
    assert committed(repo) == {**before, 11: ("eleven", 11.0)}
    near = "ST_DWithin(geom, ST_Point(10, 10.5), 1) AND ST_GeometryType(geom) = 'ST_Point'"
    shown = edited(run, f"points:where:{near}")
    assert '"ten"' in shown and '"one"' not in shown


def test_a_diff_takes_conditions_too(run: Run, repo: Path, table: Path) -> None:
    shown = edited(run, "points:where:height = 10")
    assert '"ten"' in shown and '"eleven"' not in shown and '"one"' not in shown
    shown = edited(run, "points:box:15,15,25,25")
    assert '"eleven"' in shown and '"ten"' not in shown


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--where", "hight > 1"], "the condition 'hight > 1' cannot be run: Referenced column"),
        (["--where", "hight > 1"], "Hint: did you mean 'height'?"),
        (["--where", "1; DROP TABLE havasu_rows"], "cannot be run"),
        (["--where", ""], "names no condition"),
        (["--box", "1,2,3"], "'1,2,3' is not a box"),
        (["--box", "1,2,3,4:where:true"], "is not a box"),
        (["points:box:1,2,3,4:height > 1"], "after a box"),
        (["points:box:1,2,3,4:where:"], "names no condition"),
        (["--where", "ST_Nothing(geom)"], "the condition 'ST_Nothing(geom)' cannot be run"),
        (["--where", "ST_X(geom, 1, 2) > 1"], "the condition 'ST_X(geom, 1, 2) > 1' cannot be run"),
        (["points:feature:1", "--where", "true"], "go with datasets"),
        (["nothing", "--where", "true"], "nothing"),
        (["--where", "height > 1000"], "commit: no edit is of *:where:height > 1000\nHint: "),
        (["--box", "0,0,1,1"], "there is nothing to commit: no edit is of *:box:0,0,1,1\n"),
    ],
)
def test_conditions_that_cannot_be(
    arguments: list[str], reason: str, run: Run, repo: Path, table: Path
) -> None:
    head, rest = run_git("rev-parse", "HEAD", cwd=repo), edited(run)

    refused = run("commit", "-m", "x", *arguments)

    assert refused.exit_code != 0 and reason in refused.stderr, refused.stderr
    assert (run_git("rev-parse", "HEAD", cwd=repo), edited(run)) == (head, rest)


def test_conditions_are_of_changes_alone(run: Run, repo: Path) -> None:
    refused = run("restore", "-s", "HEAD^", "points:where:height > 1")
    assert refused.exit_code == 2 and "conditions choose among changes" in refused.stderr


def edit_rows(file: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(file)) as database:
        for function in ("ST_IsEmpty", "ST_MinX", "ST_MaxX", "ST_MinY", "ST_MaxY"):
            database.create_function(function, 1, lambda value: 0)
        database.execute(statement, values)
        database.commit()


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(3))
def test_a_working_copy_beside_a_model(seed: int, run: Run, repo: Path) -> None:
    """Edits and partial commits at random: what HEAD has and what stays edited follow a dict."""
    draw = random.Random(seed)
    succeed(run("create-workingcopy", "points.gpkg"))
    file = repo / "points.gpkg"
    head = committed(repo)
    now = dict(head)
    for number in range(4):
        for _ in range(3):
            known = sorted(now)
            kind = draw.choice(["insert", "update", "delete"] if len(known) > 2 else ["insert"])
            height = float(draw.randrange(100))
            if kind == "insert":
                key = max((*now, *head), default=0) + draw.randrange(1, 5)
                now[key] = (f"new {key}", height)
                edit_rows(
                    file,
                    "INSERT INTO points (id, name, height) VALUES (?, ?, ?)",
                    key,
                    f"new {key}",
                    height,
                )
            elif kind == "update":
                key = draw.choice(known)
                now[key] = (now[key][0], height)
                edit_rows(file, "UPDATE points SET height = ? WHERE id = ?", height, key)
            else:
                key = draw.choice(known)
                del now[key]
                edit_rows(file, "DELETE FROM points WHERE id = ?", key)
        edge = draw.randrange(100)
        changed = {key for key in {*head, *now} if head.get(key) != now.get(key)}
        chosen = {
            key
            for key in changed
            if any(key in side and side[key][1] > edge for side in (head, now))
        }
        result = run("commit", "-m", f"Part {number}", "--where", f"height > {edge}")
        assert (result.exit_code == 0) == bool(chosen), result.output
        for key in chosen:
            if key in now:
                head[key] = now[key]
            else:
                head.pop(key, None)
        assert committed(repo) == head
        left = {key for key in {*head, *now} if head.get(key) != now.get(key)}
        assert edited(run).count('"type":"feature"') == len(left)
    if head != now:
        succeed(run("commit", "-m", "The rest"))
    assert committed(repo) == now


def test_a_copy_to_edit(run: Run, repo: Path, tmp_path: Path) -> None:
    copy = tmp_path / "edit.gpkg"
    succeed(run("checkout", "--as", copy))
    edit_rows(copy, "UPDATE points SET name = 'edited' WHERE id < 3")

    succeed(run("commit", "--from", copy, "-m", "Low", "--where", "height < 2"))
    assert committed(repo)[1][0] == "edited" and committed(repo)[2][0] == "TWO"
    succeed(run("commit", "--from", copy, "-m", "There", "--box", "174.55,-41.15,174.65,-41.05"))

    assert committed(repo)[2][0] == "edited"
