"""`<git directory>/havasu/workspace.json`: what is checked out in a work tree, and from what.

    {"format": 1,
     "root": "/home/ann/survey/tables",
     "flavour": null, "copy": false, "refs": false,
     "tables": {
      "parcels": {
       "commit": "<git commit>", "tree": "<tree of .havasu-dataset>",
       "snapshot": 123, "version": 4, "flavour": "havasu",
       "files": {"<sha256>": [<inode>, <size>, <mtime in ns>], …},
       "deletes": [[["<sha256>", …], ["<path of a position delete file>", …]], …],
       "refs": {"v1": ["<git commit>", "<tree>", 122]}}},
     "layouts": {"": {"clustered": true, "partition": null}}}

Each linked work tree has its own, beside its index. A table is *ours* as long as its
newest metadata file is the one of `version`: whatever Spark does to a table adds
another. The document is replaced as a whole, so a reader sees the old one or the new.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from havasu_vc.errors import StateError, UnsupportedVersionError
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.records import dataclass
from havasu_vc.store.disk import replace_file
from havasu_vc.store.repository import GitRepository

__all__ = [
    "DeleteBatch",
    "FileIdentity",
    "RefState",
    "TableLayout",
    "TableState",
    "WorkspaceState",
    "checked_out_files",
    "checked_out_trees",
    "clustered_trees",
    "format_state",
    "identify",
    "parse_state",
    "read_state",
    "state_path",
    "write_state",
]

FORMAT = 1


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Facts of a linked file that change when someone writes into it."""

    inode: int
    """Its number in the file system."""
    size: int
    """Bytes."""
    mtime_ns: int
    """When it was last written."""


@dataclass(frozen=True, slots=True)
class DeleteBatch:
    """Delete files of a dataset that were written together as Iceberg's."""

    sources: tuple[str, ...]
    """The dataset's delete files, by sha256."""
    files: tuple[str, ...]
    """The position delete files, one per partition, as manifests spell their paths."""


@dataclass(frozen=True, slots=True)
class RefState:
    """A branch or tag of git that the table shows under its name."""

    commit: str
    """Where it was."""
    tree: str
    """The dataset's internals there."""
    snapshot_id: int
    """The snapshot of it."""


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How rows are to lie in the files of a table."""

    clustered: bool = False
    """Whether they are sorted anew, into files of the table's own."""
    partition: str | None = None
    """The document of the partition spec that they are dealt out by; None takes the dataset's."""


@dataclass(frozen=True, slots=True)
class TableState:
    """One dataset, checked out."""

    path: str
    """The dataset's path, and the table's below the root."""
    commit: str
    """The commit that it is of."""
    tree: str
    """Its internals (`.havasu-dataset`) in that commit."""
    snapshot_id: int
    """The table's snapshot of it."""
    version: int
    """The metadata file that we wrote: `v<version>.metadata.json`."""
    flavour: Flavour
    """The engine that it was written for."""
    files: Mapping[str, FileIdentity] = field(default_factory=dict)
    """The data files that are linked, by sha256."""
    deletes: tuple[DeleteBatch, ...] = ()
    """The position delete files that were made of the dataset's delete files."""
    refs: Mapping[str, RefState] = field(default_factory=dict)
    """Other branches and tags of the table, by name."""
    document: FileIdentity | None = None
    """The metadata file that we wrote, None where that was not noted."""
    clustered: str | None = None
    """The tree of the clustered version whose files it has, None for the dataset's own."""


@dataclass(frozen=True, slots=True)
class WorkspaceState:
    """The tables that are checked out in a work tree."""

    root: Path | str
    """The folder of all tables, absolute, or the URL below which they are."""
    flavour: Flavour | None = None
    """The engine that was asked for; None chooses for each table."""
    copy: bool = False
    """Whether files are copied rather than linked."""
    refs: bool = False
    """Whether branches and tags of git are shown in the tables."""
    tables: Mapping[str, TableState] = field(default_factory=dict)
    """By the dataset's path."""
    layouts: Mapping[str, TableLayout] = field(default_factory=dict)
    """The layouts that were asked for, by the dataset's path; by an empty one for all others."""

    def layout_of(self, path: str) -> TableLayout:
        """Return how rows of a dataset's table are to lie."""
        return self.layouts.get(path) or self.layouts.get("") or TableLayout()

    def with_table(self, path: str, table: TableState | None) -> WorkspaceState:
        """Return the state once a table is another, or gone."""
        tables = {name: known for name, known in self.tables.items() if name != path}
        if table is not None:
            tables[path] = table
        return replace(self, tables=dict(sorted(tables.items())))


def state_path(git_directory: Path) -> Path:
    """Return where the state of a work tree is, by its own git directory."""
    return git_directory / "havasu" / "workspace.json"


def identify(path: Path) -> FileIdentity:
    """Return the identity of a file as it is now."""
    status = os.lstat(path)
    return FileIdentity(status.st_ino, status.st_size, status.st_mtime_ns)


def read_state(git_directory: Path) -> WorkspaceState | None:
    """Return what is checked out; None where there is no workspace."""
    path = state_path(git_directory)
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return parse_state(data, str(path))


def write_state(git_directory: Path, state: WorkspaceState) -> None:
    """Record what is checked out, durably."""
    replace_file(state_path(git_directory), format_state(state))


def format_state(state: WorkspaceState) -> bytes:
    """Return the document."""
    value = {
        "format": FORMAT,
        "root": str(state.root),
        "flavour": state.flavour and state.flavour.value,
        "copy": state.copy,
        "refs": state.refs,
        "tables": {path: _table_to_json(table) for path, table in sorted(state.tables.items())},
        "layouts": {
            path: {"clustered": layout.clustered, "partition": layout.partition}
            for path, layout in sorted(state.layouts.items())
        },
    }
    return json.dumps(value, indent=1).encode() + b"\n"


def _table_to_json(table: TableState) -> dict[str, Any]:
    return {
        "commit": table.commit,
        "tree": table.tree,
        "snapshot": table.snapshot_id,
        "version": table.version,
        "flavour": table.flavour.value,
        "files": {
            sha256: _identity_to_json(known) for sha256, known in sorted(table.files.items())
        },
        "deletes": [[list(batch.sources), list(batch.files)] for batch in table.deletes],
        "refs": {
            name: [ref.commit, ref.tree, ref.snapshot_id]
            for name, ref in sorted(table.refs.items())
        },
        "document": table.document and _identity_to_json(table.document),
        "clustered": table.clustered,
    }


def _identity_to_json(known: FileIdentity) -> list[int]:
    return [known.inode, known.size, known.mtime_ns]


def parse_state(data: bytes, where: str) -> WorkspaceState:
    """Return the state of a document."""
    try:
        value = json.loads(data)
        if value["format"] != FORMAT:
            raise UnsupportedVersionError(
                f"{where}: a workspace of format {value['format']!r} is not known to this version",
                hints=("upgrade havasu-vc",),
            )
        flavour = value["flavour"]
        return WorkspaceState(
            _root(value["root"]),
            None if flavour is None else Flavour(flavour),
            bool(value["copy"]),
            bool(value["refs"]),
            {path: _table(path, table) for path, table in value["tables"].items()},
            {path: _layout(layout) for path, layout in value.get("layouts", {}).items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise StateError(
            f"{where} cannot be understood",
            hints=("remove it, then `havasu-vc checkout` looks at the tables anew",),
        ) from error


def _root(text: str) -> Path | str:
    return text if "://" in text else Path(text)


def _layout(value: dict[str, Any]) -> TableLayout:
    partition = value["partition"]
    return TableLayout(bool(value["clustered"]), None if partition is None else str(partition))


def _table(path: str, value: dict[str, Any]) -> TableState:
    return TableState(
        path,
        str(value["commit"]),
        str(value["tree"]),
        int(value["snapshot"]),
        int(value["version"]),
        Flavour(value["flavour"]),
        {sha256: FileIdentity(*map(int, known)) for sha256, known in value["files"].items()},
        tuple(
            DeleteBatch(tuple(map(str, sources)), tuple(map(str, files)))
            for sources, files in value["deletes"]
        ),
        {
            name: RefState(str(commit), str(tree), int(snapshot))
            for name, (commit, tree, snapshot) in value["refs"].items()
        },
        FileIdentity(*map(int, document)) if (document := value.get("document")) else None,
        None if (clustered := value.get("clustered")) is None else str(clustered),
    )


# Tables of any work tree: what they use stays, whoever clears up.


def checked_out_files(git: GitRepository) -> set[str]:
    """Return the data files of the tables that are checked out in any work tree."""
    found: set[str] = set()
    for table in _tables(git):
        found.update(table.files)
        found.update(source for batch in table.deletes for source in batch.sources)
    return found


def checked_out_trees(git: GitRepository) -> set[str]:
    """Return the trees of internals that the tables of any work tree are of."""
    return {table.tree for table in _tables(git)}


def clustered_trees(git: GitRepository) -> set[str]:
    """Return the trees of the clustered versions that tables of any work tree show."""
    return {table.clustered for table in _tables(git) if table.clustered is not None}


def _tables(git: GitRepository) -> Iterator[TableState]:
    common = git.common_directory
    for directory in (common, *sorted(common.glob("worktrees/*"))):
        state = read_state(directory)
        yield from () if state is None else state.tables.values()
