"""Differences of two versions, taken into an edit by tasks that each own an interval of keys.

Both versions may lie as they like, such as in the files that another engine wrote into a
table: what is in key order is read in place, and rows of other files are dealt out by key.
An owner pairs the rows of its interval, and edits the dataset by what comes out. What is
small, or of a dataset that owners cannot edit, is compared and edited in one go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.dealing import Cuts, SortedPieces, dealt
from havasu_vc.datasets.havasu.diff import DiffPlan, lies_in_key_order
from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.far import put_at, url_of
from havasu_vc.datasets.havasu.owners import Owner, report_batch
from havasu_vc.datasets.havasu.owning import Owning, parts_of
from havasu_vc.datasets.havasu.parquet import file_name, one_batch
from havasu_vc.datasets.havasu.pieces import FilePiece, Interval, Piece
from havasu_vc.datasets.pairing import check_order, pair_rows, same_key
from havasu_vc.datasets.protocol import Dataset, DatasetEdit, DatasetInFiles
from havasu_vc.engine.protocol import Batches, Engine
from havasu_vc.errors import EngineError
from havasu_vc.history.diff import planned_changes, row_changes
from havasu_vc.history.owned_edits import (
    can_be_owned,
    collect_owned,
    cuts_of,
    key_edges,
    owner_values,
    pieces_of,
)
from havasu_vc.history.owned_rows import files_of, owned_rows, piece_rows
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.records import dataclass

__all__ = ["take_changes"]

LEAST_ROWS = 1 << 17
"""A difference of which no more rows are read is taken in one go."""
_SIDE = "_side"
"""The last column of rows that are dealt out: whether they are of the new side."""


def take_changes(edit: DatasetEdit, old: Dataset, new: Dataset, engine: Engine) -> None:
    """Take what differs between two versions into an edit of a dataset with the rows of `old`."""
    before, after = old.in_files, new.in_files
    plan = None if before is None or after is None else old.compare(new)
    if before is None or after is None or not isinstance(plan, DiffPlan):
        edit.collect(row_changes(old, new, engine))
    elif isinstance(edit, Edit) and _for_owners(edit, plan):
        if can_be_owned(edit.dataset, edit.schema):
            _take_owned(edit, plan, before, after, engine)
        else:
            _take_dealt(edit, plan, engine)
    else:
        edit.collect(planned_changes(plan, old, new, engine))


def _for_owners(edit: Edit, plan: DiffPlan) -> bool:
    """Whether a difference is so large that owners of keys may take it in, and can.

    Where the data is away none is too small: owners read what they need, and no whole files.
    """
    dataset = edit.dataset
    away = url_of(dataset) is not None
    if not away and sum(piece.count for piece in (*plan.old, *plan.new)) <= LEAST_ROWS:
        return False
    sides = (plan.old_schema, plan.new_schema, dataset.schema, edit.schema)
    keys = {tuple(field.id for field in side.key.fields) for side in sides}
    keyed = keys != {()}
    if len(keys) > 1 or (keyed and not all(same_key(*each) for each in pairwise(sides))):
        return False
    storage = dataset.storage
    if not away and storage.on_demand:
        if not all(storage.has(e.file) for e in dataset.data_entries):
            return False
    return can_be_owned(dataset, edit.schema) or _stands(dataset, edit, plan)


def _stands(dataset: DatasetInFiles, edit: Edit, plan: DiffPlan) -> bool:
    """Whether the rows that may go are told by places in files of the dataset, in its columns."""
    named = plan.old_schema == dataset.schema and plan.new_schema.names == edit.schema.names
    files = {file for piece in plan.old for file in files_of(piece)}
    return named and files <= {entry.file for entry in dataset.data_entries}


def _take_dealt(edit: Edit, plan: DiffPlan, engine: Engine) -> None:
    """Take in what differs in a dataset of which no file belongs to an interval of keys."""
    rows = [task_of(piece_rows, piece, plan.new_schema) for piece in plan.new]
    size = sum(piece.size for piece in plan.new)
    url = put_at(edit.dataset)
    anywhere = _anywhere(edit)
    owned_rows(edit, plan.old, rows, "overwrite", engine, size=size, url=url, anywhere=anywhere)


def _anywhere(edit: Edit) -> bool:
    """Whether what comes is in no files that this machine alone has."""
    return not edit.dataset.storage.on_demand or url_of(edit.dataset) is not None


def _take_owned(
    edit: Edit, plan: DiffPlan, before: DatasetInFiles, after: DatasetInFiles, engine: Engine
) -> None:
    cuts = cuts_of(edit)
    url = put_at(edit.dataset)
    dealing: list[Task] = []
    sides = []
    views = ((before, plan.old, plan.old_schema), (after, plan.new, plan.new_schema))
    for is_new, (view, pieces, schema) in enumerate(views):
        apart = _out_of_order(view)
        ordered = [each for each in pieces if _file_of(each) not in apart]
        dealing += [
            task_of(deal_piece, each, schema, cuts, bool(is_new))
            for each in pieces
            if _file_of(each) in apart
        ]
        sides.append(_shared(view, ordered, cuts))
    owners = [
        task_of(
            own_changes,
            (),
            owner,
            Share(number, old, new, plan.old_schema, plan.new_schema),
        )
        for number, (owner, old, new) in enumerate(
            zip(owner_values(edit, cuts, "change", url=url), *sides, strict=True)
        )
    ]

    def run() -> Batches:
        what = f"Taking in {edit.dataset.path}"
        return engine.run_dealt(dealing, owners, description=what, anywhere=_anywhere(edit))

    collect_owned(edit, run, url=url)


def _file_of(piece: Piece) -> str | None:
    """Return the data file whose rows a piece is; none of rows that a delete file carries."""
    return file_name(piece.path) if isinstance(piece, FilePiece) else None


def _out_of_order(view: DatasetInFiles) -> set[str]:
    """Return the large data files whose rows are in no key order."""
    return {e.file for e in view.data_entries if not lies_in_key_order(view, [e])}


def _shared(view: DatasetInFiles, pieces: Sequence[Piece], cuts: Cuts) -> list[tuple[Piece, ...]]:
    """Return what each owner reads of a side: what may have keys of its interval."""
    known = {entry.file: key_edges(view, entry) for entry in view.data_entries}
    held: list[list[Piece]] = [[] for _ in range(len(cuts.values) + 1)]
    for piece in pieces:
        for owner, found in pieces_of(piece, cuts, view.key.fields[0].id, known):
            held[owner].append(found)
    return [tuple(each) for each in held]


@dataclass(frozen=True, slots=True)
class Share:
    """The pieces that an owner compares."""

    number: int
    """Which of the owners it is."""
    old: tuple[Piece, ...]
    """Pieces of the old side."""
    new: tuple[Piece, ...]
    """Pieces of the new side."""
    old_schema: Schema
    """The columns of the old side."""
    new_schema: Schema
    """The columns of the new side."""


@kernel
def deal_piece(piece: Piece, schema: Schema, cuts: Cuts, is_new: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a side as pieces for owners; their last column says of which side."""
    sided = (
        batch.append_column(_SIDE, pa.array(np.full(batch.num_rows, is_new)))
        for batch in piece.batches(schema, None)
    )
    yield from dealt(sided, cuts)


@kernel
def own_changes(
    pieces: tuple[tuple[int, Task], ...], owner: Owner, share: Share
) -> Iterator[pa.RecordBatch]:
    """Edit an interval of keys by what differs there, given the rows that were dealt to it."""
    paired = _Pairing(owner, share, [task for _, task in pieces])
    with Owning(owner) as work:
        work.change(paired.changes())
        wanted = sum(count for count, _ in pieces)
        if paired.num_rows != wanted:
            raise EngineError(
                f"{paired.num_rows:,} of {wanted:,} rows reached the task that was to compare them",
                hints=("nothing was committed; run again",),
            )
        report = work.finish()
    yield report_batch(report)


class _Pairing:
    """The rows of both sides in an interval, walked through in key order."""

    def __init__(self, owner: Owner, share: Share, tasks: Sequence[Task]) -> None:
        self._owner = owner
        self._share = share
        sides: tuple[list[Iterator[pa.RecordBatch]], list[Iterator[pa.RecordBatch]]] = ([], [])
        for task in tasks:
            rows = run_task(task)
            first = next(rows, None)
            if first is not None:
                is_new = first.column(first.num_columns - 1)[0].as_py()
                sides[is_new].append(_without_side(first, rows))
        self._old = SortedPieces(sides[0], share.old_schema.key.names)
        self._new = SortedPieces(sides[1], share.new_schema.key.names)

    @property
    def num_rows(self) -> int:
        """How many of the rows that were dealt out were taken so far."""
        return self._old.num_rows + self._new.num_rows

    def changes(self) -> Iterator[ChangeBatch]:
        """Yield what differs."""
        share = self._share
        last: pa.RecordBatch | None = None
        for interval, before, after in self._parts():
            old = self._gathered(share.old, share.old_schema, interval, before)
            new = self._gathered(share.new, share.new_schema, interval, after)
            for batch in pair_rows(old, new, share.old_schema, share.new_schema):
                if len(batch):
                    last = check_order(batch, last, share.old_schema, share.new_schema)
                    yield batch

    def _parts(
        self,
    ) -> Iterator[tuple[Interval, list[pa.RecordBatch], list[pa.RecordBatch]]]:
        """Yield parts of the interval that fit in memory, with what was dealt of each side."""
        for part in parts_of(self._owner):
            low = part.low
            for bound, rows in self._new.below(part.high):
                old = [each for _, each in self._old.below(bound) if each is not None]
                within = Interval(part.field_id, low, bound)
                yield within, old, [] if rows is None else [rows]
                low = bound

    def _gathered(
        self,
        pieces: Sequence[Piece],
        schema: Schema,
        interval: Interval,
        given: Sequence[pa.RecordBatch],
    ) -> pa.RecordBatch:
        target = arrow_schema(schema)
        found = [batch.cast(target) for batch in given]
        for piece in pieces:
            for batch in piece.batches(schema, interval):
                rows = interval.only(batch, schema)
                if rows.num_rows:
                    found.append(rows.cast(target))
        return one_batch(found) if found else pa.RecordBatch.from_pylist([], schema=target)


def _without_side(
    first: pa.RecordBatch, rows: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield first.remove_column(first.num_columns - 1)
    for batch in rows:
        yield batch.remove_column(batch.num_columns - 1)
