"""SIGKILL at random moments, of those who push and pull and of the server; disks that are full.

Whenever that happens, no ref of the remote names data that it lacks, nothing that a push
was told to have arrived is missing later, and doing it again goes on.
"""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import HavasuError
from tests.remotes.children import started
from tests.remotes.sharing import (
    assert_keeps_its_promise,
    bare,
    clone,
    files,
    named,
    reopened,
    share,
    store,
)
from tests.repo.points import assert_clean, make, read, write
from tests.support.examples import some
from tests.support.git import run_git

ROOT = Path(__file__).parents[2]
SERVE = """
import sys
from pathlib import Path
from tests.support.web import serving
with serving(Path(sys.argv[1])) as server:
    print(server.server_address[1], flush=True)
    sys.stdin.read()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("at_url", some([False, True], False))
@pytest.mark.parametrize(("seed", "rounds"), [(1, 6), pytest.param(2, 40, marks=pytest.mark.slow)])
def test_processes_killed_at_random(tmp_path: Path, at_url: bool, seed: int, rounds: int) -> None:
    draw = random.Random(seed)
    server = bare(tmp_path / "server.git")
    data = tmp_path / "data" if at_url else None
    url = data.as_uri() if data else None
    first = make(tmp_path / "first", {0: ("first", 0)})
    share(first, server, data=url)
    places = [tmp_path / f"clone{number}" for number in range(2)]
    for place in places:
        clone(server, place, data_url=url)
    began = time.monotonic()
    assert started(places[0], "pull").wait() == 0
    usual = time.monotonic() - began
    acknowledged: set[str] = set()

    for number in range(rounds):
        place = draw.choice(places)
        repo = Repo.open(place, settings=first.settings)
        write(repo, {**read(repo), 100 + number: ("new", number)})
        what = draw.choice(["push", "push", "pull"])
        code = started(place, what).wait(draw.uniform(0.1, 1.2) * usual)
        if what == "push" and code == 0:
            acknowledged |= named(server)
        assert_keeps_its_promise(server, data)
        assert acknowledged <= named(server)
        for lock in place.rglob("*.lock"):
            lock.unlink()  # git's own, of a git that was killed; it says to do so

    for _ in range(2):
        for place in places:
            repo = Repo.open(place, settings=first.settings)
            repo.fetch()
            repo.merge(repo.upstream())
            reopened(repo).push()
    rows = read(Repo.open(places[0], settings=first.settings))
    assert rows.keys() == {0, *(100 + number for number in range(rounds))}
    for place in (*places, tmp_path / "fresh"):
        if not place.exists():
            clone(server, place, data_url=url)
        repo = Repo.open(place, settings=first.settings)
        repo.fetch()
        repo.merge(repo.upstream())
        assert read(repo) == rows
        assert list(repo.fsck(full=True)) == []
        assert_clean(repo)
    assert_keeps_its_promise(server, data)


@pytest.mark.thorough
def test_a_server_that_is_killed(tmp_path: Path) -> None:
    web = tmp_path / "web"
    web.mkdir()
    bare(web / "points.git")
    run_git("config", "http.receivepack", "true", cwd=web / "points.git")

    def serve() -> "tuple[subprocess.Popen[str], str]":
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, str(web)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert process.stdout is not None
        return process, f"http://127.0.0.1:{process.stdout.readline().strip()}/points.git"

    def stop(process: "subprocess.Popen[str]") -> None:
        process.kill()
        process.communicate()

    process, url = serve()
    ours = make(tmp_path / "ours", {0: ("first", 0)})
    try:
        share(ours, url)
        theirs = clone(url, tmp_path / "theirs")
        for number in range(3):
            write(ours, {**read(ours), 10 + number: ("new", number)})
            pushing = started(ours.path, "push")
            time.sleep(0.25 * (number + 1))
            stop(process)
            pushing.wait()
            there = {path.name for path in (web / "lfs").iterdir()}
            assert named(web / "points.git") <= there
            with pytest.raises(HavasuError) as caught:
                reopened(theirs).fetch()
            assert "\n" not in caught.value.message
            process, url = serve()
            for repo in (ours, theirs):
                run_git("remote", "set-url", "origin", url, cwd=repo.path)
            reopened(ours).push()
            reopened(theirs).fetch()
            assert read(reopened(theirs), "origin/main") == read(ours)
    finally:
        stop(process)
    assert list(reopened(theirs).fsck(full=True)) == []


@pytest.mark.few(1)
@pytest.mark.parametrize("side", ["push", "pull"])
def test_a_disk_that_is_full(tmp_path: Path, side: str) -> None:
    """A limit on the size of files stands for it: the system refuses to write on."""
    server, data = bare(tmp_path / "server.git"), tmp_path / "data"
    ours = make(tmp_path / "ours", {0: ("first", 0)})
    share(ours, server, data=data.as_uri())
    theirs = clone(server, tmp_path / "theirs", data_url=data.as_uri())
    draw = random.Random(3)
    write(ours, {number: (draw.randbytes(20).hex(), number) for number in range(9000)})
    if side == "pull":
        reopened(ours).push()
    repo = ours if side == "push" else theirs
    before = set(files(repo))
    for path in (ours.git.data_folder if side == "push" else data).glob("objects/*/*/*"):
        path.chmod(0o644)  # it is copied then, not linked

    child = started(repo.path, side, largest=100_000)

    assert child.wait() == 1 and "Traceback" not in child.errors, child.errors
    assert len(child.errors.splitlines()) == 1 and "Error: " in child.errors
    assert_keeps_its_promise(server, data)
    assert set(files(repo)) >= before
    for file in files(repo):
        store(repo).verify(file)
    left = [path for path in data.rglob("*") if path.is_file() and path.stat().st_size == 100_000]
    assert left == []
    assert started(repo.path, side).wait() == 0
    if side == "push":
        assert started(theirs.path, "pull").wait() == 0
    assert read(reopened(theirs)) == read(ours)
    assert list(reopened(theirs).fsck(full=True)) == []
