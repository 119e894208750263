"""What must hold after a command was cut off, looked at by other means than the command's own."""

import hashlib
import os
import re
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from havasu_vc import Repo
from havasu_vc.checkouts.keeping_bases import PREFIX
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import DataFileNotFoundError, UnsupportedVersionError
from havasu_vc.tables.scanning import scan_tasks
from havasu_vc.tables.table import read_table
from tests.faults.postgis import rows_there
from tests.faults.running import digest
from tests.faults.scenes import OLDER, Rows, Story, Version
from tests.remotes.sharing import assert_keeps_its_promise
from tests.support.git import run_git
from tests.support.sound import LOCAL

__all__ = ["ABSENT", "State", "View", "agrees", "apart", "look", "only_more", "state_of", "unsound"]

View: TypeAlias = Mapping[str, Any]
T = TypeVar("T")

REPOSITORIES = ("repo", "other", "new", "server.git")
ABSENT = "its data is not here"
Found: TypeAlias = tuple[tuple[Any, ...], ...]


def apart(work: Callable[[], T]) -> T:
    """Return what a function returns in a process of its own, so that this one starts no thread."""
    import pickle

    with tempfile.TemporaryFile() as file:
        child = os.fork()
        if not child:
            code = 1
            try:
                try:
                    result: tuple[bool, Any] = True, work()
                except BaseException:
                    import traceback

                    result = False, traceback.format_exc()
                file.write(pickle.dumps(result))
                file.flush()
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        file.seek(0)
        fine, found = pickle.loads(file.read()) if not status else (False, f"status {status}")
    if not fine:
        raise AssertionError(found)
    return cast(T, found)


def stored(rows: Rows) -> Found:
    """Return rows of the model as `look` gives them."""
    return tuple(sorted((key, *values) for key, values in rows.items()))


def _rows(found: list[dict[str, Any]]) -> Found:
    names = ("id", "geom", "name", "number")
    return tuple(sorted(tuple(row.get(name) for name in names) for row in found))


def look(folder: Path) -> View:
    """Return what a person can see of the repositories: every row of every commit of every ref.

    Also the tables that are checked out, what waits in a merge, what git's status says, and
    where HEAD is.
    """
    view: dict[str, Any] = {}
    for name in REPOSITORIES:
        place = folder / name
        if _head(place) is None:
            continue
        if name == "server.git" and (folder / "data").exists():
            # Its data is beside it, and no command of ours reads it there.
            assert_keeps_its_promise(place, folder / "data")
            view[name] = run_git("for-each-ref", cwd=place)
            continue
        repo = Repo.open(place, settings=LOCAL)
        cache: dict[str, Any] = {}
        refs = run_git("for-each-ref", "--format=%(refname) %(objectname)", cwd=place)
        for line in refs.splitlines():
            ref, commit = line.split()
            if ref.startswith(PREFIX):
                continue  # they keep what HEAD has, and come with the next command if they can
            ref = re.sub(r"\d{10,}", "*", ref)  # stashes are named by the time
            listed = run_git("rev-list", "--first-parent", "--reverse", commit, cwd=place)
            view[f"{name} {ref}"] = tuple(_version(repo, each, cache) for each in listed.split())
        view[f"{name} HEAD"] = (_head(place) or Path()).read_text()
        if not repo.git.is_bare:
            view |= _work_tree(repo, name)
    copy = folder / "copy.gpkg"
    if copy.exists():
        view["copy"] = _copy(copy)
    if (there := rows_there(folder)) is not None:
        view["PostGIS"] = there
    return view


def _head(place: Path) -> Path | None:
    """Return the file that says where HEAD is: of git, of Kart, or of a bare repository."""
    return next(
        (each for part in (".git", ".kart", "") if (each := place / part / "HEAD").exists()), None
    )


def _version(repo: Repo, commit: str, cache: dict[str, Any]) -> Any:
    if commit not in cache:
        try:
            cache[commit] = {
                path: _rows(repo.table(path, commit).to_arrow().to_pylist())
                for path in repo.datasets(commit)
            }
        except DataFileNotFoundError:
            cache[commit] = ABSENT
        except UnsupportedVersionError:
            cache[commit] = {OLDER: ()}
    return cache[commit]


def _work_tree(repo: Repo, name: str) -> dict[str, Any]:
    view: dict[str, Any] = {}
    # Kart's index is of a kind that git does not read.
    of_git = not (repo.path / ".kart").exists()
    view[f"{name} status"] = of_git and run_git("status", "--porcelain", cwd=repo.path)
    view[f"{name} stashes"] = len(repo.workspace.stashes())
    status = repo.status()
    waiting = status.waiting
    view[f"{name} state"] = status.state
    view[f"{name} waiting"] = waiting and (waiting.kind, dict(waiting.conflicts))
    tables = repo.path / "tables"
    for metadata in sorted(tables.rglob("metadata")):
        if any(metadata.glob("v*.metadata.json")) and not any(
            p.startswith(".") for p in metadata.relative_to(tables).parts
        ):
            with LocalEngine() as engine:
                batches = list(engine.run(scan_tasks(read_table(metadata.parent))))
            rows = [row for batch in batches for row in batch.to_pylist()]
            view[f"{name} tables/{metadata.parent.relative_to(tables)}"] = _rows(rows)
    return view


def _copy(path: Path) -> Any:
    import sqlite3
    from contextlib import closing

    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {
            t: database.execute(f"SELECT * FROM {t}").fetchall()
            for t in ("points", "trees")
            if database.execute("SELECT 1 FROM sqlite_master WHERE name = ?", [t]).fetchone()
        }


def agrees(view: View, versions: Mapping[str, tuple[Version, ...]]) -> list[str]:
    """Return where the rows of commits are not those of the model."""
    return [
        f"{ref} has not the rows that it should have: {sorted(view)}"
        for ref, expected in versions.items()
        if view.get(ref) != tuple({p: stored(r) for p, r in each.items()} for each in expected)
    ]


def agrees_after(view: View, story: Story) -> list[str]:
    """Return where a view differs from what the model says the command leaves."""
    found = agrees(view, story.after)
    for dataset, rows in story.tables.items():
        if view.get(f"repo tables/{dataset}") != stored(rows):
            found.append(f"tables/{dataset} has not the rows that it should have")
    return found


def unsound(folder: Path) -> list[str]:
    """Return what git's fsck and ours complain about, without saying what to do."""
    found = []
    for name in REPOSITORIES:
        place = folder / name
        if _head(place) is None:
            continue
        done = subprocess.run(
            ["git", "fsck", "--strict", "--no-progress", "--no-dangling"],
            cwd=place,
            env={
                **os.environ,
                **({"GIT_INDEX_FILE": "none"} if (place / ".kart").exists() else {}),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        said = [
            line
            for line in (done.stdout + done.stderr).splitlines()
            if not line.startswith("notice: ")
        ]
        if done.returncode or said:
            found.append(f"{name}: git fsck says {said}")
        if name == "server.git" and (folder / "data").exists():
            continue
        repo = Repo.open(place, settings=LOCAL)
        found += [
            f"{name}: fsck says {problem.where}: {problem.message}"
            for problem in repo.fsck(full=True)
            if not problem.hint
        ]
    return found


State: TypeAlias = Mapping[str, str]


def state_of(folder: Path) -> State:
    """Return everything that is in a folder, but for times and inodes: names of bytes by path.

    What git and we leave in the making when we are killed has any name, and is one.
    """
    found = {}
    for place, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(place, name)
            shown = str(path.relative_to(folder))
            if _IN_THE_MAKING.search(shown):
                continue
            data = os.readlink(path).encode() if path.is_symlink() else path.read_bytes()
            if name in ("index", "index.lock"):
                data = _entries(data)
            found[shown] = digest(data)
    return found


def only_more(folder: Path, state: State, other: State) -> bool:
    """Whether a state has all of another, and besides only objects that are what their names say.

    No ref, no document and no table is another one then, so what can be seen is the same.
    """
    if any(state.get(path) != named for path, named in other.items()):
        return False
    return all(_is_whole(folder / path) for path in state.keys() - other.keys())


_IN_THE_MAKING = re.compile(r"^scratch/|/havasu/(staging|temporary)/|/tmp_\w+$")
_LOOSE = re.compile(r"(?:\.git|server\.git)/objects/([0-9a-f]{2})/([0-9a-f]{38})$")
_DATA = re.compile(r"/objects/[0-9a-f]{2}/[0-9a-f]{2}/([0-9a-f]{64})$")


def _is_whole(path: Path) -> bool:
    if not path.exists():  # a link whose file is gone
        return False
    if found := _LOOSE.search(str(path)):
        try:
            data = zlib.decompress(path.read_bytes())
        except zlib.error:
            return False
        return hashlib.sha1(data).hexdigest() == "".join(found.groups())
    if found := _DATA.search(str(path)):
        return hashlib.sha256(path.read_bytes()).hexdigest() == found[1]
    return False


def _entries(data: bytes) -> bytes:
    """Return git's index without times and inodes."""
    if data[:4] != b"DIRC" or len(data) < 12:
        return data
    found, at = [], 12
    for _ in range(int.from_bytes(data[8:12], "big")):
        end = data.find(b"\0", at + 62)
        if end < 0:
            return data
        found.append(data[at + 40 : end])
        at += (end - at + 8) // 8 * 8
    return b"\n".join(found)
