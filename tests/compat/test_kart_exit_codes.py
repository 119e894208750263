"""Exit codes in Kart's repositories: those with which real Kart ended on the same command lines.

`fixtures/golden/kart/exit-codes.txt` is what Kart 0.17 exited with and said. It is written anew
by Kart itself: `HAVASU_VC_KART=... pytest --update-golden tests/compat/test_kart_exit_codes.py`.
"""

import os
import shlex
import sqlite3
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import FIRST, invoke, succeed
from tests.support.golden import Golden
from tests.support.templates import again

KART = os.environ.get("HAVASU_VC_KART")
RECORD = Path(__file__).parents[2] / "fixtures" / "golden" / "kart" / "exit-codes.txt"
SHOPS = "id,name\n1,baker\n2,butcher\n"
PLACES = "id,name,lon,lat\n" + "".join(f"{n},p{n},17{n},-4{n}\n" for n in range(1, 5))

LINES: Mapping[str, str] = {
    "clean": """
        add-dataset nosuch -m x
        branch side
        branch -d side
        branch -d nosuch
        checkout -b side
        checkout --spatial-filter=@nosuch
        commit -m x nosuch
        commit-files -m x
        commit-files -m x a.txt=@nosuch
        create-patch HEAD^..HEAD
        create-workingcopy
        create-workingcopy --no-delete-existing
        create-workingcopy other.gpkg
        diff --crs nosuch -o json
        diff -o html --html-template nosuch
        diff nosuch
        export nosuch ../out.gpkg
        export points NOSUCH:../nosuch/out.gpkg
        export points ../out.gpkg --crs nosuch
        fetch
        fetch origin
        import ../more.gpkg
        import ../more.gpkg nosuch
        import ../more.gpkg nosuch:x
        import ../more.gpkg one:.bad
        import ../more.gpkg one:a:b
        import ../more.gpkg one:points
        import ../more.gpkg one:POINTS
        import ../more.gpkg one:CON
        import ../more.gpkg one:x --dataset-path y
        import ../more.gpkg one two --dataset-path y
        init
        lfs+ nosuch
        log nosuch
        log main nosuch
        meta get nosuch
        meta get points nosuch
        meta get points --ref nosuch
        meta set nosuch title=x
        meta set points schema.json=[]
        meta set points title=@nosuch
        mv nosuch x
        mv points shops
        push origin main
        remote add origin x
        remote get-url nosuch
        remote remove nosuch
        reset
        reset HEAD
        reset nosuch
        resolve x --with=ours
        show HEAD:nosuch
        show HEAD^..HEAD
        show HEAD^^^^^^
        show nosuch
        switch -c side
        tag -d nosuch
        tag t nosuch
        upgrade . ../new
    """,
    "alone": """
        pull
    """,
    "edited": """
        commit-files -m x a=b
        create-workingcopy
        create-workingcopy --delete-existing
        create-workingcopy --discard-changes
        data rm shops -m x
        meta set shops title=x
        mv shops x
        reset
        reset HEAD^
    """,
    "merging": """
        commit -m x
        merge --continue
        restore
        restore -s HEAD^ shops
        switch side
    """,
    "bare": """
        commit -m x
        create-workingcopy
        diff
        restore
    """,
    "empty": """
        commit -m x
        create-workingcopy
        diff
        log
        log -o json
        reset HEAD
        restore
        switch -c side
    """,
}
"""Command lines by the repository that they run in."""
CASES = [(scene, line.strip()) for scene in LINES for line in LINES[scene].strip().splitlines()]


def _clean(repo: Path) -> None:
    """Two tables, a working copy, two branches that conflict, and a remote that is gone."""
    succeed(invoke(["init", "--kart", repo]))
    source = repo.parent / f"{repo.name}-source"
    source.mkdir()
    for name, text in (("points", FIRST), ("shops", SHOPS)):
        (source / f"{name}.csv").write_text(text)
        options = ("--primary-key", "id")
        place = ("--crs", "EPSG:4326") if name == "points" else ()
        succeed(invoke(["-C", repo, "import", source / f"{name}.csv", *options, *place]))
    succeed(invoke(["-C", repo, "create-workingcopy", "copy.gpkg"]))
    succeed(invoke(["-C", repo, "switch", "-c", "side"]))
    _edit(repo, "UPDATE shops SET name = 'cobbler' WHERE id = 1")
    succeed(invoke(["-C", repo, "commit", "-m", "Side"]))
    succeed(invoke(["-C", repo, "switch", "main"]))
    _edit(repo, "UPDATE shops SET name = 'smith' WHERE id = 1")
    succeed(invoke(["-C", repo, "commit", "-m", "Main"]))
    succeed(invoke(["-C", repo, "remote", "add", "origin", "../gone.git"]))


def _alone(repo: Path) -> None:
    """A repository without a remote."""
    succeed(invoke(["init", "--kart", repo]))
    source = repo.parent / f"{repo.name}.csv"
    source.write_text(SHOPS)
    succeed(invoke(["-C", repo, "import", source, "shops", "--primary-key", "id"]))


def _edited(repo: Path) -> None:
    _clean(repo)
    _edit(repo, "UPDATE shops SET name = 'tailor' WHERE id = 2")


def _merging(repo: Path) -> None:
    _clean(repo)
    invoke(["-C", repo, "merge", "side"])


def _bare(repo: Path) -> None:
    succeed(invoke(["init", "--kart", "--bare", repo]))
    source = repo.parent / f"{repo.name}.csv"
    source.write_text(SHOPS)
    succeed(invoke(["-C", repo, "import", source, "shops", "--primary-key", "id"]))


def _empty(repo: Path) -> None:
    succeed(invoke(["init", "--kart", repo]))


SCENES: Mapping[str, Callable[[Path], None]] = {
    "alone": _alone,
    "clean": _clean,
    "edited": _edited,
    "merging": _merging,
    "bare": _bare,
    "empty": _empty,
}


def _edit(repo: Path, statement: str) -> None:
    with closing(sqlite3.connect(repo / "copy.gpkg", isolation_level=None)) as database:
        database.execute(statement)


def made(scene: str, folder: Path) -> Path:
    """Return a repository in which command lines run."""
    repo = folder / "repo"
    again(("kart-exit-codes", scene), SCENES[scene], repo)
    return repo


def source(line: str, repo: Path) -> None:
    """Make what a command line imports: a GeoPackage with two layers."""
    if line.startswith("import "):
        for name, layer in (("points", "one"), ("shops", "two")):
            to = repo.parent / "more.gpkg"
            succeed(invoke(["-C", repo, "export", name, to, "--layer", layer]))


def recorded() -> dict[tuple[str, str], tuple[int, str]]:
    """Return how Kart ended: its exit code, and what it said last on stderr."""
    found = {}
    for line in RECORD.read_text().splitlines():
        scene, words, code, said = line.split("\t")
        found[scene, words] = (int(code), said)
    return found


@pytest.mark.parametrize(("scene", "line"), CASES)
def test_a_command_ends_as_in_kart(
    scene: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = made(scene, tmp_path)
    source(line, repo)
    monkeypatch.chdir(repo)
    ended = invoke(shlex.split(line))
    code, said = recorded()[scene, line]
    assert ended.exit_code == code, f"{ended.stderr}; Kart says {said}"
    assert ended.stderr and not ended.stdout, "an error is told on stderr alone"


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("mv nosuch x", 49),
        ("export nosuch out.gpkg", 49),
        ("fetch origin", 20),
        ("push origin main", 20),
        ("show HEAD:nosuch", 2),
        ("add-dataset nosuch", 45),
    ],
)
def test_elsewhere_they_are_those_of_the_kinds_of_errors(
    line: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, source = tmp_path / "repo", tmp_path / "points.csv"
    source.write_text(FIRST)
    succeed(invoke(["init", repo]))
    succeed(invoke(["-C", repo, "import", source, "--primary-key", "id", "--crs", "EPSG:4326"]))
    succeed(invoke(["-C", repo, "remote", "add", "origin", "../gone.git"]))
    monkeypatch.chdir(repo)
    assert invoke(shlex.split(line)).exit_code == code


@pytest.mark.kart
@pytest.mark.skipif(not KART, reason="HAVASU_VC_KART names no command that runs Kart")
def test_kart_itself_ends_so(tmp_path: Path, golden: Golden) -> None:
    assert KART is not None
    lines = []
    for number, (scene, line) in enumerate(CASES):
        repo = made(scene, tmp_path / str(number))
        source(line, repo)
        ended = subprocess.run(
            [KART, *shlex.split(line)], cwd=repo, capture_output=True, text=True, check=False
        )
        said = [each for each in ended.stderr.splitlines() if each.startswith(("Error", "fatal"))]
        shown = said[0].replace(str(repo.parent), "..") if said else ""
        lines.append(f"{scene}\t{line}\t{ended.returncode}\t{shown}\n")
    golden("".join(lines), RECORD)
