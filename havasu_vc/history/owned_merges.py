"""A large merge made by tasks that each own an interval of keys, on any engine.

Both sides are compared with the base in the same intervals, so that a task reads what may
differ there, merges it, and edits our side (`datasets.havasu.owning`). Nothing is dealt out:
where rows lie in key order, the row groups of an interval are found by their keys. Conflicts
come back with the report. Rows in no key order, or without a key, are dealt out (`dealt_merges`).
A small merge is not made so. Where a side gets back columns that it had dropped, rows that it
alone changed are written again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pyarrow as pa

from havasu_vc.datasets.dealing import Cuts
from havasu_vc.datasets.havasu.diff import DiffPlan, MergePlans
from havasu_vc.datasets.havasu.edit import Edit, is_small
from havasu_vc.datasets.havasu.far import put_at, url_of
from havasu_vc.datasets.havasu.ledger import MOST_KEYS
from havasu_vc.datasets.havasu.owners import Owner, parse_value, report_batch
from havasu_vc.datasets.havasu.owning import Owning
from havasu_vc.datasets.havasu.parquet import group_bytes, key_ranges
from havasu_vc.datasets.havasu.pieces import FilePiece, Interval, Piece, pair
from havasu_vc.datasets.havasu.plan import MOSTLY_DELETED
from havasu_vc.datasets.protocol import DatasetEdit, DatasetInFiles
from havasu_vc.engine.protocol import Batches, Engine
from havasu_vc.history.conflicts import MergePolicy, MergeSchemas, MergeStep, few_of
from havasu_vc.history.dealt_merges import can_merge_dealt, dealt_glance, dealt_merge
from havasu_vc.history.merge import conflict_keys, merge_changes, with_resolutions
from havasu_vc.history.owned_edits import (
    Edges,
    can_be_owned,
    collect_owned,
    key_edges,
    owner_values,
    pieces_of,
)
from havasu_vc.history.owned_rows import files_of
from havasu_vc.model import compute as pc
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import kernel, task_of
from havasu_vc.records import dataclass

__all__ = ["can_merge_owned", "owned_glance", "owned_merge"]

LEAST_BYTES, MOST_BYTES = 8 << 20, 64 << 20
"""How much one task merges: a quarter of all, but between these."""
READ_BYTES = 24 << 20
"""About how much of it is in memory at a time."""


@dataclass(frozen=True, slots=True)
class SidePieces:
    """Pieces that may differ between the base and a side."""

    old: tuple[Piece, ...]
    """Rows of the base."""
    new: tuple[Piece, ...]
    """Rows of the side."""
    old_schema: Schema
    """The columns of the base."""
    new_schema: Schema
    """The columns of the side."""

    def changes(self, intervals: Sequence[Interval]) -> Iterator[ChangeBatch]:
        """Yield the changes in some intervals, one after the other."""
        for interval in intervals:
            schemas = self.old_schema, self.new_schema
            for batch in pair(self.old, self.new, *schemas, interval):
                if batch.num_rows:
                    yield ChangeBatch(batch)


@dataclass(frozen=True, slots=True)
class MergeShare:
    """The pieces that an owner merges."""

    number: int
    """Which of the owners it is."""
    intervals: tuple[Interval, ...]
    """Its keys, in parts that fit in memory."""
    ours: SidePieces
    """Our changes."""
    theirs: SidePieces
    """Their changes."""
    schemas: MergeSchemas
    """All columns."""
    policy: MergePolicy
    """The rule that decides without asking."""
    answers: pa.Table | None
    """How conflicts were resolved."""

    def steps(self) -> Iterator[MergeStep]:
        """Merge it."""
        ours, theirs = self.ours.changes(self.intervals), self.theirs.changes(self.intervals)
        for step in merge_changes(ours, theirs, self.schemas, self.policy):
            yield with_resolutions(step, self.answers, self.schemas)


@kernel
def own_merge(pieces: tuple[()], owner: Owner, share: MergeShare) -> Iterator[pa.RecordBatch]:
    """Merge an interval of keys into our side, and report; nothing is dealt to it."""
    conflicts: list[pa.RecordBatch] = []

    def changes() -> Iterator[ChangeBatch]:
        for step in share.steps():
            if step.conflicts.num_rows:
                conflicts.append(step.conflicts)
            if len(step.changes):
                yield step.changes

    with Owning(owner) as work:
        work.change(changes())
        report = work.finish()
    yield report_batch(replace(report, number=share.number, aside=tuple(conflicts)))


@kernel
def own_glance(pieces: tuple[()], share: MergeShare, most: int) -> Iterator[pa.RecordBatch]:
    """Merge an interval of keys, and report some of its conflicts; nothing is dealt to it."""
    steps = (step.conflicts for step in share.steps())
    found = few_of((each for each in steps if each.num_rows), most)
    yield report_batch((share.number, *found))


def can_merge_owned(plans: MergePlans, schemas: MergeSchemas) -> bool:
    """Whether owners of intervals of keys can make a merge."""
    sides = (schemas.base, schemas.ours, schemas.theirs, schemas.merged)
    if len({tuple(field.id for field in side.key.fields) for side in sides}) > 1:
        return False
    ours = plans.views[1]
    storage = ours.storage
    if storage.on_demand and url_of(ours) is None:
        names = {entry.file for entry in ours.data_entries}
        names.update(name for piece in plans.pieces for name in files_of(piece))
        if not all(map(storage.has, names)):
            return False
    return _in_place(plans, schemas) or can_merge_dealt(plans, schemas)


def _in_place(plans: MergePlans, schemas: MergeSchemas) -> bool:
    """Whether what an interval of keys holds is found by the keys of row groups."""
    if plans.ours.dealt or plans.theirs.dealt:
        return False
    return can_be_owned(plans.views[1], schemas.merged)


def owned_merge(
    edit: DatasetEdit,
    plans: MergePlans,
    schemas: MergeSchemas,
    policy: MergePolicy,
    answers: pa.Table | None,
    engine: Engine,
) -> list[pa.RecordBatch]:
    """Take what a merge changes into an edit of our side, and return the conflicts."""
    assert isinstance(edit, Edit)
    if not _in_place(plans, schemas):
        return dealt_merge(edit, plans, schemas, policy, answers, engine)
    dataset = edit.dataset
    url = put_at(dataset)
    cuts, shares = _shares(plans, schemas, policy, answers)
    leaving = _to_be_rewritten(dataset, plans)
    if leaving:
        edit.touch(None)
        for entry in dataset.data_entries:
            if entry.file in leaving:
                edit.remove(entry)
    owners = (
        replace(owner, rewritten=leaving.intersection(file.name for file in owner.files))
        for owner in owner_values(edit, cuts, "change", url=url)
    )
    tasks = [task_of(own_merge, (), *each) for each in zip(owners, shares, strict=True)]

    def run() -> Batches:
        return engine.run_dealt([], tasks, description="Merging")

    return collect_owned(edit, run, url=url)


def owned_glance(
    plans: MergePlans, schemas: MergeSchemas, policy: MergePolicy, most: int, engine: Engine
) -> tuple[int, list[pa.RecordBatch]]:
    """Return how many conflicts a merge has, and so many of each kind, the first by key."""
    if not _in_place(plans, schemas):
        return dealt_glance(plans, schemas, policy, most, engine)
    _, shares = _shares(plans, schemas, policy, None)
    tasks = [task_of(own_glance, (), share, most) for share in shares]
    found = [parse_value(batch) for batch in engine.run_dealt([], tasks, description="Comparing")]
    kept = (each for _, _, some in sorted(found, key=lambda each: each[0]) for each in some)
    return sum(count for _, count, _ in found), few_of(kept, most)[1]


def _shares(
    plans: MergePlans, schemas: MergeSchemas, policy: MergePolicy, answers: pa.Table | None
) -> tuple[Cuts, list[MergeShare]]:
    """Return where keys are cut, and what each owner merges."""
    ours = plans.views[1]
    id_ = ours.key.fields[0].id
    known = {e.file: key_edges(view, e) for view in plans.views for e in view.data_entries}
    cuts, parts = _cut(ours, plans, id_)
    sides = [_shared(plan, cuts, id_, known) for plan in (plans.ours, plans.theirs)]
    shares = [
        MergeShare(
            number,
            intervals,
            sides[0][number],
            sides[1][number],
            schemas,
            policy,
            None
            if answers is None
            else _within(answers, Interval(id_, intervals[0].low, intervals[-1].high), schemas),
        )
        for number, intervals in enumerate(parts)
    ]
    return cuts, shares


def _cut(
    dataset: DatasetInFiles, plans: MergePlans, id_: int
) -> tuple[Cuts, list[tuple[Interval, ...]]]:
    """Return where owners begin, and each one's interval in parts that fit in memory."""
    least = sorted((low, size) for piece in plans.pieces for low, size in _sizes(piece, id_))
    share = min(max(sum(size for _, size in least) // 4, LEAST_BYTES), MOST_BYTES)
    cuts: list[Any] = []
    fine: list[list[Any]] = [[]]
    last: Any = None
    waiting = inside = 0
    for low, size in least:
        if last is None or low > last:
            if waiting >= share:
                cuts.append(low)
                fine.append([])
                last, waiting, inside = low, 0, 0
            elif inside >= min(share, READ_BYTES):
                fine[-1].append(low)
                last, inside = low, 0
        waiting += size
        inside += size
    parts = [
        tuple(Interval(id_, *each) for each in pairwise((low, *within, high)))
        for (low, high), within in zip(pairwise((None, *cuts, None)), fine, strict=True)
    ]
    return Cuts(dataset.schema.key.names, tuple(cuts)), parts


def _sizes(piece: Piece, id_: int) -> Iterator[tuple[Any, int]]:
    """Yield the least key of each row group of a piece, and about how many bytes are read."""
    ranges, sizes = key_ranges(piece.path, id_), group_bytes(piece.path)
    held = sum(rows for rows, _ in sizes)
    for found, (_, size) in zip(ranges, sizes, strict=True):
        if found is not None:
            yield found[0], size * min(piece.count, held) // max(held, 1)


def _to_be_rewritten(dataset: DatasetInFiles, plans: MergePlans) -> frozenset[str]:
    """Return the data files that may be mostly deleted then, as entries tell.

    Only a merge of so many rows that it closes the epoch takes files away, and none stays of
    which a large delete file is only half replaced.
    """
    theirs = (*plans.theirs.old, *plans.theirs.new)
    if sum(piece.count for piece in theirs) <= MOST_KEYS:
        return frozenset()
    going: dict[str, int] = {}
    for piece in theirs:
        for file in files_of(piece):
            count = piece.count if isinstance(piece, FilePiece) else piece.counts[file]
            going[file] = going.get(file, 0) + count
    found = {
        entry.file
        for entry in dataset.data_entries
        if entry.file in going and entry.location is None
        for gone in [sum(e.targets[entry.file] for e in dataset.deletes.get(entry.file, ()))]
        if gone + going[entry.file] >= MOSTLY_DELETED * entry.rows
    }
    large = [e for e in dataset.delete_entries if not is_small(e)]
    while half := [e for e in large if found & e.targets.keys() and e.targets.keys() - found]:
        found.difference_update(*(entry.targets for entry in half))
    return frozenset(found)


def _shared(plan: DiffPlan, cuts: Cuts, id_: int, known: Edges) -> list[SidePieces]:
    """Return what each owner reads of a side: what may have keys of its interval."""
    held: list[tuple[list[Piece], list[Piece]]] = [([], []) for _ in range(len(cuts.values) + 1)]
    for index, pieces in enumerate((plan.old, plan.new)):
        for piece in pieces:
            for owner, found in pieces_of(piece, cuts, id_, known):
                held[owner][index].append(found)
    return [
        SidePieces(tuple(old), tuple(new), plan.old_schema, plan.new_schema) for old, new in held
    ]


def _within(answers: pa.Table, interval: Interval, schemas: MergeSchemas) -> pa.Table:
    """Return the conflicts whose keys are in an interval."""
    merged = schemas.merged
    (rows,) = answers.combine_chunks().to_batches() or (None,)
    if rows is None:
        return answers
    mask = interval.mask(conflict_keys(rows, merged), merged.select(merged.key.names))
    return answers if mask is None else pc.filter(answers, mask)
