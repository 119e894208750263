"""`havasu-vc merge --continue` and `--abort` of a merge in which Kart stopped.

Kart's files are made here as Kart makes them; with Kart itself, `tests/compat` does the same.
"""

import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pygit2
import pytest
from pygit2.enums import FileMode

from havasu_vc import Repo
from havasu_vc.merging.kart_stops import partial_tree_of, read_kart_merge, settled_tree_of
from havasu_vc.store.repository import GitRepository
from tests.cli.commands.test_workingcopy import editor
from tests.cli.conftest import invoke, succeed
from tests.support.git import run_git
from tests.support.signing import signing_with_ssh

Rows = list[tuple[object, ...]]
FILES = ("MERGE_HEAD", "MERGE_BRANCH", "MERGE_MSG", "MERGED_INDEX", "MERGED_TREE")
FEATURE = "points/.table-dataset/feature/A/A/A/A/"
FIRST, SECOND = FEATURE + "kQE=", FEATURE + "kQI="


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of Kart's in which two branches changed the rows 1 and 2 differently."""
    folder = tmp_path_factory.mktemp("kart")
    source, repo = folder / "points.csv", folder / "repo"
    source.write_text("id,name\n1,a\n2,b\n3,c\n4,d\n")
    succeed(invoke(["init", repo, "--kart"]))
    run(repo, "import", source, "--primary-key", "id")
    run(repo, "create-workingcopy", "repo.gpkg")
    run(repo, "switch", "-c", "side")
    edit(repo, "UPDATE points SET name = 'side' WHERE id < 3")
    edit(repo, "UPDATE points SET name = 'dd' WHERE id = 4")
    run(repo, "commit", "-m", "Side")
    run(repo, "switch", "main")
    edit(repo, "UPDATE points SET name = 'main' WHERE id < 3")
    run(repo, "commit", "-m", "Main")
    return folder


def run(repo: Path, *words: str | Path, code: int = 0) -> str:
    result = invoke(["-C", repo, *words])
    assert result.exit_code == code, (words, result.output)
    return result.output


def edit(repo: Path, statement: str) -> None:
    with editor(repo / "repo.gpkg") as database:
        database.execute(statement)


def rows(repo: Path) -> Rows:
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        return database.execute("SELECT id, name FROM points ORDER BY id").fetchall()


class Stopped:
    """A merge of `side` into `main` as Kart leaves it, and resolves it."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "repo"
        self.place = self.repo / ".kart"
        # The extension that says that it is Kart's is in libgit2's way.
        plain = folder / "plain"
        git = self.git = pygit2.init_repository(str(plain), bare=True)
        git.odb.add_disk_alternate(str(self.place / "objects"))
        ours, theirs = (self.commit(name) for name in ("main", "side"))
        base = self.commit("main^")
        merged = git.merge_trees(base.tree, ours.tree, theirs.tree)
        (self.place / "MERGE_HEAD").write_text(str(theirs.id))
        (self.place / "MERGE_BRANCH").write_text("side")
        (self.place / "MERGE_MSG").write_text('Merge branch "side" into main')
        self.index = pygit2.Index(str(self.place / "MERGED_INDEX"))
        self.index.clear()
        shown = pygit2.Index()
        sides = {"ancestor": base.tree, "ours": ours.tree, "theirs": theirs.tree}
        for entry in merged:
            self.index.add(entry)
            shown.add(entry)
        for number, path in enumerate((FIRST, SECOND)):
            for side, tree in sides.items():
                self.put(f".conflicts/{number}/{side}/{path}", tree[path].id)
            shown.add(pygit2.IndexEntry(path, ours.tree[path].id, FileMode.BLOB))
        self.index.write()
        self.sides = sides
        root = shown.write_tree(git)
        for file in (plain / "objects").glob("??/*"):
            there = self.place / "objects" / file.parent.name / file.name
            there.parent.mkdir(exist_ok=True)
            shutil.copy(file, there)
        (self.place / "MERGED_TREE").write_text(str(root))
        with editor(self.repo / "repo.gpkg") as database:
            database.execute("UPDATE points SET name = 'dd' WHERE id = 4")
            database.execute("UPDATE gpkg_kart_state SET value = ? WHERE key = 'tree'", [str(root)])
            database.execute("DELETE FROM gpkg_kart_track")

    def commit(self, name: str) -> pygit2.Commit:
        return self.git[self.git_says("rev-parse", name)].peel(pygit2.Commit)

    def git_says(self, *words: str) -> str:
        return Repo.open(self.repo).git.git(*words).text

    def put(self, path: str, blob: pygit2.Oid) -> None:
        self.index.add(pygit2.IndexEntry(path, blob, FileMode.BLOB))

    def resolve(self) -> None:
        """Take theirs of the first row, and delete the second."""
        for number in (0, 1):
            self.put(f".resolves/{number}/resolved", pygit2.Oid(hex="0" * 40))
        self.put(f".resolves/0/0/{FIRST}", self.sides["theirs"][FIRST].id)
        self.index.write()
        edit(self.repo, "UPDATE points SET name = 'side' WHERE id = 1")
        edit(self.repo, "DELETE FROM points WHERE id = 2")

    def waits(self) -> bool:
        there = [(self.place / name).exists() for name in FILES]
        assert all(there) or not any(there)
        return all(there)


@pytest.fixture
def stopped(made: Path, tmp_path: Path) -> Stopped:
    shutil.copytree(made / "repo", tmp_path / "repo")
    return Stopped(tmp_path)


def test_it_is_concluded_once_it_is_resolved(stopped: Stopped) -> None:
    repo = stopped.repo
    before = rows(repo)
    before_heads = [str(stopped.commit(name).id) for name in ("main", "side")]
    assert "2 conflicts are not resolved yet" in run(repo, "merge", "--continue", code=20)
    assert stopped.waits()
    assert rows(repo) == before == [(1, "main"), (2, "main"), (3, "c"), (4, "dd")]
    stopped.resolve()
    run(repo, "merge", "--continue")
    assert not stopped.waits()
    heads = stopped.git_says("log", "-1", "--format=%P %s").split(" ", 2)
    assert heads == [*before_heads, 'Merge branch "side" into main']
    assert rows(repo) == [(1, "side"), (3, "c"), (4, "dd")]
    assert "working copy clean" in run(repo, "status")
    run(repo, "fsck", "--full")
    counted = run(repo, "diff", "HEAD^...HEAD", "-o", "feature-count")
    assert "3 features changed" in counted


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_it_is_signed_where_that_is_wanted(stopped: Stopped, tmp_path: Path) -> None:
    signers = signing_with_ssh(tmp_path)
    for name, value in signers.items():
        stopped.git_says("config", name, value)
    stopped.resolve()
    run(stopped.repo, "merge", "--continue")
    assert stopped.git_says("log", "-1", "--format=%G? %s") == 'G Merge branch "side" into main'


def test_it_is_given_up(stopped: Stopped) -> None:
    stopped.resolve()
    run(stopped.repo, "merge", "--abort")
    assert not stopped.waits()
    assert rows(stopped.repo) == [(1, "main"), (2, "main"), (3, "c"), (4, "d")]
    assert "working copy clean" in run(stopped.repo, "status")


@pytest.mark.parametrize("how", ["--continue", "--abort"])
def test_an_edit_that_is_not_of_it_is_named(how: str, stopped: Stopped) -> None:
    stopped.resolve()
    edit(stopped.repo, "UPDATE points SET name = 'mine' WHERE id = 3")
    assert "points:feature:3 was edited" in run(stopped.repo, "merge", how, code=29)
    assert stopped.waits()
    assert (3, "mine") in rows(stopped.repo)


def test_a_row_that_was_resolved_otherwise_is_named(stopped: Stopped) -> None:
    stopped.resolve()
    edit(stopped.repo, "UPDATE points SET name = 'mine' WHERE id = 1")
    assert "points:feature:1 was edited" in run(stopped.repo, "merge", "--continue", code=29)
    assert stopped.waits()


def test_what_is_refused_meanwhile_leaves_the_file(stopped: Stopped) -> None:
    before = rows(stopped.repo)
    run(stopped.repo, "merge", "side", code=20)
    run(stopped.repo, "switch", "side", code=20)
    assert rows(stopped.repo) == before
    assert stopped.waits()


def test_one_whose_files_are_damaged_is_only_given_up(stopped: Stopped) -> None:
    (stopped.place / "MERGED_INDEX").write_bytes(b"no index")
    said = run(stopped.repo, "merge", "--continue", code=11)
    assert "its files are damaged" in said
    run(stopped.repo, "merge", "--abort")
    assert not stopped.waits()
    assert rows(stopped.repo) == [(1, "main"), (2, "main"), (3, "c"), (4, "d")]


# One merge for both programs


def index_of(stopped: Stopped) -> dict[str, str]:
    """Return what an index in which a merge waits holds: blobs by path."""
    index = pygit2.Index(str(stopped.place / "MERGED_INDEX"))
    return {entry.path: str(entry.id) for entry in index}


def assert_settled(repo: Path) -> None:
    """Hold the tree of what was resolved against the one that git makes of the index."""
    git = GitRepository.open(repo)
    merge = read_kart_merge(git)
    assert settled_tree_of(git, merge) == partial_tree_of(git, merge)


def test_what_kart_left_is_listed_and_resolved_here(stopped: Stopped) -> None:
    repo = stopped.repo
    listed = run(repo, "conflicts", "-s", "--flat", "-o", "json:compact")
    assert listed == '{"kart.conflicts/v1": ["points:feature:1", "points:feature:2"]}\n'
    assert "points:feature: 2 conflicts" in run(repo, "status")
    run(repo, "resolve", "points:feature:1", "--with=theirs")
    assert rows(repo) == [(1, "side"), (2, "main"), (3, "c"), (4, "dd")]
    assert run(repo, "conflicts", "-s", "--flat") == "points:feature:2\n"
    found = index_of(stopped)
    assert found[f".resolves/0/0/{FIRST}"] == str(stopped.sides["theirs"][FIRST].id)
    assert ".resolves/0/resolved" in found
    run(repo, "resolve", "points:feature:2", "--with=delete")
    assert [path for path in index_of(stopped) if path.startswith(".resolves/1")] == [
        ".resolves/1/resolved"
    ]
    assert_settled(repo)
    run(repo, "merge", "--continue")
    assert rows(repo) == [(1, "side"), (3, "c"), (4, "dd")]
    assert not stopped.waits()
    assert "working copy clean" in run(repo, "status")


def test_what_kart_resolved_counts(stopped: Stopped) -> None:
    stopped.resolve()
    assert "No conflicts" in run(stopped.repo, "conflicts", "-s", "--flat")
    again = run(stopped.repo, "resolve", "points:feature:1", "--with=ours", code=20)
    assert "'points:feature:1' is resolved already" in again


def test_our_merge_stops_as_karts_does(made: Path, tmp_path: Path) -> None:
    (tmp_path / "karts").mkdir()
    for folder in (tmp_path, tmp_path / "karts"):
        shutil.copytree(made / "repo", folder / "repo")
    karts = Stopped(tmp_path / "karts")
    repo = tmp_path / "repo"
    assert "2 conflicts" in run(repo, "merge", "side")
    place = repo / ".kart"
    for name in ("MERGE_HEAD", "MERGE_BRANCH", "MERGE_MSG", "MERGED_TREE"):
        assert (place / name).read_text().strip() == (karts.place / name).read_text().strip()
    ours = {e.path: str(e.id) for e in pygit2.Index(str(place / "MERGED_INDEX"))}
    for path, blob in index_of(karts).items():
        # What stands under the name of what is in conflict is never read.
        assert path in ours
        assert path in (FIRST, SECOND) or ours[path] == blob
    assert rows(repo) == rows(karts.repo)
    assert "fid" not in run(repo, "diff")
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        state = "SELECT value FROM gpkg_kart_state WHERE key = 'tree'"
        assert database.execute(state).fetchone() == ((place / "MERGED_TREE").read_text().strip(),)
    run(repo, "merge", "--abort")
    assert rows(repo) == [(1, "main"), (2, "main"), (3, "c"), (4, "d")]
    assert not (place / "MERGED_INDEX").exists()


def test_called_kart_what_does_not_go_while_a_merge_waits_ends_as_in_kart(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made / "repo", tmp_path / "repo")
    repo = tmp_path / "repo"
    monkeypatch.setattr("sys.argv", ["/usr/bin/kart"])
    edit(repo, "UPDATE points SET name = 'mine' WHERE id = 3")
    for name in ("side", "main"):  # also where nothing would be merged
        assert "uncommitted changes" in run(repo, "merge", name, code=29)
    run(repo, "restore")
    run(repo, "merge", "side")
    for words in (["commit", "-m", "x"], ["restore"], ["switch", "side"], ["reset", "HEAD"]):
        run(repo, *words, code=20)
    run(repo, "merge", "--abort")


def test_a_row_with_a_new_key_is_two_entries(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "repo", tmp_path / "repo")
    repo = tmp_path / "repo"
    edit(repo, "INSERT INTO points (id, name) VALUES (9, 'ours')")
    run(repo, "commit", "-m", "More")
    run(repo, "switch", "side")
    edit(repo, "INSERT INTO points (id, name) VALUES (9, 'theirs')")
    run(repo, "commit", "-m", "More")
    run(repo, "switch", "main")
    run(repo, "merge", "side")
    run(repo, "resolve", "points:feature:9", "--renumber=theirs")
    place = repo / ".kart" / "MERGED_INDEX"
    there = {e.path for e in pygit2.Index(str(place)) if e.path.startswith(".resolves")}
    (number,) = {path.split("/")[1] for path in there}
    assert there == {
        f".resolves/{number}/resolved",
        f".resolves/{number}/0/{FEATURE}kQk=",
        f".resolves/{number}/1/{FEATURE}kQo=",
    }
    run(repo, "resolve", "points:feature:1", "--with=ours")
    run(repo, "resolve", "--all", "--with=theirs")
    assert_settled(repo)
    run(repo, "merge", "--continue")
    expected = [(1, "main"), (2, "side"), (3, "c"), (4, "dd"), (9, "ours"), (10, "theirs")]
    assert rows(repo) == expected
    assert "working copy clean" in run(repo, "status")


def test_in_karts_place_a_row_is_in_conflict_as_a_whole(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two columns, one changed on either side: we merge them, Kart does not."""
    shutil.copytree(made / "repo", tmp_path / "repo")
    repo = tmp_path / "repo"
    run(repo, "switch", "-c", "wide", "main^")
    edit(repo, "ALTER TABLE points ADD COLUMN size INTEGER")
    run(repo, "commit", "-m", "A column")
    run(repo, "switch", "-c", "other")
    edit(repo, "UPDATE points SET size = 5 WHERE id = 3")
    run(repo, "commit", "-m", "Size")
    run(repo, "switch", "wide")
    edit(repo, "UPDATE points SET name = 'cc' WHERE id = 3")
    run(repo, "commit", "-m", "Name")
    assert "1 conflict" not in run(repo, "merge", "-n", "other")
    monkeypatch.setattr("sys.argv", ["/usr/bin/kart"])
    assert "points:feature: 1 conflict" in run(repo, "merge", "other")
    assert run(repo, "conflicts", "-s", "--flat") == "points:feature:3\n\n"
    run(repo, "resolve", "points:feature:3", "--with=theirs")
    run(repo, "merge", "--continue")
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        row = database.execute("SELECT name, size FROM points WHERE id = 3").fetchone()
    assert row == ("c", 5)


@pytest.mark.thorough
def test_columns_that_both_sides_add_are_in_conflict_in_karts_place(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(made / "repo", tmp_path / "repo")
    repo = tmp_path / "repo"
    run(repo, "switch", "-c", "other", "main^")
    edit(repo, "ALTER TABLE points ADD COLUMN size INTEGER")
    edit(repo, "UPDATE points SET size = 3 WHERE id = 3")
    run(repo, "commit", "-m", "Size")
    run(repo, "switch", "-c", "mine", "main^")
    edit(repo, "ALTER TABLE points ADD COLUMN place TEXT")
    edit(repo, "UPDATE points SET place = 'here' WHERE id = 3")
    run(repo, "commit", "-m", "Place")
    monkeypatch.setattr("sys.argv", ["/usr/bin/kart"])
    run(repo, "merge", "other")
    listed = run(repo, "conflicts", "-s", "--flat").rstrip().splitlines()
    assert listed == ["points:meta:schema.json", "points:feature:3"]
    said = run(repo, "resolve", "points:feature:3", "--with=theirs", code=20)
    assert "There are still unresolved meta-item conflicts for dataset points." in said
    run(repo, "resolve", "points:meta:schema.json", "--with=theirs")
    run(repo, "resolve", "points:feature:3", "--with=theirs")
    run(repo, "merge", "--continue")
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        row = database.execute("SELECT * FROM points WHERE id = 3").fetchone()
        names = [each[1] for each in database.execute("PRAGMA table_info(points)")]
    assert (names, row) == (["id", "name", "size"], (3, "c", 3))
    assert "working copy clean" in run(repo, "status")


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_one_side_changed_are_merged_file_by_file(seed: int, tmp_path: Path) -> None:
    """What git makes of the files is what we make of the rows, and counts are of rows."""
    drawn = random.Random(seed)
    repo, source = tmp_path / "repo", tmp_path / "points.csv"
    source.write_text("id,name\n" + "".join(f"{key},a{key}\n" for key in range(0, 600, 2)))
    succeed(invoke(["init", repo, "--kart"]))
    run(repo, "import", source, "--primary-key", "id")
    run(repo, "create-workingcopy", "repo.gpkg")
    sides: dict[str, dict[int, str | None]] = {"side": {}, "main": {}}
    for key in drawn.sample(range(600), 90):
        new = None if drawn.random() < 0.3 and key % 2 == 0 else f"b{key}"
        for side in drawn.choice([["side"], ["main"], ["side", "main"]]):
            sides[side][key] = new
    run(repo, "branch", "side")
    for side, changes in sides.items():
        run(repo, "switch", side)
        with editor(repo / "repo.gpkg") as database:
            for key, name in changes.items():
                database.execute("DELETE FROM points WHERE id = ?", (key,))
                if name is not None:
                    database.execute("INSERT INTO points VALUES (?, ?)", (key, name))
        run(repo, "commit", "-m", side)

    alone = {key: name for key, name in sides["side"].items() if key not in sides["main"]}
    counts = {
        "inserts": sum(key % 2 == 1 for key in alone),
        "updates": sum(key % 2 == 0 and name is not None for key, name in alone.items()),
        "deletes": sum(name is None for name in alone.values()),
    }
    merged = Repo.open(repo).merge("side").changes["points"]
    assert {name: getattr(merged, name) for name in counts} == counts
    model: dict[int, str | None] = {key: f"a{key}" for key in range(0, 600, 2)}
    model |= sides["main"] | sides["side"]
    assert rows(repo) == sorted((key, name) for key, name in model.items() if name is not None)

    git = pygit2.init_repository(str(tmp_path / "plain"), bare=True)
    git.odb.add_disk_alternate(str(repo / ".kart/objects"))
    tip = git[(repo / ".kart/refs/heads/main").read_text().strip()].peel(pygit2.Commit)
    ours, theirs = (parent.tree for parent in tip.parents)
    base = tip.parents[0].parents[0].tree
    assert git.merge_trees(base, ours, theirs).write_tree(git) == tip.tree.id


@pytest.mark.parametrize(
    ("moves", "side"), [("main", "ours"), ("main", "theirs"), ("side", "ours")]
)
def test_a_dataset_that_one_side_moved_and_the_other_gave_columns(
    moves: str, side: str, made: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "made"
    shutil.copytree(made, folder, symlinks=True)
    repo = folder / "repo"
    run(repo, "reset", "--discard-changes", "HEAD^")
    run(repo, "switch", "side" if moves == "main" else "main")
    edit(repo, "ALTER TABLE points ADD COLUMN note TEXT")
    edit(repo, "UPDATE points SET note = 'new' WHERE id = 3")
    run(repo, "commit", "-m", "Note")
    run(repo, "switch", moves)
    run(repo, "mv", "points", "places", "-m", "Moved")
    run(repo, "switch", "main")

    assert "points:meta: 1 conflict" in run(repo, "merge", "side", "-m", "Both")
    # What is not decided is as on our side: there, with its columns, or not at all.
    tree = (repo / ".kart" / "MERGED_TREE").read_text().strip()
    listed = run_git("ls-tree", "-r", "--name-only", tree, cwd=repo / ".kart").splitlines()
    there = {path.partition("/.table-dataset/")[0] for path in listed if "/.table-dataset/" in path}
    assert there == {"places"} if moves == "main" else {"places", "points"}
    said = run(repo, "resolve", "points:meta:dataset", f"--with={side}")
    assert "0 conflicts to go" in said
    run(repo, "merge", "--continue")

    found = Repo.open(repo)
    stays = side == "theirs" or moves == "side"
    names = run(repo, "data", "ls").split()
    assert names == ["places", "points"] if stays else names == ["places"]
    if stays:
        assert found.table("points").to_arrow()["note"].to_pylist() == [None, None, "new", None]
    assert "Everything is sound" in run(repo, "fsck")
    assert "Nothing to commit" in run(repo, "status")


@pytest.mark.parametrize("name", ["kart", "havasu-vc"])
def test_what_else_merged_is_there_while_columns_wait(
    name: str, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(made / "repo", repo, symlinks=True)
    for branch, column, number in (("left", "nom", 3), ("right", "label", 4)):
        run(repo, "switch", "-c", branch, "main")
        edit(repo, f"ALTER TABLE points RENAME COLUMN name TO {column}")
        edit(repo, f"UPDATE points SET {column} = '{branch}' WHERE id = {number}")
        run(repo, "commit", "-m", branch)
    run(repo, "switch", "left")
    monkeypatch.setattr("sys.argv", [f"/usr/bin/{name}", "merge"])

    run(repo, "merge", "right")

    # Kart goes on from this tree, which lacked what the other side alone had changed.
    shown = (repo / ".kart" / "MERGED_TREE").read_text().strip()
    git = GitRepository.open(repo)
    sides = {side: git.git("rev-parse", f"{side}:{FEATURE}kQQ=").text for side in ("right", shown)}
    assert sides["right"] == sides[shown]
    run(repo, "resolve", "points:meta:schema.json", "--with=ours")
    run(repo, "merge", "--continue")
    with closing(sqlite3.connect(repo / "repo.gpkg")) as database:
        found = database.execute("SELECT id, nom FROM points ORDER BY id").fetchall()
    assert found == [(1, "main"), (2, "main"), (3, "left"), (4, "right")]


@pytest.mark.parametrize("into", ["main", "fewer"])
def test_rows_deleted_of_a_dataset_that_the_other_side_removed_ask_nobody(
    into: str, made: Path, tmp_path: Path
) -> None:
    repo = tmp_path / "repo"
    shutil.copytree(made / "repo", repo, symlinks=True)
    run(repo, "switch", "-c", "fewer")
    edit(repo, "DELETE FROM points WHERE id > 2")
    run(repo, "commit", "-m", "Fewer")
    run(repo, "switch", "main")
    run(repo, "data", "rm", "points", "-m", "None")
    run(repo, "switch", into)

    run(repo, "merge", {"main": "fewer", "fewer": "main"}[into])

    assert not (repo / ".kart" / "MERGE_HEAD").exists()
    assert not Repo.open(repo).datasets()
    # Where the other side wrote a row, somebody has to say whether that goes.
    assert "conflict" in run(repo, "merge", "side", "--dry-run")
