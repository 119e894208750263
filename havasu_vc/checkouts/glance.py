"""How much is edited in the workspace, at a glance: what was counted before is remembered.

A table whose newest metadata file is the one we wrote has no edits. What was counted of
another one holds as long as its newest metadata file and what is checked out are the
same, and no linked file looks changed. Only when something is new are tables read, and
with them most of the program loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from havasu_vc.errors import NoChangesError
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.names import TABLES
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.workspace.state import TableState, WorkspaceState, identify, read_state

__all__ = [
    "FileState",
    "TableChanges",
    "WorkspaceChanges",
    "glance",
    "is_untouched",
    "notes_on",
    "notes_on_head",
    "nothing_edited",
    "remember",
]

_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")


@dataclass(frozen=True, slots=True)
class TableChanges:
    """How much of one table differs from what was checked out."""

    meta: ChangeCounts
    """Meta items."""
    rows: ChangeCounts
    """Rows."""
    commit: str
    """The commit that was checked out."""
    branches: tuple[str, ...] = ()
    """Branches of the table that were written to."""
    hidden: int = 0
    """Those updates among the rows that are inserts under keys outside of the spatial filter."""

    @property
    def total(self) -> int:
        """All changes; a branch that was written to counts as one."""
        return self.meta.total + self.rows.total + len(self.branches)


@dataclass(frozen=True, slots=True)
class FileState:
    """How a living working copy is, beside its edits."""

    found: bool = True
    """Whether it is there."""
    commit: str | None = None
    """The commit whose rows it has; None for a tree of no commit that is known."""
    tree: str = ""
    """The root tree whose rows it has."""
    untracked: tuple[str, ...] = ()
    """Tables that are no dataset."""
    without_triggers: tuple[str, ...] = ()
    """Datasets whose tables lack triggers, so that all rows are compared."""
    locked: bool = False
    """Whether another program, such as an editor, holds its lock."""
    left_out: tuple[str, ...] = ()
    """Datasets of HEAD that the settings leave out of it."""
    dropped: tuple[str, ...] = ()
    """Datasets whose tables are gone from it."""

    @property
    def dropped_notes(self) -> tuple[str, ...]:
        """A line for a person about each dataset whose table is gone."""
        return tuple(
            f"{path}: its table is gone from the working copy; a commit deletes the dataset, "
            f"`havasu-vc restore {shlex.quote(path)}` brings the table back"
            for path in self.dropped
        )

    @property
    def untracked_notes(self) -> tuple[str, ...]:
        """A line for a person about each of these tables."""
        return tuple(
            f"the table {name} is no dataset yet; `havasu-vc add-dataset {shlex.quote(name)}` "
            f"makes it one"
            for name in self.untracked
        )


@dataclass(frozen=True, slots=True)
class WorkspaceChanges:
    """The edits in a workspace, counted."""

    root: Path | str
    """The folder of its tables, or the URL."""
    tables: Mapping[str, TableChanges] = field(default_factory=dict)
    """Tables that differ, by the dataset's path."""
    problems: tuple[str, ...] = ()
    """Tables that cannot be looked at, and why, one line each."""
    notes: tuple[str, ...] = ()
    """Notes for a person, one line each."""
    kind: str = "havasu"
    """The form that tables have: `havasu`, or `gpkg` in a living working copy."""
    file: FileState | None = None
    """How a living working copy is, beside its edits."""


def nothing_edited(filters: Sequence[str] = ()) -> NoChangesError:
    """Return the error of a commit of no edits, or of none that filters name."""
    if not filters:
        return NoChangesError("there is nothing to commit: no row and no column was edited")
    shown = ", ".join([*filters[:3], *["…"][: len(filters) > 3]])
    return NoChangesError(
        f"there is nothing to commit: no edit is of {shown}",
        hints=("`havasu-vc status` tells what is edited, `havasu-vc diff` row by row",),
    )


def glance(repo: OpenRepo) -> WorkspaceChanges | None:
    """Return what is edited; None where tables have to be read to know."""
    state = read_state(repo.git.git_directory)
    if state is None or not isinstance(state.root, Path) or not _at_home(repo, state):
        return None
    found: dict[str, TableChanges] = {}
    for path, known in state.tables.items():
        location = state.root / path
        try:
            if any(identify(_linked(location, f)) != there for f, there in known.files.items()):
                return None
            newest = _newest(location, known.version)
            if newest is None:
                return None
            if newest == location / "metadata" / f"v{known.version}.metadata.json":
                continue
            counted = json.loads(_memory(repo, known, newest).read_bytes())
            meta, rows = (ChangeCounts(*counted[name]) for name in ("meta", "rows"))
            branches = tuple(map(str, counted["branches"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        found[path] = TableChanges(meta, rows, known.commit, branches)
    return _with_notes(repo, state, found)


def is_untouched(repo: OpenRepo) -> bool:
    """Whether no table is known to be edited, or none is checked out."""
    if read_state(repo.git.git_directory) is None:
        return True
    seen = glance(repo)
    return seen is not None and not seen.tables


def _with_notes(
    repo: OpenRepo, state: WorkspaceState, counted: Mapping[str, TableChanges]
) -> WorkspaceChanges:
    notes = tuple(
        note
        for path, changes in counted.items()
        for note in notes_on(repo, state.tables[path], changes)
    )
    changed = {path: changes for path, changes in counted.items() if changes.total}
    return WorkspaceChanges(state.root, changed, (), (*notes, *notes_on_head(repo, state, counted)))


def notes_on_head(
    repo: OpenRepo, state: WorkspaceState, edited: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return what a person should know where another program moved HEAD, as git does."""
    head = repo.head()
    apart = {path: table for path, table in state.tables.items() if table.commit != head.commit}
    if not apart and state.tables:
        return ()
    folders = repo.folders(head)
    behind = [
        path
        for path, table in apart.items()
        if path not in edited and (path not in folders or folders[path].internals != table.tree)
    ]
    behind += [
        path
        for path, folder in folders.items()
        if path not in state.tables and folder.marker in TABLES
    ]
    if not behind:
        return ()
    names = ", ".join(behind) if len(behind) < 4 else f"{len(behind)} tables"
    return (f"HEAD is elsewhere than the tables are ({names}); `havasu-vc checkout` brings them",)


def notes_on(repo: OpenRepo, table: TableState, changes: TableChanges) -> tuple[str, ...]:
    """Return what a person should know of an edited table."""
    if not changes.total:
        return (f"{table.path}: its table was written to, and no row or column changed",)
    notes = [
        f"{table.path}: the branch {name} of its table was written to; "
        "`havasu-vc commit --refs` commits it"
        for name in changes.branches
    ]
    now = repo.folders(repo.head()).get(table.path)
    if now is None or now.internals != table.tree:
        notes.append(
            f"{table.path}: the edits were made on {table.commit[:10]}; "
            "a commit brings them onto HEAD row by row"
        )
    return tuple(notes)


def remember(
    repo: OpenRepo, state: WorkspaceState, table: TableState, changes: TableChanges
) -> None:
    """Keep what was counted of a table as it is now; of one in a bucket all else is kept."""
    newest = None
    if isinstance(state.root, Path):
        newest = _newest(state.root / table.path, table.version)
    if newest is None:
        return
    counted = {
        name: [counts.inserts, counts.updates, counts.deletes]
        for name, counts in (("meta", changes.meta), ("rows", changes.rows))
    }
    value = {**counted, "branches": list(changes.branches)}
    with suppress(OSError):  # it only spares work next time
        place = _memory(repo, table, newest)
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_name(f".tmp-{place.name}-{os.getpid()}")
        temporary.write_text(json.dumps(value), encoding="utf-8")
        os.replace(temporary, place)


def _at_home(repo: OpenRepo, state: WorkspaceState) -> bool:
    """Whether the tables are where this work tree has them; it may be a copy of another."""
    configured = repo.git.config.get("havasu.workspace.path") or "tables"
    base = os.path.realpath(repo.git.work_tree or "")
    return os.path.normpath(os.path.join(base, configured)) == os.fspath(state.root)


def _linked(location: Path, file: str) -> Path:
    return location / "data" / f"{file}.parquet"


def _newest(location: Path, version: int) -> Path | None:
    """Return the newest metadata file from one version on; None when that one is not there."""
    found = None
    while True:
        places = (location / "metadata" / f"v{version}{suffix}" for suffix in _SUFFIXES)
        there = next((place for place in places if place.exists()), None)
        if there is None:
            return found
        found, version = there, version + 1


def _memory(repo: OpenRepo, table: TableState, newest: Path) -> Path:
    status = os.stat(newest)
    identity = (os.fspath(newest), status.st_ino, status.st_size, status.st_mtime_ns)
    text = repr((identity, table.path, table.tree, table.snapshot_id))
    name = hashlib.sha256(text.encode()).hexdigest()
    return repo.git.data_folder / "keys" / f"{name}-counted"
