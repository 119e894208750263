"""A merge that waits for its conflicts to be resolved, kept under the git directory.

    <git directory>/havasu/merge/
      state.json        the commits, the message, the policy, and conflicts of meta items
      <sha256>.arrow    the row conflicts of one dataset, and how they were resolved

The names of the tables prove their content, and `state.json` changes last: a crash leaves
what was there before. HEAD, the branch and the index are untouched until the merge is
concluded, which makes the whole merge again from the commits, with the resolutions. So
nothing here can be lost that matters, and a damaged state is dropped by `merge --abort`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from havasu_vc.errors import CorruptionError, HavasuError, StateError
from havasu_vc.history.conflicts import (
    ColumnConflict,
    DatasetConflicts,
    MergePolicy,
    Side,
    conflict_columns,
    conflict_table,
)
from havasu_vc.records import dataclass
from havasu_vc.repo.waiting import (
    drop_state,
    merge_folder,
    merge_waits,
    require_no_merge_of_kart,
)
from havasu_vc.store.commits import Signature, parse_signature
from havasu_vc.store.disk import replace_file
from havasu_vc.store.repository import GitRepository

__all__ = ["MergeState", "drop_state", "read_state", "require_state", "write_state"]

_VERSION = 2
_READABLE = (1, 2)
"""Version 1 knew no columns in conflict, only that there are some."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
_DAMAGE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    OSError,
    RecursionError,
    pa.ArrowException,
)


@dataclass(frozen=True, slots=True)
class MergeState:
    """A merge that waits."""

    ours: str
    """HEAD's commit when the merge began."""
    theirs: str
    """The commit to merge."""
    name: str
    """How theirs was named."""
    message: str
    """The message of the merge commit."""
    policy: MergePolicy = field(default_factory=MergePolicy)
    """The policy that decides without asking."""
    conflicts: tuple[DatasetConflicts, ...] = ()
    """By dataset."""
    kind: str = "merge"
    """The kind of the commit: `merge`, `squash`, `cherry-pick`, `revert` or `rebase`."""
    base: str | None = None
    """The revision that both sides are compared with; None for their merge base."""
    parents: tuple[str, ...] = ()
    """The commit's parents after HEAD."""
    author: Signature | None = None
    """Who made the change, where that is somebody else."""
    takes_over: bool = False
    """Whether git began it and will conclude it."""
    merged: str | None = None
    """The tree with all that is not in conflict, where a living working copy shows it."""

    @property
    def unresolved(self) -> int:
        """How many conflicts wait."""
        return sum(each.unresolved for each in self.conflicts)

    def with_conflicts(self, waiting: Iterable[DatasetConflicts]) -> MergeState:
        """Return the state with conflicts that came up; what was resolved before stays so."""
        found = {each.path: each for each in (*self.conflicts, *waiting)}
        return replace(self, conflicts=tuple(found[path] for path in sorted(found)))

    def with_dataset(self, conflicts: DatasetConflicts) -> MergeState:
        """Return the state with another version of one dataset's conflicts."""
        return replace(
            self,
            conflicts=tuple(
                conflicts if each.path == conflicts.path else each for each in self.conflicts
            ),
        )


def write_state(git: GitRepository, state: MergeState) -> None:
    """Keep a merge, all of it or what was there before."""
    folder = merge_folder(git)
    folder.mkdir(parents=True, exist_ok=True)
    datasets = []
    for each in state.conflicts:
        name = None if each.rows is None else _write_table(folder, each.rows)
        columns = {
            name: {"kinds": list(column.kinds), "side": column.side}
            for name, column in each.columns.items()
        }
        datasets.append(
            {"path": each.path, "rows": name, "items": dict(each.items), "columns": columns}
        )
    policy = asdict(state.policy)
    document = {
        "version": _VERSION,
        "ours": state.ours,
        "theirs": state.theirs,
        "name": state.name,
        "message": state.message,
        "policy": policy,
        "kind": state.kind,
        "base": state.base,
        "parents": list(state.parents),
        "author": None if state.author is None else str(state.author),
        "takes_over": state.takes_over,
        "merged": state.merged,
        "datasets": datasets,
    }
    replace_file(folder / "state.json", json.dumps(document, indent=1).encode())
    wanted = {each["rows"] for each in datasets}
    for file in folder.glob("*.arrow"):
        if file.stem not in wanted:
            file.unlink(missing_ok=True)


def _write_table(folder: Path, rows: pa.Table) -> str:
    """Write conflicts into a file that is named by its content; return that name."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)
    data = sink.getvalue().to_pybytes()
    name = hashlib.sha256(data).hexdigest()
    replace_file(folder / f"{name}.arrow", data)
    return name


def read_state(git: GitRepository) -> MergeState | None:
    """Return the merge that waits; None when there is none."""
    folder = merge_folder(git)
    try:
        data = (folder / "state.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable("state.json", error) from error
    try:
        value = json.loads(data)
        if value["version"] not in _READABLE:
            raise ValueError(f"version {value['version']}")
        return MergeState(
            _text(value["ours"]),
            _text(value["theirs"]),
            _text(value["name"]),
            _text(value["message"]),
            _policy(value["policy"]),
            tuple(
                DatasetConflicts(
                    _text(each["path"]),
                    _rows(folder, each),
                    _items(each["items"]),
                    _columns({} if value["version"] == 1 else each["columns"]),
                )
                for each in value["datasets"]
            ),
            _text(value["kind"]),
            None if value["base"] is None else _text(value["base"]),
            tuple(map(_text, value["parents"])),
            None if value["author"] is None else parse_signature(_text(value["author"])),
            value.get("takes_over") is True,
            None if value.get("merged") is None else _text(value["merged"]),
        )
    except CorruptionError:
        raise
    except (*_DAMAGE, HavasuError) as error:
        raise _unreadable("state.json", error) from error


def _unreadable(what: str, error: Exception) -> CorruptionError:
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return CorruptionError(
        f"the state of the merge cannot be read: {what} is damaged ({reason})",
        hints=("`havasu-vc merge --abort` drops it; nothing committed is lost",),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _items(value: Mapping[str, Any]) -> dict[str, str | None]:
    for name, choice in value.items():
        if choice not in (None, "ours", "theirs", "base", "delete", "columns"):
            raise ValueError(f"{name} is resolved with {choice!r}")
    return dict(value)


def _columns(value: Mapping[str, Any]) -> dict[str, ColumnConflict]:
    for name, column in value.items():
        if column["side"] not in (None, "ours", "theirs"):
            raise ValueError(f"column {name} is resolved with {column['side']!r}")
    return {
        name: ColumnConflict(tuple(map(_text, column["kinds"])), column["side"])
        for name, column in value.items()
    }


def _policy(value: Mapping[str, Any]) -> MergePolicy:
    side = value["side"]
    return MergePolicy(
        None if side is None else Side(side),
        {name: Side(each) for name, each in value["columns"].items()},
        bool(value["fill_nulls"]),
    )


def _rows(folder: Path, value: Mapping[str, Any]) -> pa.Table | None:
    """Read the conflicts of a dataset, after a look at whether they are what was written."""
    name = value["rows"]
    if name is None:
        return None
    if not _SHA256.fullmatch(_text(name)):
        raise ValueError(f"{name!r} names no table")
    try:
        data = (folder / f"{name}.arrow").read_bytes()
        if hashlib.sha256(data).hexdigest() != name:
            raise ValueError("its content is not what its name says")
        table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
        if table.schema.names != conflict_table([], conflict_columns(table)).schema.names:
            raise ValueError("its columns are not those of conflicts")
        return table
    except (*_DAMAGE, HavasuError) as error:
        raise _unreadable(f"{name[:7]}….arrow", error) from error


def require_state(git: GitRepository) -> MergeState:
    """Return the merge that waits; raises when there is none."""
    state = read_state(git) if merge_waits(git) else None
    if state is None:
        require_no_merge_of_kart(git)
        raise StateError("there is no merge to go on with", hints=("`havasu-vc merge BRANCH`",))
    return state
