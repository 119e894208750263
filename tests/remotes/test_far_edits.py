"""Small edits of a table in a bucket bring no data file of it, whichever command makes them."""

import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.havasu import locate
from havasu_vc.datasets.kinds import require_files
from havasu_vc.formats.havasu.entry import Entry
from tests.cli.conftest import invoke, succeed
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.buckets import there
from tests.remotes.sharing import bare, clone, files, reopened, share
from tests.repo.tables import BY_ID, NO_KEY, points, rows, write
from tests.support.sound import LOCAL
from tests.support.templates import empty_repo

FILES, ROWS = 8, 30
Job = Callable[[Repo], object]


def table(number: int) -> pa.Table:
    """Return the rows of one file, whose keys lie among those of all others."""
    ids = pa.array(range(number, FILES * ROWS, FILES))
    return points(FILES * ROWS).take(ids)


@pytest.fixture
def server(tmp_path: Path, url: str) -> Path:
    """A git server of a table of many files, each of which may have any key."""
    ours = empty_repo(tmp_path / "ours", settings=LOCAL)
    with tiny_thresholds(most_deltas=99, group_rows=10):
        source = write(tmp_path / "points.parquet", table(0))
        ours.import_(source, "points", options=BY_ID)
        ours.import_(source, "loose", options=NO_KEY)
        for number in range(1, FILES):
            ours.write("points", table(number), mode="append")
        for number in range(1, 4):
            ours.write("loose", table(number), mode="append")
    share(ours, bare(tmp_path / "server.git"), data=f"{url}/data")
    run(ours, "switch", "-c", "side")
    reopened(ours).write("points", points(3, start=20, name="by others"))
    run(ours, "push", "origin", "side")
    return tmp_path / "server.git"


def data_files(repo: Repo, path: str) -> Iterable[Entry]:
    return require_files(reopened(repo).dataset(path)).data_entries


def run(repo: Repo, *words: str | Path) -> None:
    succeed(invoke(["-C", repo.path, *words]))


def edited_copy(folder: Path, repo: Repo) -> Path:
    """Return a copy as GeoPackage, in which two rows were edited."""
    run(repo, "checkout", "--as", folder / "copy.gpkg", "points")
    database = sqlite3.connect(folder / "copy.gpkg")
    for name in ("IsEmpty", "MinX", "MaxX", "MinY", "MaxY"):
        database.create_function(f"ST_{name}", 1, lambda shape: 0)
    database.execute("update points set name = 'by hand' where id in (40, 41)")
    database.commit()
    database.close()
    return folder / "copy.gpkg"


def jobs(folder: Path, full: Repo) -> dict[str, Job]:
    """Return what changes a few rows, by name; `full` is a clone that has all the data."""
    copy = edited_copy(folder, full)
    full.write("points", points(3, start=100, name="patched"))
    run(full, "create-patch", "HEAD", "--output", folder / "some.patch")
    run(full, "reset", "--hard", "HEAD^")
    loose = pa.concat_tables(table(number) for number in range(4)).to_pylist()
    loose[40]["name"] = "by patch"
    kept = pa.Table.from_pylist([*loose[:70], *loose[72:]], schema=points(1).schema)
    full.write("loose", kept, mode="overwrite")  # of three rows of two files of four
    run(full, "create-patch", "HEAD", "--output", folder / "loose.patch")
    run(full, "reset", "--hard", "HEAD^")
    whole = points(FILES * ROWS).to_pylist()
    for row in (whole[7], whole[230]):
        row["name"] = "released"
    release = pa.Table.from_pylist(whole, schema=points(1).schema)
    source = write(folder / "release.parquet", release)
    back = ("restore", "-s", "origin/main", "points", "-m", "Back")
    return {
        "apply": lambda repo: run(repo, "apply", folder / "some.patch"),
        "merge": lambda repo: run(repo, "merge", "origin/side", "-m", "Merge"),
        "upsert": lambda repo: repo.write("points", points(5, start=200, name="written")),
        "delete": lambda repo: repo.write("points", points(2).select(["id"]), mode="delete"),
        "append": lambda repo: repo.write("points", points(2, start=9000), mode="append"),
        "apply without a key": lambda repo: run(repo, "apply", folder / "loose.patch"),
        "append without a key": lambda repo: repo.write("loose", points(2), mode="append"),
        "copy": lambda repo: run(repo, "commit", "--from", copy, "-m", "Copy"),
        "revert": lambda repo: run(repo, "revert", "HEAD", "-m", "Not so"),
        "restore": lambda repo: run(repo, *back),
        "release": lambda repo: run(repo, "import", source, "points", "--replace"),
        "optimize": lambda repo: run(repo, "optimize"),
    }


def test_no_file_comes_for_an_edit_of_many_rows(
    server: Path, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Key caches are made of what is read there, and serve what is looked up later."""
    full = clone(server, tmp_path / "full", data_url=f"{url}/data")
    lazy = clone(server, tmp_path / "lazy", data_url=f"{url}/data", on_demand=True)
    monkeypatch.setattr(locate, "FEW_KEYS", 2)
    away = {e.file for path in ("points", "loose") for e in data_files(full, path)}
    every = jobs(tmp_path, full)
    for name in ("apply", "apply without a key", "upsert", "append without a key"):
        every[name](reopened(full))
        every[name](reopened(lazy))
        assert away.isdisjoint(files(lazy)), name
        for path in ("points", "loose"):
            wanted, found = (require_files(reopened(r).dataset(path)) for r in (full, lazy))
            assert found.snapshot == wanted.snapshot, name
    cached = {path.name.partition("-")[0] for path in lazy.opened.storage.keys.iterdir()}
    assert len(cached & away) > FILES // 2


@pytest.mark.thorough
def test_no_file_of_the_table_comes_for_an_edit_of_a_few_rows(
    server: Path, tmp_path: Path, url: str, endpoint: str
) -> None:
    full = clone(server, tmp_path / "full", data_url=f"{url}/data")
    lazy = clone(server, tmp_path / "lazy", data_url=f"{url}/data", on_demand=True)
    views = [full.dataset(*each) for each in (("points",), ("loose",), ("points", "origin/side"))]
    table, loose, side = ({e.file for e in require_files(v).data_entries} for v in views)
    assert len(table) == FILES and len(side - table) == 1
    away = table | loose | side

    for name, job in jobs(tmp_path, full).items():
        job(reopened(full))
        job(reopened(lazy))
        if name == "restore":
            away -= side - table  # what a commit wrote that is taken back
        assert away.isdisjoint(files(lazy)), name
        for path in ("points", "loose"):
            wanted, found = (require_files(reopened(r).dataset(path)) for r in (full, lazy))
            assert found.snapshot == wanted.snapshot, name
            assert found.stored_entries.keys() == wanted.stored_entries.keys(), name

    stored = there(endpoint, url)
    source = write(tmp_path / "all.parquet", points(FILES * ROWS, name="all"))
    run(lazy, "import", source, "points", "--replace", "--dry-run")
    assert there(endpoint, url) == stored, "what is tried leaves nothing"
    lazy.push()
    last = clone(server, tmp_path / "last", data_url=f"{url}/data")
    assert list(last.fsck(full=True)) == []
    wanted_rows = rows(reopened(full), "points")
    assert rows(last, "points") == wanted_rows

    here = files(lazy)
    run(lazy, "convert", "loose", "--to", "kart", "--history")
    run(lazy, "convert", "points", "--to", "kart")
    assert files(lazy) == here, "what becomes git's objects is read in the bucket"
    assert rows(reopened(lazy), "points") == wanted_rows
    run(lazy, "convert", "points", "--to", "havasu")
    reopened(lazy).push()
    newest = clone(server, tmp_path / "newest", data_url=f"{url}/data")
    assert list(newest.fsck(full=True)) == []
    assert rows(newest, "points") == wanted_rows
