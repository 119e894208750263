"""Processes that die, are interrupted or race: nothing that was committed is lost.

After each the repository opens, the real git and our own fsck find nothing, every row of
every commit is there, and the next command works.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import Repo
from havasu_vc.errors import StorageError
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.examples import some
from tests.support.git import run_git
from tests.support.sound import LOCAL, assert_sound, leftovers, listing, status
from tests.support.templates import empty_repo

pytestmark = pytest.mark.few(1)

CHILD = Path(__file__).with_name("child.py")


def start(
    repo: Repo, *arguments: str, prepare: Callable[[], None] | None = None
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(CHILD), str(repo.path), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=prepare,
    )


def finish(child: subprocess.Popen[str]) -> tuple[int, str]:
    _, error = child.communicate(timeout=120)
    return child.returncode, error


def check_mended(folder: Path, expected: dict[str, int], said: str) -> Repo:
    """Check a repository in which a process died; `expected` are rows that must be there."""
    repo = Repo.open(folder, settings=LOCAL)
    fsck = run_git("fsck", "--strict", "--no-dangling", "--no-progress", cwd=folder)
    assert fsck == ""
    assert status(repo) == said
    assert list(repo.fsck(full=True)) == []
    for path, count in expected.items():
        assert repo.table(path).to_arrow().num_rows >= count
    before = len(list(repo.log()))
    repo.write("points", pa.table({"id": [5], "name": [f"after {time.time()}"]}))
    assert len(list(repo.log())) == before + 1
    assert status(repo) == said
    return repo


PLACES = [
    ("havasu_vc.store.files:DataFileStore.put", 1),
    ("havasu_vc.store.files:DataFileStore.put", 2),
    ("havasu_vc.store.files:DataFileStore.commit_all", 1),
    ("havasu_vc.repo.transaction:edit_tree", 1),
    ("havasu_vc.store.commits:format_commit", 1),
    ("havasu_vc.repo.transaction:move_head", 1),
    ("havasu_vc.store.index:_catch_up", 1),
    ("havasu_vc.store.index:_write_file", 1),
    ("havasu_vc.store.index:_format_marker", 1),
    ("os:fsync", 1),
    ("os:fsync", 2),
    ("os:fsync", 4),
    ("os:fsync", 6),
    ("os:replace", 1),
    ("os:replace", 2),
    ("shutil:rmtree", 1),
    ("havasu_vc.datasets.havasu.keys:write_key_cache", 1),
]


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    "what", ["upsert", *(pytest.param(what, marks=SLOW) for what in ("import", "meta", "first"))]
)
@pytest.mark.parametrize(
    "place",
    some(PLACES, PLACES[1], ("havasu_vc.repo.transaction:move_head", 1), ("os:fsync", 4)),
    ids=lambda place: f"{place[0].split(':')[1]}-{place[1]}",
)
def test_a_process_that_dies_anywhere_loses_nothing(
    tmp_path: Path, what: str, place: tuple[str, int]
) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(100))
    (repo.path / "notes.txt").write_text("the user's\n")
    commands = {
        "import": f"import:{file}:more",
        "upsert": "upsert:points:1,2,300",
        "meta": "meta:points:Title",
        "first": f"import:{file}:points",
    }
    if what != "first":
        repo.import_(file, options=BY_ID)
    said = status(repo)
    before = [info.id for info in repo.log()] if what != "first" else []

    code, error = finish(start(repo, commands[what], place[0], str(place[1])))

    assert code in (0, 9), error
    again = Repo.open(repo.path, settings=LOCAL)
    if what == "first" and "points" not in again.datasets():
        assert status(again) == said
        again.import_(file, options=BY_ID)
    mended = check_mended(repo.path, {"points": 100}, said)
    assert {info.id for info in mended.log()} >= set(before)
    assert mended.gc(grace_days=0).files >= 0
    assert list(mended.fsck(full=True)) == []
    assert leftovers(mended) == []


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=SLOW) for seed in range(1, 8))])
def test_a_process_that_is_killed_at_any_time_loses_nothing(tmp_path: Path, seed: int) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(30_000))
    repo.import_(file, options=BY_ID)
    said = status(repo)
    draw = random.Random(seed)
    for what in (f"import:{file}:more{seed}", "upserts:points:40000:30", "upserts:points:7:30"):
        child = start(repo, what)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(draw.uniform(0, 0.4))
        child.kill()
        child.communicate()
        commits = run_git("rev-list", "--count", "HEAD", cwd=repo.path)
        check_mended(repo.path, {"points": 30_000}, said)
        assert int(run_git("rev-list", "--count", "HEAD", cwd=repo.path)) == int(commits) + 1


@pytest.mark.parametrize(
    "delay", [*some((0.05, 0.2), 0.2), *(pytest.param(d, marks=SLOW) for d in (0.0, 0.4))]
)
@pytest.mark.parametrize("what", some(["import", "upserts"], "upserts"))
def test_ctrl_c_is_prompt_and_leaves_nothing(tmp_path: Path, what: str, delay: float) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(60_000))
    repo.import_(file, options=BY_ID)
    said = status(repo)
    commands = {"import": f"import:{file}:more", "upserts": "upserts:points:70000:500"}
    crowded = crowding()
    child = start(repo, commands[what])
    assert child.stdout is not None
    child.stdout.readline()
    time.sleep(delay)

    pressed = time.monotonic()
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=120)
    took = time.monotonic() - pressed

    assert took < 2 * max(crowded, crowding())
    repo = Repo.open(repo.path, settings=LOCAL)
    assert leftovers(repo) == []
    assert status(repo) == said
    check_mended(repo.path, {"points": 60_000}, said)


def crowding() -> float:
    """Return how many times as long as alone a process takes now that others run beside it."""
    began, wanted = time.monotonic(), time.process_time() + 0.1
    while time.process_time() < wanted:
        pass
    return max(1.0, (time.monotonic() - began) / 0.1)


def run_together(repo: Repo, commands: Sequence[str]) -> list[tuple[int, str]]:
    children = [start(repo, command) for command in commands]
    return [finish(child) for child in children]


@pytest.mark.thorough
def test_imports_of_several_processes_all_succeed(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(2000))

    done = run_together(repo, [f"import:{file}:layer{number}" for number in range(4)])

    assert done == [(0, "")] * 4
    assert repo.datasets() == ("layer0", "layer1", "layer2", "layer3")
    assert len(list(repo.log())) == 4
    assert status(repo) == ""
    assert_sound(repo, dangling=True)
    assert list(repo.fsck(full=True)) == []


@pytest.mark.thorough
def test_edits_of_one_dataset_by_several_processes_are_all_kept(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(10)), options=BY_ID)

    done = run_together(repo, [f"upserts:points:{start}:8" for start in (0, 100, 200, 300)])

    assert done == [(0, "")] * 4
    names = {row["id"]: row["name"] for row in rows(repo, "points")}
    for begin in (0, 100, 200, 300):
        for number in range(begin, begin + 8):
            assert names[number] == f"edit {number}"
    assert len(names) == 10 + 24
    assert len(list(repo.log())) == 33
    assert status(repo) == ""
    assert_sound(repo, dangling=True)
    assert list(repo.fsck(full=True)) == []


@pytest.mark.thorough
def test_edits_of_two_datasets_and_imports_at_once(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(500))
    repo.import_(file, "one", options=BY_ID)
    repo.import_(file, "two", options=BY_ID)

    done = run_together(
        repo,
        ["upserts:one:0:6", "upserts:two:0:6", f"import:{file}:three", f"import:{file}:a/b"],
    )

    assert done == [(0, "")] * 4
    assert repo.datasets() == ("a/b", "one", "three", "two")
    assert len(list(repo.log())) == 16
    assert status(repo) == ""
    assert_sound(repo, dangling=True)
    assert list(repo.fsck(full=True)) == []


@pytest.mark.thorough
def test_the_same_dataset_imported_by_several_processes_is_made_once(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(2000))

    done = run_together(repo, [f"import:{file}:points"] * 3)

    assert sorted(code for code, _ in done) == [0, 1, 1]
    for code, error in done:
        if code:
            assert error.startswith(("ConcurrentChangeError: ", "InvalidArgumentError: "))
            assert error.count("\n") == 1
    assert len(list(repo.log())) == 1
    assert len(rows(repo, "points")) == 2000
    assert_sound(repo, dangling=True)


@pytest.mark.thorough
def test_datasets_of_several_processes_do_not_come_to_nest(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(2000))

    done = run_together(repo, [f"import:{file}:{path}" for path in ("a", "a/b", "a/b/c")])

    assert sorted(code for code, _ in done) == [0, 1, 1]
    assert len(repo.datasets()) == 1
    assert_sound(repo, dangling=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(write(tmp_path / "points.parquet", points(10)), options=BY_ID)
    git = repo.git.git_directory
    git.chmod(0o555)
    (git / "havasu").chmod(0o555)
    try:
        assert len(rows(repo, "points")) == 10
        code, error = finish(start(repo, "upsert:points:1"))
        assert code == 1
        assert "permission denied" in error.casefold()
    finally:
        git.chmod(0o755)
        (git / "havasu").chmod(0o755)
    assert_sound(repo)


@pytest.mark.parametrize(
    "limit", [60_000, *(pytest.param(limit, marks=SLOW) for limit in (20, 500, 3_000, 200_000))]
)
@pytest.mark.parametrize("what", some(["import", "upsert"], "upsert"))
def test_a_file_that_may_not_grow_is_said(tmp_path: Path, what: str, limit: int) -> None:
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(40_000))
    repo.import_(file, options=BY_ID)
    before = listing(repo)
    commands = {"import": f"import:{file}:more", "upsert": "upsert:points:1,2,300"}

    def prepare() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    code, error = finish(start(repo, commands[what], prepare=prepare))

    if code:
        assert error.startswith("StorageError: "), error
        assert error.count("\n") == 1
        now = {name: text for name, text in listing(repo).items() if not _orphan(name)}
        assert now == {name: text for name, text in before.items() if not _orphan(name)}
    check_mended(repo.path, {"points": 40_000}, "")


def _orphan(name: str) -> bool:
    """Whether gc removes it if no commit names it."""
    return name.startswith((".git/objects/", ".git/havasu/objects/"))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("a file system cannot be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.thorough
def test_a_disk_that_fills_up_is_said(tmp_path: Path, small_disk: Path) -> None:
    repo = empty_repo(small_disk / "repo", settings=LOCAL)
    count = 0
    while True:
        table = points(15_000, start=count * 15_000)
        file = write(tmp_path / f"points{count}.parquet", table)
        code, error = finish(start(repo, f"import:{file}:points{count}"))
        if code:
            break
        count += 1
        assert count < 100
    assert error == error.splitlines()[0] + "\n" and "the disk is full" in error
    again = Repo.open(repo.path, settings=LOCAL)
    assert len(again.datasets()) == count and count
    assert list(again.fsck(full=True)) == []
    # The last commit may have left no room for git's index, which is brought up to it then.
    subprocess.run(["mount", "-o", "remount,size=6m", str(small_disk)], check=True)
    again = Repo.open(repo.path, settings=LOCAL)
    assert leftovers(again) == [] and status(again) == ""
    assert run_git("fsck", "--strict", "--no-dangling", cwd=repo.path) == ""


def test_a_disk_that_is_read_only_is_read(tmp_path: Path, small_disk: Path) -> None:
    repo = empty_repo(small_disk / "repo", settings=LOCAL)
    file = write(tmp_path / "points.parquet", points(2000))
    repo.import_(file, options=BY_ID)
    repo.import_(file, "along", options=BY_ID, order="hilbert")
    for path in ("points", "along"):
        repo.write(path, points(10, name="new"))
    shutil.rmtree(repo.git.data_folder / "keys")
    # What grew into another pack is gone, and open here as long as this is: no disk with such
    # files can be made read-only.
    repo.git.handle.free()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    try:
        again = Repo.open(repo.path, settings=LOCAL)
        assert len(rows(again, "points")) == 2000
        found = [sum(map(len, diff.changes)) for diff in again.diff("HEAD~2...HEAD")]
        assert found == [10, 10]
        one = again.table("points").to_arrow(keys=[(3,)])
        assert one["name"].to_pylist() == ["new 3"]
        assert list(again.fsck(full=True)) == [] and len(list(again.log())) == 4
        assert again.status().problems == ()
        assert again.export("points", tmp_path / "out.csv").rows == 2000
        actions: list[Callable[[], object]] = [
            lambda: again.write("points", points(3, name="more")),
            lambda: again.set_meta("points", {"title": "x"}),
            lambda: again.import_(file, "more", options=BY_ID),
            lambda: again.create_branch("side"),
            lambda: again.create_tag("v1"),
            lambda: again.switch("side", create=True),
            lambda: again.gc(),
        ]
        for action in actions:
            with pytest.raises(StorageError) as caught:
                action()
            assert "\n" not in caught.value.message
    finally:
        subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    assert_sound(repo)
