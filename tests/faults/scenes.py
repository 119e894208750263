"""The commands that go wrong, each in a repository made for it, with a plain model beside.

A scene makes its repositories in a folder and says what the history of a branch holds before
and after the command, as dicts of rows that nothing of ours has computed.
"""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import shapely

from havasu_vc import Repo
from havasu_vc.exchange.source import SourceOptions
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.sharing import bare, clone, share
from tests.support.git import run_git
from tests.support.sound import LOCAL
from tests.workspace import by_hand

__all__ = ["SCENES", "Beside", "Rows", "Scene", "Story"]

Row: TypeAlias = tuple[bytes | None, str | None, int | None]
Rows: TypeAlias = Mapping[int, Row]
Version: TypeAlias = Mapping[str, Rows]

SCHEMA = pa.schema(
    [("id", pa.int64()), ("geom", pa.binary()), ("name", pa.string()), ("number", pa.int32())]
)
BY_ID = SourceOptions(primary_key=("id",))


def some(*ids: int, name: str = "row") -> dict[int, Row]:
    """Return rows by id."""
    return {
        i: (shapely.to_wkb(shapely.Point(i, i / 2), flavor="iso"), f"{name} {i}", i % 7)
        for i in ids
    }


def arrow(rows: Rows) -> pa.Table:
    found = [{"id": i, "geom": g, "name": n, "number": m} for i, (g, n, m) in rows.items()]
    return pa.Table.from_pylist(found, schema=SCHEMA)


def parquet(path: Path, rows: Rows) -> Path:
    geo = b'{"version":"1.0.0","primary_column":"geom","columns":{"geom":{"encoding":"WKB",'
    geo += b'"geometry_types":["Point"]}}}'
    pq.write_table(arrow(rows).replace_schema_metadata({"geo": geo}), path)
    return path


def put(repo: Repo, rows: Rows, path: str = "points") -> None:
    repo.write(path, arrow(rows), message=f"write {len(rows)}")


OLDER = "it is of an older form"
"""Stands for the datasets of a commit whose form is only upgraded."""
BASE = some(*range(1, 13))
TREES = some(100, 101, 102, name="tree")


@dataclass(slots=True)
class Story:
    """What a history holds before the command and after it."""

    before: dict[str, tuple[Version, ...]] = field(default_factory=dict)
    """By `REPOSITORY REF`, the versions of its commits along first parents, the oldest first."""
    after: dict[str, tuple[Version, ...]] = field(default_factory=dict)
    tables: dict[str, Rows] = field(default_factory=dict)
    """By dataset, the rows of the table in the workspace of `repo` after the command."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A command and the repository in which it runs."""

    name: str
    build: Callable[[Path], Story]
    arguments: tuple[str, ...]
    """Relative to the folder of the scene."""
    accepted: tuple[int, ...] = ()
    """Exit codes of doing it again when it is done, beside 0."""
    again: bool = True
    """Whether it may be done again when it is done."""
    codes: tuple[int, ...] = (0,)
    """Exit codes of a run in which nothing goes wrong."""
    undo: tuple[str, ...] = ()
    """The command that puts back one that was cut off, where git keeps it half done."""
    within: Callable[[], AbstractContextManager[None]] = nullcontext
    """What the command runs in."""
    beside: "Beside | None" = None
    """What it changes beside the folder."""
    instead: tuple[str, ...] = ()
    """The command that finishes what was told not to be done, where it may not be done again."""


class Beside(Protocol):
    """Something that a command changes and that is not in the scene's folder."""

    def begin(self) -> None:
        """Have nothing in it."""

    def keep(self, name: str) -> None:
        """Keep it as it is under a name."""

    def put_back(self, name: str) -> None:
        """Make it as it was kept."""

    def state(self) -> Mapping[str, str]:
        """Return all that is in it."""


MAIN = "repo refs/heads/main"


def begin(folder: Path) -> tuple[Repo, tuple[Version, ...]]:
    """Make `repo` with a dataset, of two commits, and another."""
    repo = Repo.init(folder / "repo", settings=LOCAL)
    repo.import_(parquet(folder / "points.parquet", BASE), options=BY_ID)
    repo.import_(parquet(folder / "trees.parquet", TREES), options=BY_ID)
    now = {**BASE, **some(3, name="second")}
    put(repo, some(3, name="second"))
    return Repo.open(repo.path, settings=LOCAL), (
        {"points": BASE},
        {"points": BASE, "trees": TREES},
        {"points": now, "trees": TREES},
    )


def changed(version: Version, rows: Rows, *, gone: tuple[int, ...] = ()) -> Version:
    """Return a version with other rows of points."""
    points = {k: v for k, v in {**version["points"], **rows}.items() if k not in gone}
    return {**version, "points": points}


def story(before: tuple[Version, ...], *more: Version, ref: str = MAIN) -> Story:
    return Story({ref: before}, {ref: (*before, *more)})


def import_new(folder: Path) -> Story:
    _, versions = begin(folder)
    rows = some(*range(40, 60), name="road")
    parquet(folder / "roads.parquet", rows)
    return story(versions, {**versions[-1], "roads": rows})


def import_replace(folder: Path) -> Story:
    _, versions = begin(folder)
    rows = {**some(*range(2, 12)), **some(5, name="new"), **some(70, 71)}
    parquet(folder / "points.parquet", rows)
    return story(versions, {**versions[-1], "points": rows})


def checked_out(folder: Path) -> tuple[Repo, tuple[Version, ...]]:
    repo, versions = begin(folder)
    repo.workspace.check_out()
    return repo, versions


NEW: dict[int, Row] = {1: (None, "edited", 1), 500: (None, "inserted", 5)}


def edit(repo: Repo) -> None:
    """Edit as Spark does: one row deleted, one updated and one inserted."""
    place = repo.workspace.root / "points"
    by_hand.delete(place, [0, 1])
    by_hand.insert(place, arrow(NEW).to_pylist())


def edited_rows(version: Version) -> Version:
    """Return what `edit` makes of a version: the first two rows in key order go."""
    return changed(version, NEW, gone=(2,))


def commit_spark(folder: Path) -> Story:
    repo, versions = checked_out(folder)
    edit(repo)
    after = edited_rows(versions[-1])
    made = story(versions, after)
    made.tables = {"points": after["points"], "trees": TREES}
    return made


def commit_workspace(folder: Path) -> Story:
    repo, versions = checked_out(folder)
    after = changed(versions[-1], NEW, gone=(7, 8))
    by_hand.rewrite(repo.workspace.root / "points", arrow(after["points"]).to_pylist())
    made = story(versions, after)
    made.tables = {"points": after["points"], "trees": TREES}
    return made


def sides(folder: Path, *, clash: bool = False) -> tuple[Repo, tuple[Version, ...], Version]:
    """Make a branch `side` beside main; return the versions of main, and the merged one."""
    repo, versions = begin(folder)
    repo.create_branch("side")
    ours, theirs = some(4, 60, name="ours"), some(6, 61, name="theirs")
    put(repo, ours)
    repo.switch("side")
    put(repo, {**theirs, **(some(4, name="theirs") if clash else {})})
    repo.switch("main")
    mine = changed(versions[-1], ours)
    return repo, (*versions, mine), changed(mine, theirs)


def merge(folder: Path) -> Story:
    _, versions, merged = sides(folder)
    return story(versions, merged)


def merge_with_tables(folder: Path) -> Story:
    repo, versions, merged = sides(folder)
    repo.workspace.check_out()
    made = story(versions, merged)
    made.tables = {"points": merged["points"], "trees": TREES}
    return made


def merge_conflict(folder: Path) -> Story:
    _, versions, _ = sides(folder, clash=True)
    return story(versions)


def conflicting(folder: Path) -> Story:
    repo, versions, merged = sides(folder, clash=True)
    repo.merge("side")
    return story(versions, changed(merged, some(4, name="theirs")))


def resolve(folder: Path) -> Story:
    made = conflicting(folder)
    return Story(made.before, made.before)


def merge_continue(folder: Path) -> Story:
    from tests.faults.commands import call

    made = conflicting(folder)
    assert call("-C", str(folder / "repo"), "resolve", "--all", "--with=theirs") == 0
    return made


def checkout(folder: Path) -> Story:
    _, versions = begin(folder)
    made = story(versions)
    made.tables = dict(versions[-1])
    return made


def switch(folder: Path) -> Story:
    repo, versions, merged = sides(folder)
    repo.workspace.check_out()
    theirs = {k: v for k, v in merged["points"].items() if k not in (4, 60)}
    made = story(versions)
    made.tables = {"points": {**theirs, **some(4)}, "trees": TREES}
    return made


def restore(folder: Path) -> Story:
    repo, versions = checked_out(folder)
    edit(repo)
    made = story(versions)
    made.tables = dict(versions[-1])
    return made


def restore_source(folder: Path) -> Story:
    repo, versions = begin(folder)
    put(repo, some(9, 90, name="third"))
    third = changed(versions[-1], some(9, 90, name="third"))
    return story((*versions, third), versions[-1])


def stash_push(folder: Path) -> Story:
    return restore(folder)


def stash_pop(folder: Path) -> Story:
    repo, versions = checked_out(folder)
    edit(repo)
    repo.workspace.stash(message="aside")
    made = story(versions)
    made.tables = {"points": edited_rows(versions[-1])["points"], "trees": TREES}
    return made


def revert(folder: Path) -> Story:
    _, versions = begin(folder)
    return story(versions, versions[1])


def optimize(folder: Path) -> Story:
    repo, versions = begin(folder)
    found = [*versions]
    with tiny_thresholds(most_deltas=20):
        for number in range(3):
            rows = some(number + 1, 200 + number, name=f"step {number}")
            put(repo, rows)
            found.append(changed(found[-1], rows))
    return story(tuple(found), found[-1])


def gc(folder: Path) -> Story:
    repo, versions = begin(folder)
    repo.create_branch("gone")
    repo.switch("gone")
    put(repo, some(300, 301, name="gone"))
    repo.switch("main")
    run_git("branch", "-D", "gone", cwd=repo.path)
    run_git("reflog", "expire", "--expire=now", "--all", cwd=repo.path)
    run_git("prune", "--expire=now", cwd=repo.path)
    return story(versions)


def shared(folder: Path, *, data: bool = False) -> tuple[Repo, tuple[Version, ...]]:
    """Make `repo` and push it to `server.git`."""
    repo, versions = begin(folder)
    server = bare(folder / "server.git")
    share(repo, server, data=(folder / "data").as_uri() if data else None)
    return Repo.open(repo.path, settings=LOCAL), versions


def push(folder: Path) -> Story:
    repo, versions = shared(folder)
    put(repo, some(80, name="pushed"))
    new = changed(versions[-1], some(80, name="pushed"))
    return Story(
        {MAIN: (*versions, new), "server.git refs/heads/main": versions},
        {MAIN: (*versions, new), "server.git refs/heads/main": (*versions, new)},
    )


def push_store(folder: Path) -> Story:
    repo, versions = shared(folder, data=True)
    put(repo, some(80, name="pushed"))
    new = changed(versions[-1], some(80, name="pushed"))
    return Story({MAIN: (*versions, new)}, {MAIN: (*versions, new)})


def fetch(folder: Path) -> Story:
    _, versions = shared(folder)
    other = clone(folder / "server.git", folder / "other", on_demand=False)
    put(other, some(81, name="fetched"))
    Repo.open(other.path, settings=LOCAL).push()
    new = changed(versions[-1], some(81, name="fetched"))
    remote = "repo refs/remotes/origin/main"
    return Story({MAIN: versions, remote: versions}, {MAIN: versions, remote: (*versions, new)})


def pull(folder: Path) -> Story:
    made = fetch(folder)
    remote = "repo refs/remotes/origin/main"
    return Story(made.before, {MAIN: made.after[remote], remote: made.after[remote]})


def clone_(folder: Path) -> Story:
    _, versions = shared(folder)
    there = "server.git refs/heads/main"
    made = Story({there: versions}, {there: versions, "new refs/heads/main": versions})
    return made


def prune(folder: Path) -> Story:
    repo, versions = shared(folder, data=True)
    repo.create_branch("gone")
    repo.switch("gone")
    put(repo, some(300, 301, name="gone"))
    repo.push("origin", ["gone"])
    repo.switch("main")
    run_git("push", "--quiet", "--no-verify", "origin", ":gone", cwd=repo.path)
    run_git("branch", "-D", "gone", cwd=repo.path)
    return story(versions)


def convert(folder: Path) -> Story:
    _, versions = begin(folder)
    return story(versions, versions[-1])


def copy_to_edit(folder: Path) -> Story:
    _, versions = begin(folder)
    return story(versions)


def commit_copy(folder: Path) -> Story:
    from tests.faults.commands import call

    _, versions = begin(folder)
    copy = folder / "copy.gpkg"
    assert call("-C", str(folder / "repo"), "checkout", "--as", str(copy), "points") == 0
    with closing(sqlite3.connect(copy)) as database, database:
        triggers = database.execute(
            "SELECT name FROM sqlite_master WHERE name LIKE 'rtree%' AND type = 'trigger'"
        )
        for (name,) in triggers.fetchall():
            database.execute(f'DROP TRIGGER "{name}"')
        database.execute("UPDATE points SET name = 'edited' WHERE id = 5")
        database.execute("DELETE FROM points WHERE id = 6")
    geom, _, number = versions[-1]["points"][5]
    return story(versions, changed(versions[-1], {5: (geom, "edited", number)}, gone=(6,)))


HERE = ("-C", "repo")
SCENES = {
    scene.name: scene
    for scene in (
        Scene(
            "import", import_new, (*HERE, "import", "roads.parquet", "--primary-key", "id"), (2,)
        ),
        Scene("import --replace", import_replace, (*HERE, "import", "points.parquet", "--replace")),
        Scene("commit (Spark edit)", commit_spark, (*HERE, "commit", "-m", "m"), (44,)),
        Scene("commit (workspace)", commit_workspace, (*HERE, "commit", "-m", "m"), (44,)),
        Scene(
            "commit (file)", commit_copy, (*HERE, "commit", "--from", "copy.gpkg", "-m", "m"), (44,)
        ),
        Scene("merge", merge, (*HERE, "merge", "side")),
        Scene("merge (tables)", merge_with_tables, (*HERE, "merge", "side")),
        Scene("merge (conflict)", merge_conflict, (*HERE, "merge", "side"), (20,)),
        Scene("resolve", resolve, (*HERE, "resolve", "--all", "--with=theirs"), (50,)),
        Scene("merge --continue", merge_continue, (*HERE, "merge", "--continue"), (20,)),
        Scene("checkout", checkout, (*HERE, "checkout")),
        Scene("checkout --as", copy_to_edit, (*HERE, "checkout", "--as", "copy.gpkg"), (2, 20, 28)),
        Scene("switch", switch, (*HERE, "switch", "side")),
        Scene("restore", restore, (*HERE, "restore"), (44,)),
        Scene(
            "restore --source", restore_source, (*HERE, "restore", "--source", "HEAD^"), again=False
        ),
        Scene("stash push", stash_push, (*HERE, "stash", "push"), (44,)),
        Scene("stash pop", stash_pop, (*HERE, "stash", "pop"), (40,)),
        Scene("revert", revert, (*HERE, "revert", "HEAD"), again=False),
        Scene("optimize", optimize, (*HERE, "optimize"), (44,)),
        Scene("gc", gc, (*HERE, "gc", "--prune-now")),
        Scene("push", push, (*HERE, "push")),
        Scene("push (store)", push_store, (*HERE, "push")),
        Scene("fetch", fetch, (*HERE, "fetch")),
        Scene("pull", pull, (*HERE, "pull")),
        Scene(
            "clone",
            clone_,
            ("clone", "server.git", "new"),
            (2, 20),
            instead=("-C", "new", "checkout"),
        ),
        Scene("prune", prune, (*HERE, "data", "prune", "--delete", "--grace", "0")),
        Scene("convert", convert, (*HERE, "convert", "points", "--to", "kart"), (20,)),
    )
}
