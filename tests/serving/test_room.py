"""What the catalog derives is bounded: the oldest goes, and what clients were told of stays."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.store.room import WANTED_SECONDS, make_room
from tests.repo.points import make
from tests.serving.server import catalog, serving
from tests.serving.test_reading import expected, in_order

SWEPT_OFTEN = "import havasu_vc.serving.remembering as w; w.SWEPT_AFTER = 1; w.NOTED_SECONDS = 0"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    repo = make(tmp_path / "repo", {n: (f"n{n}", n) for n in range(20)})
    for number in range(3):
        repo.write("points", pa.table({"id": [number], "name": ["new"]}), message=f"{number}")
    repo.write("points", pa.table({"id": [5]}), mode="delete", message="No 5")
    return repo


def derived(repo: Repo) -> dict[Path, int]:
    """Return the files that can be made again, and their sizes."""
    root = repo.git.data_folder / "catalog"
    files = [path for name in ("tables", "feeds") for path in (root / name).rglob("*")]
    return {path: path.stat().st_size for path in files if path.is_file()}


def age(repo: Repo) -> None:
    """Let all that was derived be of yesterday."""
    then = time.time() - WANTED_SECONDS - 60
    for path in derived(repo):
        os.utime(path, (then, then))


def read(url: str) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a table and of its feed."""
    served = catalog(url)
    for name in ("points", "points__changes"):
        table = served.load_table(f"tables.{name}").scan().to_arrow()
        yield in_order(table.select(["id", "name"]))


@pytest.mark.thorough
def test_the_oldest_goes_and_is_made_again(repo: Repo) -> None:
    repo.git.git("config", "havasu.catalog.keep", "1k")
    with serving(repo.path, first=SWEPT_OFTEN) as url:
        before = list(read(url))
        written = derived(repo)
        assert sum(written.values()) > 1024  # a client was just told of it
        age(repo)
        repo.write("points", pa.table({"id": [1], "name": ["one"]}), message="One more")
        list(read(url))
        for _ in range(100):
            if not written.keys() <= derived(repo).keys():
                break
            time.sleep(0.1)
        gone = written.keys() - derived(repo).keys()
        assert gone
        now = list(read(url))
        assert now[0] == [{k: row[k] for k in ("id", "name")} for row in expected(repo, "points")]
        assert len(now[1]) == len(before[1]) + 2


@pytest.mark.thorough
def test_what_is_gone_is_made_anew_for_who_asks(repo: Repo) -> None:
    with serving(repo.path, first=SWEPT_OFTEN) as url:
        before = list(read(url))
        for path in derived(repo):
            path.unlink()
        assert list(read(url)) == before


@pytest.mark.thorough
def test_gc_drops_what_nobody_asked_for(repo: Repo) -> None:
    with serving(repo.path) as url:
        before = list(read(url))
    repo.gc(grace_days=0)
    assert derived(repo)
    age(repo)
    size = sum(derived(repo).values())
    assert repo.gc(grace_days=0, dry_run=True).size >= size and derived(repo)
    assert repo.gc(grace_days=0).size >= size
    assert derived(repo) == {}
    with serving(repo.path) as url:
        assert list(read(url)) == before


def test_room_is_made_from_the_oldest_on(tmp_path: Path) -> None:
    folder = tmp_path / "tables" / "one"
    folder.mkdir(parents=True)
    for number in range(10):
        place = folder / f"{number}"
        place.write_bytes(bytes(100))
        moment = time.time() - WANTED_SECONDS - 1000 + number
        os.utime(place, (moment, moment))
    assert make_room(tmp_path, 450) == 600
    assert sorted(path.name for path in folder.iterdir()) == ["6", "7", "8", "9"]
    os.utime(folder / "6")
    assert make_room(tmp_path, 0) == 300
    assert [path.name for path in folder.iterdir()] == ["6"]
