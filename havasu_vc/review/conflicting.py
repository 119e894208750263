"""Conflicts of a branch with its target, a few rows of each kind, for people to see.

How a person settles what is in conflict: commands to copy, in order, with the right names.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.pairing import equal_columns
from havasu_vc.errors import CrsError, HavasuError
from havasu_vc.geo.sketching import outlines, simplified
from havasu_vc.history.conflicts import ConflictKind, DatasetConflicts, conflict_columns
from havasu_vc.history.merge_datasets import DATASET
from havasu_vc.looking import reprojection
from havasu_vc.merging import foreseen, git_merges, labels
from havasu_vc.model import compute as pc
from havasu_vc.model.diffs import DatasetHeader, MetaConflict
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.remotes.hosts import PullRequest
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.repo.filters import RepoFilter
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.review.page.cells import shown_values, sound_wkb
from havasu_vc.review.report import (
    ConflictCell,
    ConflictedRow,
    Conflicts,
    DatasetInConflict,
    ItemInConflict,
)
from havasu_vc.store.refs import list_branches
from havasu_vc.writers.terminal import shortened

__all__ = ["Settling", "commands", "conflicts_between", "settling_here", "settling_of_request"]

MAP_CRS = "OGC:CRS84"
LONGEST = 1000
"""Texts longer than this are cut."""
MOST_VERTICES = 2000
"""Shapes of more vertices are simplified."""
SIDES = ("base", "ours", "theirs")

_Bools = npt.NDArray[np.bool_]


def conflicts_between(
    repo: OpenRepo,
    ours: str,
    theirs: str,
    settling: Settling,
    *,
    wanted: RepoFilter,
    samples: int,
) -> Conflicts | None:
    """Return why git does not merge two commits; None where it does."""
    merges = git_merges(repo.git, ours, theirs)
    if merges:
        return None
    found = Conflicts(settling.ours, settling.theirs)
    try:
        found = _looked_at(repo, ours, theirs, found, samples)
    except HavasuError as error:
        found = replace(found, unknown=error.message)
    if merges is None and not (found.datasets or found.files):
        return None
    datasets = tuple(each for each in found.datasets if wanted.of(each.path) is not None)
    lines = tuple(map(shlex.join, commands(settling, found)))
    return replace(found, datasets=datasets, commands=lines)


def _looked_at(repo: OpenRepo, ours: str, theirs: str, found: Conflicts, samples: int) -> Conflicts:
    merge = foreseen(repo, ours, theirs, most=samples)
    datasets = tuple(
        DatasetInConflict(
            each.path,
            merge.rows.get(each.path, 0),
            tuple(map(_item, viewed.meta)),
            _rows(each, viewed.header, samples),
        )
        for each, viewed in merge.datasets
    )
    rows = sum(each.rows for each in datasets)
    items = sum(len(each.items) for each in datasets)
    return replace(found, rows=rows, items=items, datasets=datasets, files=merge.files)


def _item(each: MetaConflict) -> ItemInConflict:
    if each.columns:
        return ItemInConflict(each.name, columns=dict(each.columns))
    names = ("ancestor", "ours", "theirs")
    base, ours, theirs = (_item_text(each.name, each.versions.get(name)) for name in names)
    return ItemInConflict(each.name, base, ours, theirs)


def _item_text(name: str, value: Any) -> str | None:
    if value is None:
        return None
    if name == DATASET and isinstance(value, Mapping):
        return f"{value['rows']:,} row{'' if value['rows'] == 1 else 's'}"
    return _short(value if isinstance(value, str) else str(value))


def _short(text: str) -> str:
    return shortened(text, LONGEST)


def _rows(found: DatasetConflicts, header: DatasetHeader, most: int) -> tuple[ConflictedRow, ...]:
    """Return some of the rows, dealt out so that every kind is seen."""
    if found.rows is None:
        return ()
    rows = pc.take(found.rows, pa.array(_chosen(found.rows.column("kind").to_pylist(), most)))
    rows, schema = rows.combine_chunks(), conflict_columns(found.rows)
    sides = [rows.column(name).combine_chunks() for name in SIDES]
    named = rows.column("columns").to_pylist()
    kinds = rows.column("kind").to_pylist()
    there = [pc.is_valid(side).to_numpy(zero_copy_only=False) for side in sides]
    cells: list[list[ConflictCell]] = [[] for _ in kinds]
    for number, cell in _cells(sides, there, schema, named, kinds):
        cells[number].append(cell)
    shapes = [_shapes(side, schema, header) for side in sides]
    words = [list(_words(rows, there, side)) for side in (1, 2)]
    return tuple(
        ConflictedRow(
            label,
            kinds[row],
            words[0][row],
            words[1][row],
            tuple(cells[row]),
            *(shape[row] for shape in shapes),
        )
        for row, label in enumerate(labels(rows).to_pylist())
    )


def _chosen(kinds: list[str], most: int) -> list[int]:
    """Return which rows are shown: of each kind in turn."""
    queues: dict[str, list[int]] = {}
    for row, kind in enumerate(kinds):
        queues.setdefault(kind, []).append(row)
    found: list[int] = []
    while len(found) < most and (left := [queue for queue in queues.values() if queue]):
        found += [queue.pop(0) for queue in left][: most - len(found)]
    return sorted(found)


def _words(rows: pa.Table, there: list[_Bools], side: int) -> Iterator[str]:
    """Yield what became of each row on a side."""
    counts = rows.column(f"{SIDES[side]}_count").to_pylist()
    for row, more in enumerate(counts):
        if more is not None:
            yield f"{more:+,} of it" if more else "as it was"
        elif not there[side][row]:
            yield "deleted"
        else:
            yield "changed" if there[0][row] else "inserted"


def _cells(
    sides: list[pa.StructArray],
    there: list[_Bools],
    schema: Schema,
    named: list[list[str] | None],
    kinds: list[str],
) -> Iterator[tuple[int, ConflictCell]]:
    """Yield the cells that are not alike in all versions, each with its row."""
    apart = [kind == ConflictKind.EDIT_DELETE for kind in kinds]
    counted = [kind == ConflictKind.COUNT for kind in kinds]
    columns = [side.flatten() for side in sides]
    for index, field in enumerate(schema.fields):
        if field.id in schema.identifier_ids:
            continue
        values = [side[index] for side in columns]
        # What a side has no row of is as it was.
        changed = [
            ~equal_columns(values[0], values[side], field, field) & there[side] for side in (1, 2)
        ]
        texts = [shown_values(column, field).to_pylist() for column in values]
        for row in range(len(kinds)):
            if not (changed[0][row] or changed[1][row] or counted[row]):
                continue
            clashes = apart[row] or field.name in (named[row] or ())
            base, ours, theirs = (
                None if text[row] is None else _short(str(text[row])) for text in texts
            )
            yield row, ConflictCell(field.name, base, ours, theirs, clashes)


def _shapes(side: pa.StructArray, schema: Schema, header: DatasetHeader) -> list[bytes | None]:
    """Return the places of rows in longitude and latitude."""
    field = next(iter(schema.geometries), None)
    nothing: list[bytes | None] = [None] * len(side)
    if field is None:
        return nothing
    reproject = reprojection(MAP_CRS)[1]
    column = pc.struct_field(side, field.name)
    try:
        wkb = sound_wkb(column, field, lambda part: reproject(part, field, header))
    except CrsError:
        return nothing
    found = outlines(wkb)
    sizes = np.bincount(found.rows, found.counts, minlength=len(wkb))
    wkb = simplified(wkb, np.flatnonzero(sizes > MOST_VERTICES), MOST_VERTICES)
    shapes: list[bytes | None] = wkb.to_pylist()
    return shapes


@dataclass(frozen=True, slots=True)
class Settling:
    """Where a person settles conflicts: commands, each as its words, and what the sides are called.

    All of it is text for people; nothing is run here.
    """

    ours: str
    """The branch."""
    theirs: str
    """The branch that it is to be merged into."""
    begin: tuple[tuple[str, ...], ...]
    """How to get onto the branch."""
    merge: tuple[str, ...]
    """How to merge the other by rows."""
    merge_by_git: tuple[tuple[str, ...], ...]
    """How to have git merge the other, for files that only a person can merge."""
    push: tuple[str, ...] | None = None
    """How to make it known."""


def settling_here(repo: OpenRepo, base: str, head: str) -> Settling:
    """Return how a range of this clone is settled, in it."""
    branches = {branch.name for branch in list_branches(repo.git)}
    branch: str | None = repo.head_branch if head in ("HEAD", "@") else head
    remotes = set(repo.git.git("remote").lines)
    if branch is not None and branch not in branches:
        remote, _, name = branch.partition("/")
        branch = name if remote in remotes and name else None
    begin = ("git", "switch", branch) if branch else ("git", "switch", "--detach", head)
    push = None
    if branch is not None:
        remote = repo.git.config.get(f"branch.{branch}.remote") or "origin"
        push = ("havasu-vc", "push", remote, branch) if remote in remotes else None
    merge, by_git = ("havasu-vc", "merge", base), (("git", "merge", base),)
    return Settling(branch or head, base, (begin,), merge, by_git, push)


def settling_of_request(repo: OpenRepo, request: PullRequest, remote: str) -> Settling:
    """Return how a pull request is settled, in a clone of the one who may push to its branch."""
    base, head = request.base, request.head
    place, begin = remote, [("git", "switch", head)]
    if request.same_repository:
        begin.insert(0, ("havasu-vc", "fetch", remote))
    else:
        # In a clone of the fork, which has a name for the fork alone.
        place = hidden_secrets(repo.git.config.get(f"remote.{remote}.url") or remote)
        remote = "origin"
    return Settling(
        head,
        base,
        tuple(begin),
        ("havasu-vc", "pull", place, base),
        (("git", "fetch", place, base), ("git", "merge", "FETCH_HEAD")),
        ("havasu-vc", "push", remote, head),
    )


def commands(settling: Settling, found: Conflicts) -> Iterable[tuple[str, ...]]:
    """Yield what to do, each command as its words."""
    lines = list(settling.begin)
    if found.files:
        goes_on = ("havasu-vc", "merge", "--continue")
        lines += [*settling.merge_by_git, ("git", "add", *found.files), goes_on]
    else:
        lines.append(settling.merge)
    if found.datasets:
        schemas = [
            f"{each.path}:meta:{item.name}"
            for each in found.datasets
            for item in each.items
            if item.columns
        ]
        lines.append(("havasu-vc", "conflicts"))
        lines += [("havasu-vc", "resolve", label, "--with=ours") for label in schemas]
        if found.rows or found.items > len(schemas):
            lines.append(("havasu-vc", "resolve", "--all", "--with=ours"))
        lines.append(("havasu-vc", "merge", "--continue"))
    if settling.push is not None:
        lines.append(settling.push)
    # What looks like an option would be taken for one.
    odd = any(word.startswith("-") for word in (settling.ours, settling.theirs, *found.files))
    return () if odd else lines
