"""`havasu-vc review` where a branch does not merge: both sides, and commands that settle it."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.library import Repo
from tests.cli.conftest import Run, invoke, succeed
from tests.remotes.sharing import share
from tests.support.git import run_git
from tests.support.templates import LOCAL

Tell = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def diverged(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In conflict: name and place of 2, the row 4 that main deleted, 9 that both inserted, and
    the title; the height of 1 and the name of 1 are of one side each."""
    path = tmp_path_factory.mktemp("diverged") / "repo"
    repo = Repo.open(shutil.copytree(template, path, symlinks=True), settings=LOCAL)
    repo.create_branch("survey")
    schema = repo.table("points").to_arrow().schema

    def write(**row: Any) -> None:
        row["geom"] = pa.scalar(row["geom"], schema.field("geom").type)
        arrays = {name: pa.array([value]) for name, value in row.items()}
        repo.write("points", pa.table(arrays))

    write(id=2, name="zwo", geom=_point(174.61, -41.11))
    write(id=9, name="neun", height=9.0, geom=_point(1.5, 2.5))
    write(id=1, height=10.0, geom=_point(174.5, -41.0))
    repo.write("points", pa.table({"id": [4]}), mode="delete")
    repo.set_meta("points", {"title": "Punkte"})
    repo.switch("survey")
    write(id=2, name="deux", geom=_point(174.63, -41.13))
    write(id=9, name="neuf", height=9.0, geom=_point(1.5, 2.5))
    write(id=1, name="un", geom=_point(174.5, -41.0))
    write(id=4, name="quatre", geom=_point(174.8, -41.3))
    repo.set_meta("points", {"title": "Points"})
    repo.switch("main")
    return path


def _point(x: float, y: float) -> bytes:
    import shapely

    return bytes(shapely.to_wkb(shapely.Point(x, y)))


@pytest.fixture
def repo(diverged: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(diverged, tmp_path / "repo", symlinks=True))


@pytest.fixture
def tell(run: Run) -> Tell:
    """Return a review as JSON."""

    def review(*arguments: str) -> dict[str, Any]:
        done = succeed(run("review", *arguments, "-o", "json"))
        found: dict[str, Any] = json.loads(done.stdout)["havasu.review/v2"]
        return found

    return review


def everything(repo: Path) -> dict[str, bytes]:
    """Return all that is stored of a repository and in its work tree, but what only saves time."""
    skipped = ("keys", "sound", "bitmaps", "logs", "loose")
    return {
        str(file.relative_to(repo)): file.read_bytes()
        for file in sorted(repo.rglob("*"))
        if file.is_file() and not set(file.relative_to(repo).parts).intersection(skipped)
    }


def test_both_sides_of_each_row(tell: Tell) -> None:
    found = tell("main...survey")["conflicts"]

    assert (found["ours"], found["theirs"], found["rows"]) == ("survey", "main", 3)
    (points,) = found["datasets"]
    assert (points["path"], points["rows"]) == ("points", 3)
    samples = {each["key"]: each for each in points["samples"]}
    assert {key: each["kind"] for key, each in samples.items()} == {
        "2": "same-cell",
        "4": "edit/delete",
        "9": "insert/insert",
    }
    cells = {key: {c["column"]: c for c in each["cells"]} for key, each in samples.items()}
    assert cells["2"]["name"] == {
        "column": "name",
        "base": "TWO",
        "ours": "deux",
        "theirs": "zwo",
        "clashes": True,
    }
    assert "height" not in cells["2"]  # alike in all three
    assert [
        samples["2"][f"{side}Geometry"]["coordinates"] for side in ("base", "ours", "theirs")
    ] == [
        [174.6, -41.1],
        [174.63, -41.13],
        [174.61, -41.11],
    ]
    assert samples["4"]["theirsGeometry"] is None
    assert cells["4"]["name"] == {
        "column": "name",
        "base": "four",
        "ours": "quatre",
        "theirs": None,
        "clashes": True,
    }
    assert samples["9"]["baseGeometry"] is None
    assert not cells["9"].get("height", {"clashes": False})["clashes"]
    (title,) = points["items"]
    assert title["name"] == "title"
    assert (title["base"], title["ours"], title["theirs"]) == (None, "Points", "Punkte")


@pytest.mark.thorough
def test_nothing_is_written(repo: Path, run: Run) -> None:
    succeed(run("review", "main...survey"))
    before = everything(repo)
    for form in ("markdown", "json", "html"):
        options = ["--output", repo.parent / "out"] if form == "html" else []
        succeed(run("review", "main...survey", "-o", form, *options))
    assert everything(repo) == before
    assert "merg" not in succeed(run("status")).stdout.lower()


def test_the_comment_shows_them_side_by_side(run: Run) -> None:
    text = succeed(run("review", "main...survey")).stdout

    assert "**3 rows and 1 meta item are in conflict with `main`**" in text
    assert "| row | column | base | ours: `survey` | theirs: `main` |" in text
    assert "| `2` | **`name`** | `TWO` | **`deux`** | **`zwo`** |" in text
    assert "| `4` | (the row) | there | **changed** | **deleted** |" in text
    (drawn,) = [
        json.loads(block)
        for block in re.findall(r"```geojson\n(.*)\n```", text)
        if '"theirs"' in block
    ]
    colours = {
        (each["properties"]["row"], each["properties"]["side"]): each["properties"]["marker-color"]
        for each in drawn["features"]
    }
    assert len({colours["2", side] for side in ("base", "ours", "theirs")}) == 3
    assert ("4", "theirs") not in colours


def commands(text: str) -> list[list[str]]:
    """Return the commands to copy of a comment."""
    (block,) = re.findall(r"```sh\n(.*?)\n```", text, re.DOTALL)
    return [shlex.split(line) for line in block.splitlines()]


def follow(text: str, place: Path) -> None:
    """Do what a comment says."""
    for program, *arguments in commands(text):
        if program == "git":
            run_git(*arguments, cwd=place)
        else:
            assert program == "havasu-vc"
            done = invoke(["-C", place, *arguments])
            # That there are conflicts is what `merge` and `pull` say.
            waits = arguments[0] in ("merge", "pull") and "--continue" not in arguments
            assert done.exit_code in ((0, 1) if waits else (0,)), (arguments, done.output)


def test_its_commands_settle_it(repo: Path, run: Run, tell: Tell) -> None:
    text = succeed(run("review", "main...survey")).stdout
    assert ["havasu-vc", "resolve", "--all", "--with=ours"] in commands(text)
    follow(text, repo)

    assert run_git("symbolic-ref", "--short", "HEAD", cwd=repo) == "survey"
    assert run_git("merge-base", "main", "survey", cwd=repo) == run_git(
        "rev-parse", "main", cwd=repo
    )
    rows = Repo.open(repo).table("points").to_arrow(["id", "name", "height"]).to_pylist()
    assert {row["id"]: (row["name"], row["height"]) for row in rows} == {
        1: ("un", 10.0),
        2: ("deux", 2.5),
        4: ("quatre", 4.5),
        9: ("neuf", 9.0),
    }
    assert tell("main...survey")["conflicts"] is None


@pytest.mark.thorough
def test_with_a_remote_they_push(repo: Path, run: Run, tmp_path: Path) -> None:
    run_git("init", "-q", "--bare", "-b", "main", tmp_path / "server.git", cwd=tmp_path)
    share(Repo.open(repo, settings=LOCAL), tmp_path / "server.git")
    run_git("switch", "-q", "survey", cwd=repo)
    succeed(run("push", "-u", "origin", "survey"))
    text = succeed(run("review", "origin/main...HEAD")).stdout
    follow(text, repo)

    there = run_git("rev-parse", "survey", cwd=tmp_path / "server.git")
    assert there == run_git("rev-parse", "HEAD", cwd=repo)
    git = ("merge-tree", "--write-tree", "main", "survey")
    assert run_git(*git, cwd=tmp_path / "server.git") == run_git(
        "rev-parse", "survey^{tree}", cwd=repo
    )


def test_nothing_is_said_where_git_merges(repo: Path, run: Run, tell: Tell) -> None:
    run_git("branch", "-f", "survey", "main", cwd=repo)
    run_git("switch", "-q", "survey", cwd=repo)
    work = Repo.open(repo, settings=LOCAL)
    work.write("points", pa.table({"id": [1], "name": ["eins"]}))
    work.switch("main")
    alone = succeed(run("review", "main...survey")).stdout
    work.write("points", pa.table({"id": [9], "name": ["noin"]}))

    assert tell("main...survey")["conflicts"] is None
    text = succeed(run("review", "main...survey")).stdout
    assert "conflict" not in text
    assert text.replace(", since their merge base", "").split("\n")[4:] == alone.split("\n")[4:]


def test_where_only_cells_are_apart_havasu_merges(repo: Path, run: Run, tell: Tell) -> None:
    run_git("branch", "-f", "survey", "main", cwd=repo)
    work = Repo.open(repo, settings=LOCAL)
    work.write("points", pa.table({"id": [1], "name": ["eins"]}))
    work.switch("survey")
    work.write("points", pa.table({"id": [1], "height": [7.0]}))

    found = tell("main...survey")["conflicts"]
    assert (found["rows"], found["datasets"]) == (0, [])
    text = succeed(run("review", "main...survey")).stdout
    assert "no cell is in conflict" in text
    assert not any("resolve" in line for line in commands(text))
    follow(text, repo)
    assert work.table("points").to_arrow(["id", "name", "height"]).to_pylist()[0] == {
        "id": 1,
        "name": "eins",
        "height": 7.0,
    }


def test_columns_in_conflict(repo: Path, run: Run, tell: Tell) -> None:
    run_git("branch", "-f", "survey", "main", cwd=repo)
    work = Repo.open(repo, settings=LOCAL)
    for branch, name in (("main", "hoehe"), ("survey", "hauteur")):
        work.switch(branch)
        columns = work.get_meta("points", ["schema.json"])["schema.json"]
        next(each for each in columns if each["name"] == "height")["name"] = name
        work.set_meta("points", {"schema.json": columns})

    (points,) = tell("main...survey")["conflicts"]["datasets"]
    (item,) = points["items"]
    assert (item["name"], item["columns"]) == ("schema.json", {"hauteur": ["name"]})
    text = succeed(run("review", "main...survey")).stdout
    assert "`hauteur` (name)" in text
    follow(text, repo)
    assert "hauteur" in work.table("points").to_arrow().column_names


def test_a_dataset_that_one_side_removed(repo: Path, run: Run, tell: Tell) -> None:
    run_git("branch", "-f", "survey", "main", cwd=repo)
    work = Repo.open(repo, settings=LOCAL)
    run_git("rm", "-q", "-r", "--sparse", "points", cwd=repo)
    run_git("commit", "-q", "-m", "Gone", cwd=repo)
    work.switch("survey")
    work.write("points", pa.table({"id": [1], "height": [7.0]}))

    (points,) = tell("main...survey")["conflicts"]["datasets"]
    (item,) = points["items"]
    assert (item["name"], item["base"], item["ours"], item["theirs"]) == (
        "dataset",
        "3 rows",
        "3 rows",
        None,
    )
    text = succeed(run("review", "main...survey")).stdout
    follow(text, repo)
    assert work.datasets() == ("points",)


def test_a_text_of_ones_own_in_conflict(repo: Path, run: Run, tell: Tell) -> None:
    for branch in ("main", "survey"):
        run_git("switch", "-q", branch, cwd=repo)
        (repo / "README.md").write_text(f"Made on {branch}\n")
        run_git("add", "README.md", cwd=repo)
        run_git("commit", "-q", "-m", "Read me", cwd=repo)

    assert tell("main...survey")["conflicts"]["files"] == ["README.md"]
    text = succeed(run("review", "main...survey")).stdout
    assert "`README.md`" in text
    lines = commands(text)
    assert ["git", "add", "README.md"] in lines


def test_hostile_names_stay_words(repo: Path, run: Run) -> None:
    run_git("branch", "-m", "survey", "x;$(touch${IFS}pwned)`y`", cwd=repo)
    text = succeed(run("review", "main...x;$(touch${IFS}pwned)`y`")).stdout

    assert ["git", "switch", "x;$(touch${IFS}pwned)`y`"] in commands(text)
    (block,) = re.findall(r"```sh\n(.*?)\n```", text, re.DOTALL)
    script = block.replace("havasu-vc", "true").replace("git", "true")
    subprocess.run(["sh", "-c", script], cwd=repo.parent, check=True)
    assert not (repo.parent / "pwned").exists()


@pytest.mark.slow
def test_a_hundred_thousand_conflicts(tmp_path: Path) -> None:
    from tests.support.templates import empty_repo

    count = 100_000
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    ids = pa.array(range(count), pa.int64())

    def rows(text: str) -> pa.Table:
        return pa.table({"id": ids, "text": [f"{text} {n} " + text * 400 for n in range(count)]})

    import pyarrow.parquet as pq

    from havasu_vc.exchange.source import SourceOptions

    pq.write_table(rows("a"), tmp_path / "big.parquet")
    repo.import_(tmp_path / "big.parquet", "big", options=SourceOptions(primary_key=("id",)))
    repo.create_branch("survey")
    repo.write("big", rows("b"))
    repo.switch("survey")
    repo.write("big", rows("c"))
    peaks = {}
    for name in ("survey..survey", "main..survey", "main...survey"):
        script = (
            "import resource, sys\n"
            "from havasu_vc.cli.main import cli\n"
            "try: cli(sys.argv[1:])\n"
            "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
        )
        done = subprocess.run(
            [sys.executable, "-c", script, "-C", repo.path, "review", name, "-o", "json"],
            capture_output=True,
            text=True,
            check=True,
        )
        peaks[name] = int(done.stderr.split()[-1])
    found = json.loads(done.stdout)["havasu.review/v2"]["conflicts"]
    assert found["rows"] == count
    assert len(found["datasets"][0]["samples"]) == 40
    # No more than looking at the changes takes, and a window of the other side.
    assert peaks["main...survey"] < peaks["main..survey"] + 150_000, peaks
