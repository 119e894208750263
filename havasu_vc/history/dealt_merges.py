"""A large merge of tables in no key order, or without a key, made by tasks on any engine.

Any file of such a table may hold any row, so the rows that either side may have changed are dealt
out, by key, without one by a hash of them: those of the base and those of the side, each with its
place. An owner of an interval compares both sides with the base and merges them. What our side has
of a row that theirs changed was dealt out too, or stands where the base has it; so an owner tells
where rows are that go, and owners of files take them away, as in a release (`owned_rows`).
Conflicts come back with the report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.dealing import Cuts, SortedPieces, dealt
from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.havasu.diff import MergePlans
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.far import put_at
from havasu_vc.datasets.havasu.owners import Owner, parse_value, report_batch
from havasu_vc.datasets.havasu.owning import FILE, POS
from havasu_vc.datasets.havasu.parquet import one_batch
from havasu_vc.datasets.havasu.pieces import Piece
from havasu_vc.datasets.pairing import (
    check_order,
    conform,
    nth_equal,
    pair_rows,
    partners,
    row_hashes,
    same_key,
)
from havasu_vc.engine.protocol import Batches, Engine
from havasu_vc.errors import EngineError
from havasu_vc.history.conflicts import MergePolicy, MergeSchemas, MergeStep, few_of, in_columns
from havasu_vc.history.merge import conflict_keys, merge_changes, with_resolutions
from havasu_vc.history.owned_rows import (
    HASH,
    TellingOwner,
    collect_places,
    files_of,
    hash_cuts,
    hashed,
    names_seen,
    parts_for,
    placed_rows,
    sampled,
    telling_owner,
)
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_schema, arrow_type
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.model.types import Field
from havasu_vc.records import dataclass

__all__ = ["can_merge_dealt", "dealt_glance", "dealt_merge"]

_SIDE = "\0side"
"""The last column of rows that are dealt out: which of the four sides they are of."""
_BEFORE_OURS, _OURS, _BEFORE_THEIRS, _THEIRS = range(4)
"""The sides that are compared: the base and ours, the base and theirs."""
_POSITION_BITS = 40
_POSITIONS = (1 << _POSITION_BITS) - 1
"""A place in one number: the file's above, and the position in these bits."""

Dealt: TypeAlias = tuple[tuple[int, Task], ...]
"""Pieces that were dealt to an owner, each with its count of rows."""
Indices: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Merging:
    """How an interval is merged."""

    number: int
    """Which of the owners it is."""
    sides: tuple[Schema, ...]
    """The columns of the four sides."""
    schemas: MergeSchemas
    """The columns of each version."""
    policy: MergePolicy
    """The rule that decides without asking."""
    answers: pa.Table | None
    """How conflicts of the interval were resolved."""


@dataclass(frozen=True, slots=True)
class _Dealing:
    """How the rows of all sides are dealt out, and what each owner is told."""

    tasks: list[Task]
    """Tasks that deal rows out."""
    shares: list[Merging]
    """One of each owner."""
    names: tuple[str, ...]
    """The data files whose rows are dealt out, by number."""


def can_merge_dealt(plans: MergePlans, schemas: MergeSchemas) -> bool:
    """Whether rows of both sides can be dealt out, to be merged by owners."""
    if schemas.merged.key:
        return all(same_key(schema, schemas.merged) for schema, _ in _sides(plans))
    return bool(_alike(plans) & schemas.merged.by_id.keys())


def _sides(plans: MergePlans) -> tuple[tuple[Schema, Sequence[Piece]], ...]:
    ours, theirs = plans.ours, plans.theirs
    return (
        (ours.old_schema, ours.old),
        (ours.new_schema, ours.new),
        (theirs.old_schema, theirs.old),
        (theirs.new_schema, theirs.new),
    )


def _alike(plans: MergePlans) -> frozenset[int]:
    """Return the columns that are the same on all sides: equal rows have equal hashes of these."""
    first, *others = ({f.id: f for f in schema.fields} for schema, _ in _sides(plans))
    return frozenset(
        id_
        for id_, field in first.items()
        if all(id_ in each and _same_type(each[id_], field) for each in others)
    )


def _same_type(one: Field, other: Field) -> bool:
    return (one.type, one.geometry, one.raster) == (other.type, other.geometry, other.raster)


def dealt_merge(
    edit: Edit,
    plans: MergePlans,
    schemas: MergeSchemas,
    policy: MergePolicy,
    answers: pa.Table | None,
    engine: Engine,
) -> list[pa.RecordBatch]:
    """Take what a merge changes into an edit of our side, and return the conflicts."""
    url = put_at(edit.dataset)
    if url is None:
        edit.dataset.bring(edit.dataset.data_entries)
    dealing = _dealing(plans, schemas, policy, answers, engine)
    seen = names_seen(edit)
    owner = telling_owner(edit, "change", len(dealing.shares), url)
    owners = [task_of(own_dealt_merge, (), owner, share, seen) for share in dealing.shares]

    def run() -> Batches:
        return engine.run_dealt(dealing.tasks, owners, description="Merging")

    return collect_places(edit, dealing.names, run, engine, url=url)


def dealt_glance(
    plans: MergePlans, schemas: MergeSchemas, policy: MergePolicy, most: int, engine: Engine
) -> tuple[int, list[pa.RecordBatch]]:
    """Return how many conflicts a merge has, and so many of each kind, the first by key."""
    dealing = _dealing(plans, schemas, policy, None, engine)
    owners = [task_of(own_dealt_glance, (), share, most) for share in dealing.shares]
    reports = engine.run_dealt(dealing.tasks, owners, description="Comparing")
    found = sorted(map(parse_value, reports), key=lambda each: each[0])
    kept = (each for _, _, some in found for each in some)
    return sum(count for _, count, _ in found), few_of(kept, most)[1]


def _dealing(
    plans: MergePlans,
    schemas: MergeSchemas,
    policy: MergePolicy,
    answers: pa.Table | None,
    engine: Engine,
) -> _Dealing:
    sides, merged = _sides(plans), schemas.merged
    parts = parts_for(sum(piece.size for piece in plans.pieces))
    alike = _alike(plans)
    if merged.key:
        keys = [task_of(first_keys, piece, side, merged) for side, all_ in sides for piece in all_]
        cuts = Cuts(merged.key.names, sampled(engine, keys, merged.key.names, parts, anywhere=True))
    else:
        cuts = hash_cuts(parts)
    names = {file for _, pieces in sides[:_THEIRS] for piece in pieces for file in files_of(piece)}
    numbers = {name: number for number, name in enumerate(sorted(names))}
    tasks = [
        task_of(
            deal_side,
            piece,
            schema,
            merged,
            cuts.values,
            side,
            None if side == _THEIRS else {file: numbers[file] for file in files_of(piece)},
            alike,
        )
        for side, (schema, pieces) in enumerate(sides)
        for piece in pieces
    ]
    told = _answers(answers, schemas, cuts, alike)
    shares = [
        Merging(number, tuple(schema for schema, _ in sides), schemas, policy, answer)
        for number, answer in enumerate(told)
    ]
    return _Dealing(tasks, shares, tuple(sorted(names)))


def _answers(
    answers: pa.Table | None, schemas: MergeSchemas, cuts: Cuts, alike: frozenset[int]
) -> list[pa.Table | None]:
    """Return how the conflicts of each interval were resolved."""
    parts = len(cuts.values) + 1
    if answers is None or not answers.num_rows:
        return [answers] * parts
    (rows,) = answers.combine_chunks().to_batches()
    merged = schemas.merged
    if merged.key:
        keys = conflict_keys(rows, merged).column(0).to_pylist()
    else:
        whole = in_columns(rows.column("base"), merged, merged)
        keys = row_hashes(whole, merged, _only(merged, alike)).tolist()
    owners = np.array([cuts.span(key, key)[0] for key in keys])
    return [pc.filter(answers, arrow_array(owners == number)) for number in range(parts)]


def _only(schema: Schema, ids: frozenset[int]) -> Schema:
    return Schema(tuple(field for field in schema.fields if field.id in ids))


@kernel
def first_keys(piece: Piece, schema: Schema, merged: Schema) -> Iterator[pa.RecordBatch]:
    """Yield the first key column of a piece, as the merge has it."""
    key = merged.key.fields[0]
    name = schema.by_id[key.id].name
    for batch in piece.batches(schema.select((name,)), None):
        values = pc.cast(batch.column(name), arrow_type(key.type))
        yield pa.RecordBatch.from_arrays([values], [key.name])


@kernel
def deal_side(
    piece: Piece,
    schema: Schema,
    merged: Schema,
    cuts: tuple[object, ...],
    side: int,
    numbers: dict[str, int] | None,
    alike: frozenset[int],
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece as pieces for owners; columns more say where each is, and whose."""
    placed = piece.batches(schema, None) if numbers is None else placed_rows(piece, schema, numbers)
    if merged.key:
        names = tuple(schema.by_id[field.id].name for field in merged.key.fields)
        batches: Iterable[pa.RecordBatch] = placed
    else:
        names, batches = (HASH,), hashed(placed, schema, _only(merged, alike))
    sided = (
        batch.append_column(_SIDE, pa.array(np.full(batch.num_rows, side, np.int8)))
        for batch in batches
    )
    yield from dealt(sided, Cuts(names, cuts))


@kernel
def own_dealt_merge(
    pieces: Dealt, owner: Owner, share: Merging, seen: frozenset[str]
) -> Iterator[pa.RecordBatch]:
    """Merge an interval into our side, tell where rows are that go, and report."""
    conflicts: list[pa.RecordBatch] = []
    with _Merging(owner, seen) as work:
        for window in _windows(pieces, share):
            for step in window.steps():
                if step.conflicts.num_rows:
                    conflicts.append(step.conflicts)
                if len(step.changes):
                    work.take_in(step.changes, window)
        report = work.finish()
    yield report_batch(replace(report, number=share.number, aside=(*work.gone(), *conflicts)))


@kernel
def own_dealt_glance(pieces: Dealt, share: Merging, most: int) -> Iterator[pa.RecordBatch]:
    """Merge an interval, and report some of its conflicts."""
    steps = (step.conflicts for window in _windows(pieces, share) for step in window.steps())
    found = few_of((each for each in steps if each.num_rows), most)
    yield report_batch((share.number, *found))


@dataclass(frozen=True, slots=True)
class _Window:
    """The rows of all sides in a part of an interval."""

    rows: tuple[pa.RecordBatch, ...]
    """Those of each side, with the columns that say where they are."""
    changes: tuple[list[ChangeBatch], list[ChangeBatch]]
    """The changes of ours, and of theirs."""
    share: Merging
    """How they are merged."""

    def steps(self) -> Iterator[MergeStep]:
        """Merge them."""
        share = self.share
        ours, theirs = map(iter, self.changes)
        for step in merge_changes(ours, theirs, share.schemas, share.policy):
            yield with_resolutions(step, share.answers, share.schemas)


def _windows(pieces: Dealt, share: Merging) -> Iterator[_Window]:
    """Yield what was dealt to an owner, in parts that fit in memory; all of it has to be there."""
    sides, counts = _sorted(pieces, share)
    lead = int(np.argmax(counts))
    last: list[pa.RecordBatch | None] = [None, None]
    for bound, rows in sides[lead].below(None):
        found = []
        for number, side in enumerate(sides):
            every = [rows] if number == lead else [each for _, each in side.below(bound)]
            there = [each for each in every if each is not None]
            found.append(one_batch(there) if there else _nothing(number, share))
        changes: list[list[ChangeBatch]] = []
        for index, (old, new) in enumerate(((_BEFORE_OURS, _OURS), (_BEFORE_THEIRS, _THEIRS))):
            schemas = share.sides[old], share.sides[new]
            before, after = (_only_rows(found[n], share.sides[n]) for n in (old, new))
            changes.append([each for each in pair_rows(before, after, *schemas) if len(each)])
            for batch in changes[-1]:
                last[index] = check_order(batch, last[index], *schemas)
        yield _Window(tuple(found), (changes[0], changes[1]), share)
    taken, given = sum(side.num_rows for side in sides), sum(count for count, _ in pieces)
    if taken != given:
        raise EngineError(
            f"{taken:,} of {given:,} rows reached the task that was to merge them",
            hints=("nothing was committed; run again",),
        )


def _sorted(pieces: Dealt, share: Merging) -> tuple[list[SortedPieces], list[int]]:
    """Return the rows of each side in order, and how many there are."""
    streams: list[list[Iterator[pa.RecordBatch]]] = [[] for _ in share.sides]
    counts = [0] * len(streams)
    for count, task in pieces:
        rows = run_task(task)
        first = next(rows, None)
        if first is not None:
            number = first.column(first.num_columns - 1)[0].as_py()
            streams[number].append(chain((first,), rows))
            counts[number] += count
    key = share.schemas.merged.key.fields
    sides = [
        SortedPieces(each, [schema.by_id[f.id].name for f in key] or (HASH,))
        for each, schema in zip(streams, share.sides, strict=True)
    ]
    return sides, counts


def _nothing(side: int, share: Merging) -> pa.RecordBatch:
    schema = arrow_schema(share.sides[side])
    more = [(POS, pa.int64()), (FILE, pa.int32())] if side != _THEIRS else []
    for name, type_ in more:
        schema = schema.append(pa.field(name, type_))
    return pa.RecordBatch.from_pylist([], schema=schema)


def _only_rows(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    return rows.select(list(schema.names)).cast(arrow_schema(schema))


class _Merging(TellingOwner):
    """An interval that is merged into our side."""

    def take_in(self, changes: ChangeBatch, window: _Window) -> None:
        """Put aside what a merge changes upon ours, and tell where the rows are that go."""
        before = self._owner.before
        old = conform(changes.old_rows(), before)
        new = conform(changes.new_rows(), self._schema)
        placed = _by_key if window.share.schemas.merged.key else _by_row
        files, positions = placed(old, before, window)
        if (files < 0).any():
            raise EngineError(
                f"{int((files < 0).sum())} rows of {self._owner.path} are not where they were",
                hints=("nothing was committed; `fsck --full` tells what is damaged",),
            )
        self._counts += changes.counts
        self._bring(new)
        self._take_away(old, files, positions, before)


def _by_key(rows: pa.RecordBatch, schema: Schema, window: _Window) -> tuple[Indices, Indices]:
    """Return the file and the position of rows of ours: in ours, or where the base has them."""
    files, positions = (np.full(rows.num_rows, -1, np.int64) for _ in range(2))
    wanted = schema.select(schema.key.names)
    keys = rows.select(list(wanted.names))
    for number in (_BEFORE_THEIRS, _OURS):
        side, there = window.share.sides[number], window.rows[number]
        known = side.select(tuple(side.by_id[field.id].name for field in wanted.fields))
        partner = partners(there.select(list(known.names)), keys, known, wanted)
        found = np.flatnonzero(partner >= 0)
        for known_places, places in zip(_places(there), (files, positions), strict=True):
            places[found] = known_places[partner[found]]
    return files, positions


def _by_row(rows: pa.RecordBatch, schema: Schema, window: _Window) -> tuple[Indices, Indices]:
    """Return the file and the position of rows of ours, each another one among those equal.

    Rows of the base that ours may have changed are none of ours.
    """
    ours, base, gone = (window.rows[n] for n in (_OURS, _BEFORE_THEIRS, _BEFORE_OURS))
    stays = ~np.isin(_place(base), _place(gone))
    places = np.concatenate([_place(ours), _place(base)[stays]])
    merged = window.share.schemas.merged
    hashes = [
        hash_keys(_merged(each, window.share.sides[number], merged), merged)
        for number, each in ((_OURS, ours), (_BEFORE_THEIRS, base))
    ]
    there = np.concatenate([hashes[0], hashes[1][stays]])
    # Of equal rows those that stand first go, whatever order they came in.
    order = np.lexsort((places, there))
    partner = nth_equal(there[order], hash_keys(_merged(rows, schema, merged), merged))
    found = partner >= 0
    chosen = np.full(len(partner), -1, np.int64)
    chosen[found] = places[order[partner[found]]]
    return chosen >> _POSITION_BITS, np.where(found, chosen & _POSITIONS, -1)


def _place(rows: pa.RecordBatch) -> Indices:
    """Return where rows are, each in one number."""
    files, positions = _places(rows)
    return (files << _POSITION_BITS) | positions


def _places(rows: pa.RecordBatch) -> tuple[Indices, Indices]:
    """Return in which file rows are, and where."""
    files, positions = (rows.column(name).to_numpy().astype(np.int64) for name in (FILE, POS))
    return files, positions


def _merged(rows: pa.RecordBatch, schema: Schema, merged: Schema) -> pa.RecordBatch:
    return in_columns(struct_of(_only_rows(rows, schema)), schema, merged)
