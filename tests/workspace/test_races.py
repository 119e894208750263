"""Someone writes to a table while it is committed, checked out or switched: nothing is lost."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import NoChangesError, UncommittedChangesError
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.tables.publishing import publish
from havasu_vc.tables.table import read_table
from tests.repo.checkouts import assert_shows_head
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.sound import LOCAL, assert_sound
from tests.support.templates import empty_repo
from tests.workspace import by_hand
from tests.workspace.sheets import counts_of, rows_of

Write = Callable[[], object]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with `points` checked out, and a branch `side` with another row."""
    made = empty_repo(tmp_path / "repo", settings=LOCAL)
    made.import_(write(tmp_path / "points.parquet", points(20)), options=BY_ID)
    made.switch("side", create=True)
    made.write("points", points(20).slice(3, 1).set_column(2, "name", [["side"]]))
    made.switch("main")
    made.workspace.check_out()
    return made


def place(repo: Repo) -> Path:
    return repo.workspace.root / "points"


def insert(repo: Repo, key: int) -> None:
    by_hand.insert(place(repo), [{"id": key, "geom": None, "name": "new", "number": 1}])


@contextmanager
def just_before_publishing(act: Write, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let someone be faster once: after the table was read, before it is published."""
    waiting = [act]

    def slower(*arguments: object, **options: object) -> object:
        if waiting:
            waiting.pop()()
        return publish(*arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr("havasu_vc.workspace.in_folder.publish", slower)
        yield
    assert not waiting


def test_edits_that_head_has_by_now_are_no_edits(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(repo, 500)
    with monkeypatch.context() as patch:
        patch.setattr("havasu_vc.checkouts.catching_up._follow", lambda *_, **__: None)
        repo.workspace.commit(message="Died before the tables came along")
    again = Repo.open(repo.path, settings=LOCAL)

    with suppress(NoChangesError):
        again.workspace.commit(message="Nothing new")

    assert [info.message.strip() for info in again.log(limit=1)] == [
        "Died before the tables came along"
    ]
    assert again.workspace.edited() == {}
    assert_shows_head(again)
    assert_sound(again)


def test_a_write_during_a_commit_waits_for_the_next(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(repo, 500)
    with just_before_publishing(lambda: insert(repo, 501), monkeypatch):
        result = repo.workspace.commit(message="First")
    assert result.changes["points"] == ChangeCounts(inserts=1)
    assert {500} == {row["id"] for row in rows(repo, "points")} - set(range(20))

    # What was committed is in the table as well as in HEAD; what was not is the edit.
    assert {row["id"] for row in rows_of(repo, "points")} >= {500, 501}
    second = repo.workspace.commit(message="Second")
    assert second.changes["points"] == ChangeCounts(inserts=1)
    assert {500, 501} == {row["id"] for row in rows(repo, "points")} - set(range(20))
    assert counts_of(repo, "points") == ChangeCounts()
    assert_shows_head(repo)
    assert_sound(repo)


def test_a_write_during_a_switch_stays(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    with just_before_publishing(lambda: insert(repo, 501), monkeypatch):
        repo.switch("side")
    assert repo.head_branch == "side"
    assert counts_of(repo, "points") == ChangeCounts(inserts=1)

    assert repo.workspace.commit(message="Edit").changes["points"].inserts == 1
    found = {row["id"]: row["name"] for row in rows(repo, "points")}
    assert found[3] == "side" and found[501] == "new"
    assert_shows_head(repo)


def test_a_write_while_edits_are_dropped_is_no_less_an_edit(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert(repo, 500)
    with just_before_publishing(lambda: insert(repo, 501), monkeypatch):
        repo.workspace.check_out(discard=True)
    assert {500, 501} <= {row["id"] for row in rows_of(repo, "points")}


@pytest.mark.thorough
def test_writes_all_the_time_are_all_committed_once(repo: Repo) -> None:
    """Another process inserts rows while this one commits."""
    code = (
        "import sys, time; from pathlib import Path\n"
        "from havasu_vc.errors import ConcurrentChangeError\n"
        "from tests.workspace import by_hand\n"
        "for key in range(1000, 1012):\n"
        "    while True:\n"
        "        try:\n"
        "            by_hand.insert(Path(sys.argv[1]), "
        "[{'id': key, 'geom': None, 'name': 'n', 'number': 1}])\n"
        "            break\n"
        "        except ConcurrentChangeError:\n"
        "            time.sleep(0.01)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen([sys.executable, "-c", code, str(place(repo))], cwd=root) as child:
        while child.poll() is None:
            if counts_of_quietly(repo):
                repo.workspace.commit(message="Some")
    assert child.returncode == 0
    if repo.workspace.edited():
        repo.workspace.commit(message="Rest")
    found = [row["id"] for row in rows(repo, "points")]
    assert sorted(found) == [*range(20), *range(1000, 1012)]
    assert_shows_head(repo)
    assert_sound(repo)


def counts_of_quietly(repo: Repo) -> int:
    changes = repo.workspace.changes()
    return 0 if changes is None else sum(each.total for each in changes.tables.values())


ENDLESS = """
import sys
from havasu_vc import Repo, Settings
repo = Repo.open(sys.argv[1], settings=Settings(engine="local"))
print("ready", flush=True)
from tests.workspace import by_hand
place = repo.workspace.root / "points"
key = 10_000
while True:
    key += 1
    by_hand.insert(place, [{"id": key, "geom": None, "name": "n", "number": 1}])
    print(key, flush=True)
    repo.workspace.commit(message="Edit")
    print("committed", key, flush=True)
    repo.switch("other")
    repo.switch("main")
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 12))]
)
def test_killed_while_committing_and_switching(repo: Repo, seed: int) -> None:
    """After kill -9 every row that was written is in HEAD or an edit, and all goes on."""
    repo.switch("other", create=True, start="side")
    repo.switch("main")
    root = Path(__file__).parents[2]
    chance = random.Random(seed)
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(repo.path)],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        for _ in range(chance.randrange(1, 6)):
            child.stdout.readline()
        time.sleep(chance.uniform(0, 0.15))
        child.send_signal(signal.SIGKILL)
        told = [line.split() for line in child.stdout.read().splitlines()]
    assert child.returncode == -signal.SIGKILL
    # As after a git that was killed, locks are for the user to remove.
    for lock in repo.git.common_directory.rglob("*.lock"):
        lock.unlink()

    again = Repo.open(repo.path, settings=LOCAL)
    assert list(again.fsck(full=True)) == []
    if again.workspace.edited():
        with suppress(NoChangesError):  # it was killed when HEAD had them, and the tables not
            again.workspace.commit(message="What was left")
    assert again.workspace.edited() == {}
    again.switch("main")
    kept = {row["id"] for row in rows(again, "points")}
    again.switch("other")
    kept |= {row["id"] for row in rows(again, "points")}
    written = {int(line[-1]) for line in told if line}
    assert set(range(10_001, max(written, default=10_000) + 1)) <= kept
    again.workspace.check_out()
    assert_shows_head(again)
    again.gc(grace_days=0)  # what was staged for the commit that died
    assert_sound(again, dangling=True)  # the commit itself may have been written


ANEW = """
import shutil, sys
from havasu_vc import Repo, Settings
repo = Repo.open(sys.argv[1], settings=Settings(engine="local"))
print("ready", flush=True)
while True:
    repo.workspace.check_out()
    shutil.rmtree(repo.workspace.root)
    (repo.git.git_directory / "havasu" / "workspace.json").unlink()
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("delay", [0.0, 0.05, pytest.param(0.11, marks=pytest.mark.slow)])
def test_killed_while_the_tables_are_made(repo: Repo, delay: float) -> None:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", ANEW, str(repo.path)], cwd=root, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.send_signal(signal.SIGKILL)
    for lock in repo.git.common_directory.rglob("*.lock"):
        lock.unlink()

    again = Repo.open(repo.path, settings=LOCAL)
    again.workspace.check_out()
    assert_shows_head(again)
    assert again.workspace.edited() == {}
    assert not [path.name for path in again.workspace.root.iterdir() if path.name != "points"]
    assert list(again.fsck(full=True)) == []


@contextmanager
def slow_commit(repo: Repo, key: int) -> Iterator[Write]:
    """Let a writer find the name of the next version free now, and rename its file later.

    So does Iceberg on a file system: it asks, then renames, and a rename replaces.
    """
    insert(repo, key)
    table = read_table(place(repo))
    held = table.metadata_file.with_name("held.tmp")
    table.metadata_file.rename(held)
    hint = table.metadata_file.with_name("version-hint.text")
    hint.write_text(str(table.version - 1))

    def rename() -> None:
        held.replace(table.metadata_file)
        hint.write_text(str(table.version))

    yield rename
    assert not held.exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("later", [False, True])
def test_a_version_that_replaced_ours_is_an_edit_of_what_it_began_with(
    repo: Repo, later: bool
) -> None:
    with slow_commit(repo, 501) as rename:
        repo.switch("side")
        assert_shows_head(repo)
        rename()
    if later:
        insert(repo, 502)
    added = 1 + later

    # The row of `side` was never in what the writer saw, so that it lacks it is no edit.
    assert counts_of(repo, "points") == ChangeCounts(inserts=added)
    repo.switch("main")
    assert counts_of(repo, "points") == ChangeCounts(inserts=added)
    with pytest.raises(UncommittedChangesError):
        repo.switch("side")
    assert repo.workspace.commit(message="Edit").changes["points"] == ChangeCounts(inserts=added)
    assert {row["id"] for row in rows(repo, "points")} >= {501}
    assert_shows_head(repo)
    assert_sound(repo)


def test_a_version_that_replaced_ours_at_once_stops_a_checkout(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    with slow_commit(repo, 501) as rename, monkeypatch.context() as patch:

        def slower(*arguments: object, **options: object) -> object:
            published = publish(*arguments, **options)  # type: ignore[arg-type]
            rename()
            return published

        patch.setattr("havasu_vc.workspace.in_folder.publish", slower)
        repo.switch("side")

    assert counts_of(repo, "points") == ChangeCounts(inserts=1)
    repo.workspace.commit(message="Edit")
    found = {row["id"]: row["name"] for row in rows(repo, "points")}
    assert found[3] == "side" and found[501] == "new"
    assert_shows_head(repo)


def test_tables_that_were_copied_are_still_as_they_were_left(repo: Repo) -> None:
    metadata = read_table(place(repo)).metadata_file
    data = metadata.read_bytes()
    metadata.unlink()
    metadata.write_bytes(data)

    assert counts_of(repo, "points") == ChangeCounts()
    repo.switch("side")
    assert_shows_head(repo)
