"""Edits of a table in a bucket are committed where no data is: it is read and written there."""

import random
import sys
from collections.abc import Callable, Collection
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from havasu_vc import Repo
from havasu_vc.datasets.havasu import diff
from havasu_vc.datasets.kinds import require_files
from havasu_vc.errors import ConflictError, KeyViolationError
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.history import owned_changes, owned_deletes, owned_edits
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.store.object_systems import object_size, url_below
from havasu_vc.workspace import incoming
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.buckets import edit_rows, there
from tests.remotes.sharing import bare, clone, files, reopened, share
from tests.repo.tables import points, rows, write
from tests.support.sound import LOCAL
from tests.support.templates import empty_repo

pytestmark = pytest.mark.few(2)

COUNT = 300
KEYS = {"a number": ("id",), "text": ("name",), "none": ()}
Rows = list[dict[str, Any]]
Edit = tuple[Rows, Collection[int], bool]


def one_changed(before: Rows) -> Edit:
    """All is written anew for one row, as by copy-on-write."""
    return [{**row, "number": 70 if row["id"] == 5 else row["number"]} for row in before], (), True


def most_changed(before: Rows) -> Edit:
    after = [{**row, "number": 70} for row in before if row["id"] % 10]
    after += points(20, start=1000).to_pylist()
    random.Random(3).shuffle(after)
    return after, (), True


def come(before: Rows) -> Edit:
    return points(50, start=1000).to_pylist(), (), False


def moved_in_place(before: Rows) -> Edit:
    """Rows are deleted where they are, and come again in another file, as by merge-on-read."""
    changed = [{**row, "number": 70} for row in before if row["id"] in range(3, 90, 3)]
    return changed, range(3, 90, 3), False


def gone(before: Rows) -> Edit:
    return [], range(2, 90, 2), False


EDITS = (most_changed, one_changed, come, moved_in_place, gone)


@pytest.fixture
def bucket(url: str) -> str:
    """The URL of a new bucket."""
    return f"s3://{url.removeprefix('s3://').partition('/')[0]}"


def shared(folder: Path, bucket: str, key: tuple[str, ...], order: str = "key") -> Path:
    """Return the bare repository of one whose data is in the bucket, in several files."""
    repo = empty_repo(folder / "ours", settings=LOCAL)
    with tiny_thresholds(group_rows=64, most_deltas=9):
        source, options = folder / "points.parquet", SourceOptions(primary_key=key)
        repo.import_(write(source, points(100)), "points", options=options, order=order)
        for start in range(100, COUNT, 100):
            repo.write("points", points(100, start=start), mode="append")
    server = bare(folder / "server.git")
    share(repo, server, data=f"{bucket}/data")
    return server


def edited(
    server: Path, bucket: str, folder: Path, change: Callable[[Rows], Edit], *, lazy: bool
) -> tuple[Repo, str]:
    """Return a clone and the URL of a table of it that was edited by others."""
    repo = clone(server, folder, data_url=f"{bucket}/data", on_demand=lazy)
    url = f"{bucket}/{folder.name}/points"
    repo.workspace.check_out_to(url, dataset="points")
    with_rows = repo if not lazy else Repo.open(server.parent / "ours", settings=LOCAL)
    come, gone, anew = change(rows(with_rows, "points"))
    edit_rows(url, folder.parent / f"{folder.name}-engine", come, gone, anew=anew)
    return reopened(repo), url


def committed(repo: Repo, url: str) -> tuple[Any, ...]:
    """Commit what was edited at a URL, and return all that the commit says."""
    result = repo.workspace.commit_from(url, message="By an engine")
    assert result.commit is not None and result.notes == ()
    view = require_files(repo.dataset("points"))
    entries = sorted((e.file, e.content, e.rows, e.origin) for e in view.entries.values())
    return result.changes, view.snapshot.digests, view.rows, entries, view.deltas.keys()


WAYS = ("as rows", "as files", "written by owners")
SOME = [
    (most_changed, "a number", "as files"),
    (one_changed, "text", "as rows"),
    (moved_in_place, "a number", "written by owners"),
    (gone, "none", "as files"),
]
CASES = [
    pytest.param(*case, marks=() if case in SOME else pytest.mark.slow)
    for case in sorted(product(EDITS, KEYS, WAYS), key=lambda case: case not in SOME)
]


@pytest.mark.parametrize(("change", "key", "way"), CASES)
def test_a_clone_without_data_commits_as_one_with_it(
    tmp_path: Path,
    bucket: str,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Rows], Edit],
    key: str,
    way: str,
) -> None:
    server = shared(tmp_path, bucket, KEYS[key])
    whole, whole_url = edited(server, bucket, tmp_path / "whole", change, lazy=False)
    lazy, url = edited(server, bucket, tmp_path / "lazy", change, lazy=True)
    monkeypatch.setattr(incoming, "SMALL_FILE", 0 if way == "as files" else 1 << 40)
    if way == "written by owners":
        monkeypatch.setattr(owned_edits, "FEW_ROWS", 0)
        monkeypatch.setattr(owned_edits, "OWNER_BYTES", 1 << 30)
    for module in (owned_changes, owned_deletes):
        monkeypatch.setattr(module, "LEAST_ROWS", 0)
    for name in ("SMALL_ROWS", "SMALL_BYTES"):
        monkeypatch.setattr(diff, name, 0)

    wanted = committed(whole, whole_url)
    found = committed(lazy, url)

    assert found == wanted
    assert files(lazy) == [], "no data file came here"
    cached = {path.name[:64] for path in (lazy.git.data_folder / "keys").glob("*")}
    before = require_files(lazy.dataset("points", "HEAD^")).stored_entries
    assert cached.isdisjoint(before), "nor are there keys of files that are away"
    view = require_files(reopened(lazy).dataset("points"))
    for file, entry in view.stored_entries.items():
        assert object_size(url_below(f"{bucket}/data", file)) == entry.size
    lazy.push()
    last = clone(server, tmp_path / "last", data_url=f"{bucket}/data")
    assert list(last.fsck(full=True)) == []
    assert rows(last, "points") == rows(whole, "points")


@pytest.mark.parametrize("change", [come, one_changed])
@pytest.mark.thorough
def test_the_workspace_may_be_in_the_bucket(
    tmp_path: Path, bucket: str, endpoint: str, change: Callable[[Rows], Edit]
) -> None:
    server = shared(tmp_path, bucket, ("id",))
    repo = clone(server, tmp_path / "lazy", data_url=f"{bucket}/data", on_demand=True)
    repo.config.set("havasu.workspace.path", f"{bucket}/maps")
    repo = reopened(repo)
    repo.workspace.check_out()
    before = rows(Repo.open(tmp_path / "ours", settings=LOCAL), "points")
    new, old, anew = change(before)
    edit_rows(f"{bucket}/maps/points", tmp_path / "engine", new, old, anew=anew)

    seen = repo.workspace.changes()
    (shown,) = repo.workspace.diff()
    told = sum(map(len, shown.changes))
    stored = there(endpoint, bucket)
    tried = repo.workspace.commit(dry_run=True)
    assert there(endpoint, bucket) == stored, "what is tried leaves nothing"
    result = repo.workspace.commit(message="By an engine")

    wanted = ChangeCounts(inserts=50) if change is come else ChangeCounts(updates=1)
    assert seen is not None and not seen.problems
    assert seen.tables["points"].rows == result.changes["points"] == wanted
    assert tried.changes == result.changes and tried.commit is None
    assert told == wanted.total
    assert repo.workspace.edited() == {}
    assert files(repo) == [], "no data file came here"
    assert rows(repo, "points") == (new if anew else [*before, *new])


@pytest.mark.parametrize("twice", ["in the table", "among them"])
@pytest.mark.thorough
def test_a_key_that_comes_twice_is_refused(tmp_path: Path, bucket: str, twice: str) -> None:
    server = shared(tmp_path, bucket, ("id",))

    def change(before: Rows) -> Edit:
        start = COUNT - 1 if twice == "in the table" else COUNT
        more = points(3, start=start).to_pylist()
        return (more if twice == "in the table" else [*more, more[1]]), (), False

    repo, url = edited(server, bucket, tmp_path / "lazy", change, lazy=True)
    key = COUNT - 1 if twice == "in the table" else COUNT + 1
    with pytest.raises(KeyViolationError, match=f"two rows have the key id = {key}"):
        repo.workspace.commit_from(url)
    assert files(repo) == []


@pytest.mark.thorough
def test_edits_come_onto_what_head_has_become(tmp_path: Path, bucket: str) -> None:
    server = shared(tmp_path, bucket, ("id",))
    repo, url = edited(server, bucket, tmp_path / "lazy", moved_in_place, lazy=True)
    repo.write("points", points(2, start=5000), mode="append")
    written = files(repo)

    assert repo.workspace.commit_from(url).changes["points"].updates == 29

    stored = require_files(repo.dataset("points")).stored_entries
    come = set(files(repo)) - {*written}
    assert come <= stored.keys() - require_files(repo.dataset("points", "HEAD^")).stored_entries
    found = {row["id"]: row["number"] for row in rows(repo, "points")}
    assert len(found) == COUNT + 2 and [found[n] for n in (3, 87, 90)] == [70, 70, 6]
    repo, url = edited(server, bucket, tmp_path / "other", moved_in_place, lazy=True)
    repo.write("points", points(100, name="other"), mode="upsert")
    repo.write("points", points(0), mode="overwrite")
    with pytest.raises(ConflictError):
        repo.workspace.commit_from(url)


@pytest.mark.thorough
def test_who_may_not_write_there_commits_with_the_files_here(
    tmp_path: Path, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = shared(tmp_path, bucket, ("id",))
    repo, url = edited(server, bucket, tmp_path / "lazy", come, lazy=True)
    monkeypatch.setitem(sys.modules, "obstore", None)

    assert repo.workspace.commit_from(url).changes["points"].inserts == 50
    assert len(rows(repo, "points")) == COUNT + 50
    assert list(repo.fsck(full=True)) == []
