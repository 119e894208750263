"""What the command answers, as values: parsed from its JSON, and nothing of QGIS.

Readers pass over what they do not know, so a newer command keeps working.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

__all__ = [
    "Answer",
    "Blame",
    "Commit",
    "Conflict",
    "Counts",
    "Edits",
    "Failure",
    "Status",
    "WorkingCopy",
    "parse_blame",
    "parse_branches",
    "parse_conflicts",
    "parse_datasets",
    "parse_key_columns",
    "parse_log",
    "parse_progress",
    "parse_status",
]

SIDES = ("ancestor", "ours", "theirs")


@dataclass(frozen=True)
class Failure:
    """Why a command failed: the line that it printed, and what it advises."""

    message: str
    hints: tuple[str, ...] = ()
    code: int = 1


@dataclass(frozen=True)
class Answer:
    """What a command that ended left behind."""

    code: int
    out: str
    err: str
    cancelled: bool = False

    def json(self) -> Any:
        """Return the document that was printed; None where it is none."""
        try:
            return json.loads(self.out)
        except ValueError:
            return None

    def failure(self) -> Failure | None:
        """Return why it failed; None if it did not."""
        if self.cancelled:
            return Failure("Cancelled", code=self.code)
        if self.code == 0:
            return None
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        for line in lines:
            told = _object(line)
            if "message" in told and told.get("type", "error") == "error":
                hints = tuple(str(hint) for hint in told.get("hints") or ())
                return Failure(str(told["message"]), hints, self.code)
        errors = [line[len("Error: ") :] for line in lines if line.startswith("Error: ")]
        hints = tuple(line[len("Hint: ") :] for line in lines if line.startswith("Hint: "))
        last = lines[-1] if lines else f"havasu-vc ended with exit code {self.code}"
        return Failure(errors[0] if errors else last, hints, self.code)


@dataclass(frozen=True)
class Counts:
    """How many rows came, changed and went."""

    inserts: int = 0
    updates: int = 0
    deletes: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.inserts + self.updates + self.deletes

    def __str__(self) -> str:
        signs = (("+", self.inserts), ("~", self.updates), ("−", self.deletes))
        return " ".join(f"{sign}{count:,}" for sign, count in signs if count)


@dataclass(frozen=True)
class Edits:
    """What is edited in a dataset."""

    rows: Counts
    meta: int = 0
    """How many of its title, description, schema and CRS definitions."""


@dataclass(frozen=True)
class WorkingCopy:
    """The file in which layers are edited."""

    kind: str
    location: str
    found: bool = True
    locked: bool = False


@dataclass(frozen=True)
class Status:
    """Where HEAD is, and what is edited."""

    commit: str = ""
    branch: str = ""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    copy: WorkingCopy | None = None
    edits: dict[str, Edits] = field(default_factory=dict)
    untracked: tuple[str, ...] = ()
    merging: str = ""
    """The branch that is being merged; empty where no merge waits."""
    conflicts: int = 0
    notes: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The GeoPackage whose layers QGIS edits; empty where there is none."""
        copy = self.copy
        return copy.location if copy is not None and copy.kind == "gpkg" and copy.found else ""


@dataclass(frozen=True)
class Commit:
    """A commit, and how many rows of each dataset it changed."""

    id: str
    short: str
    message: str
    author: str
    time: str
    parents: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    counts: dict[str, Counts] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """The first line of the message."""
        return self.message.strip().partition("\n")[0]


@dataclass(frozen=True)
class Conflict:
    """A row or meta item that a merge could not decide, as each side has it."""

    label: str
    dataset: str
    item: str
    sides: dict[str, Any]

    @property
    def is_row(self) -> bool:
        """Whether each side is a row, or has none."""
        return ":feature:" in self.label

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns that both sides changed to different values.

        Empty where a side has no row, so that there is nothing but the whole row to choose.
        """
        ancestor, ours, theirs = (self.sides.get(side) for side in SIDES)
        if not self.is_row or not isinstance(ours, dict) or not isinstance(theirs, dict):
            return ()
        base = ancestor if isinstance(ancestor, dict) else None
        return tuple(
            name
            for name in ours
            if name in theirs
            and ours[name] != theirs[name]
            and (base is None or base.get(name) not in (ours[name], theirs[name]))
        )


@dataclass(frozen=True)
class Blame:
    """The commit that gave each cell of a row its value."""

    cells: dict[str, Commit]


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _counts(value: Any) -> Counts:
    got = value if isinstance(value, dict) else {}
    return Counts(*(int(got.get(name) or 0) for name in ("inserts", "updates", "deletes")))


def _member(value: Any, name: str) -> dict[str, Any]:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def parse_status(value: Any) -> Status:
    """Read what `status -o json` prints."""
    got = _member(value, "kart.status/v2")
    upstream, ours = _member(got, "upstream"), _member(value, "havasu.status/v1")
    working = _member(got, "workingCopy")
    parts = _member(working, "parts")
    part = next((each for each in parts.values() if isinstance(each, dict)), None)
    theirs = _member(_member(got, "merging"), "theirs")
    return Status(
        commit=got.get("commit") or "",
        branch=got.get("branch") or "",
        upstream=upstream.get("branch") or "",
        ahead=upstream.get("ahead") or 0,
        behind=upstream.get("behind") or 0,
        copy=None
        if part is None
        else WorkingCopy(
            str(part.get("type")),
            str(part.get("path") or part.get("location")),
            part.get("status") != "notFound",
            bool(part.get("lockedByEditor")),
        ),
        edits={
            path: Edits(_counts(each.get("feature")), _counts(each.get("meta")).total)
            for path, each in _member(working, "changes").items()
        },
        untracked=tuple(working.get("untrackedTables") or ()),
        merging=str(theirs.get("branch") or theirs.get("abbrevCommit") or ""),
        conflicts=_leaves(got.get("conflicts")),
        notes=(*(ours.get("problems") or ()), *(ours.get("notes") or ())),
    )


def _leaves(value: Any) -> int:
    if isinstance(value, dict):
        return sum(_leaves(each) for each in value.values())
    return value if isinstance(value, int) else len(value) if isinstance(value, list) else 0


def _commit(value: dict[str, Any]) -> Commit:
    return Commit(
        id=value.get("commit", ""),
        short=value.get("abbrevCommit", ""),
        message=value.get("message", ""),
        author=value.get("authorName", ""),
        time=value.get("authorTime", ""),
        parents=tuple(value.get("parents") or ()),
        refs=tuple(value.get("refs") or ()),
        counts={
            path: _counts(each) for path, each in _member(value, "featureChangeCounts").items()
        },
    )


def parse_log(value: Any) -> list[Commit]:
    """Read what `log -o json` prints."""
    return [_commit(each) for each in value] if isinstance(value, list) else []


def parse_branches(out: str) -> tuple[list[str], list[str]]:
    r"""Read the names of refs, a line each: branches here, and those of remotes.

    >>> parse_branches("refs/heads/main\nrefs/remotes/origin/HEAD\nrefs/remotes/origin/a/b")
    (['main'], ['origin/a/b'])
    """
    names = out.split()
    here, there = "refs/heads/", "refs/remotes/"
    return (
        [each[len(here) :] for each in names if each.startswith(here)],
        [
            each[len(there) :]
            for each in names
            if each.startswith(there) and not each.endswith("/HEAD")
        ],
    )


def parse_datasets(value: Any) -> list[str]:
    """Read what `data ls -o json` prints."""
    found = value.get("kart.data.ls/v1") if isinstance(value, dict) else None
    return [str(path) for path in found or ()]


def parse_key_columns(value: Any) -> list[str]:
    """Read the key's columns from what `describe DATASET -o json` prints."""
    columns = _member(value, "havasu.describe/v1").get("columns") or ()
    return [each["name"] for each in columns if each.get("key")]


def parse_blame(value: Any) -> Blame:
    """Read what `blame DATASET KEY --columns … -o json` prints of its first row."""
    row = value[0] if isinstance(value, list) and value else {}
    return Blame({name: _commit(each) for name, each in _member(row, "cells").items()})


def parse_conflicts(value: Any) -> list[Conflict]:
    """Read what `conflicts -o json` prints."""
    return [
        Conflict(f"{path}:{part}:{item}", path, str(item), sides)
        for path, parts in _member(value, "kart.conflicts/v1").items()
        for part, items in parts.items()
        for item, sides in items.items()
    ]


def parse_progress(line: str) -> tuple[str, int, int] | None:
    """Read a line of `--progress=json`: the step, how much is done and of how much.

    >>> parse_progress('{"type": "progress", "step": "Reading", "done": 2, "total": 5}')
    ('Reading', 2, 5)
    >>> parse_progress("Error: no")
    """
    got = _object(line)
    if "done" not in got or "total" not in got:
        return None
    try:
        return str(got.get("step") or ""), int(got["done"] or 0), int(got["total"] or 0)
    except (TypeError, ValueError):
        return None
