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
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from havasu_vc.errors import CorruptionError, HavasuError, InvalidArgumentError, StateError
from havasu_vc.history.conflicts import (
    ColumnConflict,
    DatasetConflicts,
    MergePolicy,
    Side,
    conflict_columns,
    conflict_table,
)
from havasu_vc.merging.waiting import (
    drop_state,
    merge_folder,
    merge_waits,
    require_no_merge_of_kart,
)
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import read_commit
from havasu_vc.store.disk import replace_file
from havasu_vc.store.index import in_step, mend, sweep
from havasu_vc.store.objects import Signature, parse_signature
from havasu_vc.store.refs import BRANCHES, move_head, read_head
from havasu_vc.store.repository import GitRepository, Operation
from havasu_vc.store.revisions import read_stopped

__all__ = [
    "MODES",
    "Begun",
    "MergeState",
    "Todo",
    "begin",
    "begun_before",
    "drop_state",
    "forget",
    "put_back",
    "read_cut_off",
    "read_state",
    "read_waiting",
    "require_calm",
    "require_not_cut_off",
    "require_state",
    "reset",
    "set_waiting",
    "write_state",
    "write_todo",
]

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
        bool(value.get("whole")),
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
        # git cannot merge rows, so it asks for no more than that somebody goes on.
        stopped = read_stopped(git)
        if stopped is not None:
            kind = stopped.command
            raise StateError(
                f"a {kind} of git waits, and its rows are not merged yet",
                hints=(f"`havasu-vc {kind} --continue` merges them, `--abort` drops it",),
            )
        raise StateError(
            "there is no merge to go on with, nor a rebase, cherry-pick or revert",
            hints=("`havasu-vc status` tells where HEAD is and what waits",),
        )
    return state


# Where HEAD was before git went through several commits, noted until it is through.
#
# git keeps that too, but not from its first step to its last: killed in between, or on a full
# disk, its own `--abort` refuses, or leaves the branch where it had got. What is noted here puts
# HEAD, its branch and the index back in one go. The note says `runs` while git works and `waits`
# while a conflict does; only one that runs, of a git that is gone, means that it was cut off.
#
# Without a work tree (in bare repositories and Kart's) git does not go through commits; we do, and
# what is left to do is noted beside it (`Todo`).


_FOLDERS = ("rebase-merge", "rebase-apply", "sequencer")
_HEADS = ("CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "AUTO_MERGE", "MERGE_MSG")


@dataclass(frozen=True, slots=True)
class Begun:
    """A sequence of commits that git began, and where HEAD was then."""

    kind: str
    """`cherry-pick`, `rebase` or `revert`."""
    branch: str | None
    """HEAD's branch; None where it was detached."""
    commit: str


@dataclass(frozen=True, slots=True)
class Todo:
    """The rest of a sequence that we go through ourselves."""

    kind: str
    """`cherry-pick`, `rebase` or `revert`."""
    ours: str
    """HEAD's commit before the commit that is at work."""
    rest: tuple[str, ...]
    """The commits that come after it."""
    mainline: int | None = None
    """The parent that merges are compared with."""
    record: bool = False
    """Whether messages name the commits."""


def begin(git: GitRepository, kind: str) -> None:
    """Note where HEAD is, before git begins."""
    forget(git)
    head = read_head(git)
    if head.commit is not None:
        _write(git, "runs", Begun(kind, head.branch, head.commit))


def begun_before(git: GitRepository, kind: str) -> Begun:
    """Return where HEAD was before the sequence that git is in, whoever began it."""
    found = _read(git)
    if found is not None:
        return found[1]
    head = read_head(git)
    for folder in ("rebase-merge", "rebase-apply", "sequencer"):
        with suppress(OSError):
            if folder == "sequencer":
                return Begun(
                    kind, head.branch, (git.git_directory / folder / "head").read_text().strip()
                )
            name = (git.git_directory / folder / "head-name").read_text().strip()
            commit = (git.git_directory / folder / "orig-head").read_text().strip()
            return Begun(kind, name.removeprefix(BRANCHES) if BRANCHES in name else None, commit)
    return Begun(kind, head.branch, head.commit or "")


def set_waiting(git: GitRepository, waits: bool) -> None:
    """Note that git waits for conflicts to be resolved, or goes on, where it is noted at all."""
    found = _read(git)
    if found is not None:
        _write(git, "waits" if waits else "runs", found[1])


def forget(git: GitRepository) -> None:
    """Forget what was noted: it is through, or dropped."""
    _todo_path(git).unlink(missing_ok=True)
    _path(git).unlink(missing_ok=True)


def write_todo(git: GitRepository, todo: Todo) -> None:
    """Note what is left to do, before the next commit is made."""
    parts = (todo.kind, todo.ours, todo.rest, todo.mainline, todo.record)
    replace_file(_todo_path(git), json.dumps(parts).encode())


def read_waiting(git: GitRepository) -> tuple[Begun, Todo] | None:
    """Return a sequence of ours that waits for conflicts to be resolved, and its rest."""
    found, todo = _read(git), _read_todo(git)
    if found is None or todo is None or found[0] != "waits" or not merge_waits(git):
        return None
    return (found[1], todo) if read_head(git).commit == todo.ours else None


def read_cut_off(git: GitRepository) -> Begun | None:
    """Return the sequence that was cut off and is half done; None where there is none."""
    found = _read(git)
    if found is None or found[0] != "runs":
        return None
    begun = found[1]
    if (todo := _read_todo(git)) is not None:
        return begun if _stands_at(git, todo) else None
    return begun if _is_half_done(git) and _only_moved_by(git, begun) else None


def require_not_cut_off(git: GitRepository) -> None:
    """Raise where a sequence was cut off: who went on from there might leave a commit out."""
    begun = read_cut_off(git)
    if begun is not None:
        raise StateError(
            f"a {begun.kind} was cut off, and is half done",
            hints=(f"`havasu-vc {begun.kind} --abort` puts back what was before it",),
        )


def require_calm(repo: OpenRepo) -> None:
    """Raise when something else is half done."""
    if merge_waits(repo.git):
        read_state(repo.git)  # a damaged one is told as such
        raise StateError(
            "a merge waits for its conflicts to be resolved",
            hints=("`havasu-vc merge --continue` concludes it, `--abort` drops it",),
        )
    require_no_merge_of_kart(repo.git)
    require_not_cut_off(repo.git)
    operation = repo.git.operation
    if operation is not Operation.NONE:
        taken = operation not in (Operation.BISECT, Operation.APPLY)
        kind = operation.value
        hint = (
            f"`havasu-vc {kind} --continue` concludes it, `havasu-vc {kind} --abort` drops it"
            if taken
            else f"finish or drop it with `git {operation.value}` first"
        )
        raise StateError(f"a {operation.value} of git is half done", hints=(hint,))


def put_back(repo: OpenRepo, begun: Begun) -> None:
    """Drop a sequence that was cut off: HEAD, its branch and the index are as before it."""
    git = repo.git
    if git.is_bare or git.is_kart:
        drop_state(git)
        reset(repo, begun.commit, mode="soft")
        forget(git)
        return
    paths = set(repo.folders(repo.resolve(begun.commit)))
    with suppress(CorruptionError):  # what a program that signs wrote cannot always be read
        paths |= repo.folders(repo.resolve("HEAD")).keys()
    # git puts what it had stashed by itself with the other stashes.
    git.git(begun.kind, "--quit", check=False, once=True)
    for name in _FOLDERS:
        shutil.rmtree(git.git_directory / name, ignore_errors=True)
    for name in _HEADS:
        (git.git_directory / name).unlink(missing_ok=True)
    if begun.branch is not None:
        git.git("symbolic-ref", "HEAD", BRANCHES + begun.branch)
    # A rebase begins with a clean work tree; a pick leaves other edits alone.
    how = "--hard" if begun.kind == "rebase" else "--merge"
    git.git("reset", "--quiet", how, begun.commit)
    drop_state(git)
    forget(git)
    sweep(git, sorted(paths))


def _stands_at(git: GitRepository, todo: Todo) -> bool:
    """Whether HEAD is where a sequence of ours was cut off: before or after its commit."""
    commit = read_head(git).commit
    if commit is None or commit == todo.ours:
        return commit is not None
    with suppress(HavasuError):
        return todo.ours in read_commit(git.objects, commit).parents
    return False


def _is_half_done(git: GitRepository) -> bool:
    folder = git.git_directory
    if any((folder / name).exists() for name in (*_FOLDERS, *_HEADS[:3])):
        return True
    return bool(git.git("diff-index", "--cached", "--quiet", "HEAD", "--", check=False).code)


def _only_moved_by(git: GitRepository, begun: Begun) -> bool:
    """Whether nothing but the sequence has moved HEAD since, as far as the reflog tells."""
    told = git.git("log", "-g", "-500", "--format=%H %gs", "HEAD", "--", check=False)
    for line in told.lines:
        commit, _, subject = line.partition(" ")
        if commit == begun.commit:
            return True
        if not subject.startswith(begun.kind):
            return False
    return read_head(git).commit == begun.commit


def _path(git: GitRepository) -> Path:
    return git.git_directory / "havasu" / "sequence"


def _todo_path(git: GitRepository) -> Path:
    return git.git_directory / "havasu" / "todo.json"


def _read_todo(git: GitRepository) -> Todo | None:
    with suppress(OSError, ValueError, TypeError):
        kind, ours, rest, mainline, record = json.loads(_todo_path(git).read_bytes())
        return Todo(kind, ours, tuple(rest), mainline, record)
    return None


def _write(git: GitRepository, state: str, begun: Begun) -> None:
    text = f"{state} {begun.kind} {begun.commit} {begun.branch or ''}"
    replace_file(_path(git), text.encode("utf-8", "surrogateescape"))


def _read(git: GitRepository) -> tuple[str, Begun] | None:
    with suppress(OSError, ValueError):
        text = _path(git).read_bytes().decode("utf-8", "surrogateescape")
        state, kind, commit, branch = text.split(" ", 3)
        return state, Begun(kind, branch or None, commit)
    return None


# Moving the branch to another commit, as `git reset` does.
#
# git moves the index and the user's files, so it keeps or drops what is not committed as
# it always does. The internals of datasets are never staged: they follow the branch.


MODES = ("soft", "mixed", "hard", "keep")


def reset(repo: OpenRepo, revision: str = "HEAD", *, mode: str = "mixed") -> str:
    """Move the branch to a commit and return its id.

    `soft` leaves the index and the user's files alone, `mixed` the files, `hard` drops
    edits that are not committed, `keep` refuses where it would lose some.
    """
    if mode not in MODES:
        raise InvalidArgumentError(
            f"there is no reset mode {mode!r}", hints=(f"modes: {', '.join(MODES)}",)
        )
    commit = repo.resolve(revision).commit
    if commit is None:
        raise InvalidArgumentError(f"{revision} is no commit")
    require_no_merge_of_kart(repo.git)
    if merge_waits(repo.git) and mode in ("soft", "keep"):
        raise StateError(
            "a merge waits for its conflicts to be resolved",
            hints=("`havasu-vc merge --abort` drops it",),
        )
    if mode != "soft" and repo.git.is_bare:
        raise StateError(
            "there is no work tree to reset", hints=("`--soft` moves the branch alone",)
        )
    if mode == "soft" or repo.git.is_kart:
        # Kart's index holds nothing, and its work tree is a working copy that follows HEAD.
        _move(repo, commit, revision)
    else:
        repo.git.git("reset", "--quiet", f"--{mode}", commit)
        mend(repo.git)
    drop_state(repo.git)
    return commit


def _move(repo: OpenRepo, commit: str, revision: str) -> None:
    head = read_head(repo.git)
    before, after = repo.folders(repo.head()), repo.folders(repo.resolve(commit))
    changed = [
        f"{folder.path}/{folder.marker}"
        for path in sorted(before.keys() | after.keys())
        for folder in {before.get(path), after.get(path)}
        if folder is not None and before.get(path) != after.get(path)
    ]
    with in_step(repo.git, sorted(set(changed))):
        move_head(repo.git, head, commit, f"reset: moving to {revision}")
