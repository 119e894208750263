"""A merge that waits for its conflicts to be resolved, kept under the git directory.

    <git directory>/havasu/merge/
      state.json        the commits, the message, the policy, and conflicts of meta items
      <number>.arrow    the row conflicts of one dataset, and how they were resolved

HEAD, the branch and the index are untouched until the merge is concluded, which makes
the whole merge again from the commits, with the resolutions. So nothing here can be
lost that matters, and a damaged state is dropped by `merge --abort`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from havasu_vc.errors import CorruptionError, StateError
from havasu_vc.history.merging import MergePolicy, Side
from havasu_vc.repo.waiting import merge_folder
from havasu_vc.store.commits import Signature, parse_signature
from havasu_vc.store.durability import replace_file
from havasu_vc.store.repository import GitRepository

__all__ = ["DatasetConflicts", "MergeState", "drop_state", "read_state", "write_state"]

_VERSION = 1


@dataclass(frozen=True, slots=True)
class DatasetConflicts:
    """What is in conflict in one dataset."""

    path: str
    """The dataset."""
    rows: pa.Table | None = None
    """Row conflicts in key order: `history.merging.conflict_schema`, then `resolution`, how it
    was resolved or null, and `result`, the row then."""
    items: Mapping[str, str | None] = field(default_factory=dict)
    """Meta items in conflict, each with the side that was chosen, or None."""

    @property
    def unresolved(self) -> int:
        """How many conflicts wait."""
        rows = 0 if self.rows is None else self.rows.column("resolution").null_count
        return rows + sum(side is None for side in self.items.values())

    @property
    def total(self) -> int:
        """How many conflicts there are or were."""
        return (0 if self.rows is None else self.rows.num_rows) + len(self.items)


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
    """What is decided without asking."""
    conflicts: tuple[DatasetConflicts, ...] = ()
    """By dataset."""
    kind: str = "merge"
    """What the commit is: `merge`, `squash`, `cherry-pick` or `revert`."""
    base: str | None = None
    """The revision that both sides are compared with; None for their merge base."""
    parents: tuple[str, ...] = ()
    """The commit's parents after HEAD."""
    author: Signature | None = None
    """Who made the change, where that is somebody else."""

    @property
    def unresolved(self) -> int:
        """How many conflicts wait."""
        return sum(each.unresolved for each in self.conflicts)

    def with_dataset(self, conflicts: DatasetConflicts) -> MergeState:
        """Return the state with another version of one dataset's conflicts."""
        return replace(
            self,
            conflicts=tuple(
                conflicts if each.path == conflicts.path else each for each in self.conflicts
            ),
        )


def write_state(git: GitRepository, state: MergeState) -> None:
    """Keep a merge; `state.json` is written last, so that a half-written one is none."""
    folder = merge_folder(git)
    folder.mkdir(parents=True, exist_ok=True)
    datasets = []
    for number, each in enumerate(state.conflicts):
        if each.rows is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_file(sink, each.rows.schema) as writer:
                writer.write_table(each.rows)
            replace_file(folder / f"{number}.arrow", sink.getvalue().to_pybytes())
        datasets.append(
            {"path": each.path, "rows": each.rows is not None, "items": dict(each.items)}
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
        "datasets": datasets,
    }
    replace_file(folder / "state.json", json.dumps(document, indent=1).encode())


def read_state(git: GitRepository) -> MergeState | None:
    """Return the merge that waits; None when there is none."""
    folder = merge_folder(git)
    try:
        data = (folder / "state.json").read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        value = json.loads(data)
        if value["version"] != _VERSION:
            raise ValueError(f"version {value['version']}")
        return MergeState(
            value["ours"],
            value["theirs"],
            value["name"],
            value["message"],
            _policy(value["policy"]),
            tuple(
                DatasetConflicts(each["path"], _rows(folder, number, each), each["items"])
                for number, each in enumerate(value["datasets"])
            ),
            value["kind"],
            value["base"],
            tuple(value["parents"]),
            None if value["author"] is None else parse_signature(value["author"]),
        )
    except (ValueError, KeyError, TypeError, OSError, pa.ArrowException) as error:
        raise CorruptionError(
            f"the state of the merge cannot be read ({error})",
            hints=("`havasu-vc merge --abort` drops it; nothing committed is lost",),
        ) from error


def _policy(value: Mapping[str, Any]) -> MergePolicy:
    side = value["side"]
    return MergePolicy(
        None if side is None else Side(side),
        {name: Side(each) for name, each in value["columns"].items()},
        value["fill_nulls"],
    )


def _rows(folder: Path, number: int, value: Mapping[str, Any]) -> pa.Table | None:
    if not value["rows"]:
        return None
    with pa.OSFile(str(folder / f"{number}.arrow")) as source:
        return pa.ipc.open_file(source).read_all()


def drop_state(git: GitRepository) -> None:
    """Forget the merge that waits."""
    folder = merge_folder(git)
    (folder / "state.json").unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def require_state(git: GitRepository) -> MergeState:
    """Return the merge that waits; raises when there is none."""
    state = read_state(git)
    if state is None:
        raise StateError("there is no merge to go on with", hints=("`havasu-vc merge BRANCH`",))
    return state
