"""A large edit made by tasks that each own an interval of keys, on any engine.

The driver cuts the keys at the edges of data files, as entries tell them, and adds up what
owners report: it holds entries, never rows, but for the few of a small change. A dataset
without a key, or whose rows are in no key order, is not edited so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import field
from itertools import pairwise
from typing import Any, TypeAlias

import pyarrow as pa

from havasu_vc.datasets.dealing import Cuts, deal
from havasu_vc.datasets.havasu.diff import lies_in_key_order
from havasu_vc.datasets.havasu.edit import Edit, is_small
from havasu_vc.datasets.havasu.owners import UNSEEN, OldDeletes, OldFile, Owner, parse_report
from havasu_vc.datasets.havasu.owning import own
from havasu_vc.datasets.havasu.parquet import file_name, key_ranges
from havasu_vc.datasets.havasu.pieces import FilePiece, Interval, Piece
from havasu_vc.datasets.pairing import same_key
from havasu_vc.datasets.protocol import DatasetInFiles
from havasu_vc.engine.protocol import Batches, Engine
from havasu_vc.errors import EngineError
from havasu_vc.formats.havasu.entry import Content, Entry, from_scalar
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, task_of
from havasu_vc.records import dataclass
from havasu_vc.store.disk import reporting_storage_errors

__all__ = [
    "Edges",
    "can_be_owned",
    "collect_owned",
    "cuts_of",
    "key_edges",
    "old_deletes",
    "old_file",
    "owned_edit",
    "owner_value",
    "owner_values",
    "owners_of",
    "pieces_of",
    "spanning_files",
]

FEW_ROWS = 10_000
"""Rows that come back to the driver, from all owners together."""
OWNER_BYTES = 64 << 20
"""About how many bytes of a table one task edits; a file is never cut."""

Edges: TypeAlias = Mapping[str, tuple[Any | None, Any | None]]
"""The least and the greatest first key of data files, where known."""


def can_be_owned(dataset: DatasetInFiles, schema: Schema) -> bool:
    """Whether intervals of keys of a dataset can be edited apart, to have some columns then."""
    if not same_key(dataset.schema, schema) or dataset.order.is_hilbert:
        return False
    return lies_in_key_order(dataset, list(dataset.data_entries))


def owned_edit(
    edit: Edit, tasks: Sequence[Task], mode: str, engine: Engine, *, url: str | None = None
) -> None:
    """Take what the rows of some tasks change into an edit; `mode` says what rows mean.

    With a `url` owners write there.
    """
    edit.dataset.bring(edit.dataset.data_entries)
    cuts = cuts_of(edit)
    dealing = [task_of(deal, task, cuts) for task in tasks]
    owners = owners_of(edit, cuts, mode, url=url)
    collect_owned(edit, lambda: engine.run_dealt(dealing, owners, description="Editing"), url=url)


def collect_owned(
    edit: Edit, run: Callable[[], Batches], *, url: str | None = None
) -> list[pa.RecordBatch]:
    """Take what owners report into an edit, if the files that they wrote are here.

    Those that they put at a URL are not. Return what they set aside, in key order.
    """
    aside: dict[int, tuple[pa.RecordBatch, ...]] = {}
    for batch in run():
        report = parse_report(batch)
        for file in report.files:
            if url is None and not edit.dataset.storage.has(file.entry.file):
                raise EngineError(
                    f"what the worker on {report.host} wrote is not here: {file.entry.file}",
                    hints=UNSEEN,
                )
        edit.take_report(report, elsewhere=url is not None)
        if report.aside:
            aside[report.number] = report.aside
    return [each for _, found in sorted(aside.items()) for each in found]


def cuts_of(edit: Edit) -> Cuts:
    """Return where keys are cut, at edges of files with about as much to read between them."""
    dataset, names = edit.dataset, edit.schema.key.names
    edges = sorted(
        (low, entry.size)
        for entry in dataset.data_entries
        if (low := key_edges(dataset, entry)[0]) is not None
    )
    values: list[Any] = []
    waiting = 0
    for low, size in edges:
        if waiting >= OWNER_BYTES and (not values or low > values[-1]):
            values.append(low)
            waiting = 0
        waiting += size
    return Cuts(names, tuple(values))


def owners_of(edit: Edit, cuts: Cuts, mode: str, *, url: str | None = None) -> list[Task]:
    """Return the task of each interval's owner, which writes to this commit's staging, or a URL.

    What is written to a URL needs no key caches: they are for who has the files.
    """
    return [task_of(own, (), owner) for owner in owner_values(edit, cuts, mode, url=url)]


def owner_values(edit: Edit, cuts: Cuts, mode: str, *, url: str | None = None) -> list[Owner]:
    """Return what the owner of each interval is told."""
    dataset = edit.dataset
    held = _held(dataset, cuts)
    deletes = {e.file: e for e in dataset.entries.values() if e.content is Content.DELETES}
    spanning = spanning_files([each.whole for each in held], deletes.values())
    return [
        owner_value(
            edit,
            mode,
            each.interval,
            [
                old_file(dataset, entry, entry.file in each.whole and entry.file not in spanning)
                for entry in each.entries
            ],
            old_deletes(dataset, deletes.values(), each.whole),
            len(held),
            url,
        )
        for each in held
    ]


def owner_value(
    edit: Edit,
    mode: str,
    interval: Interval,
    files: Iterable[OldFile],
    deletes: Iterable[OldDeletes],
    owners: int,
    url: str | None,
) -> Owner:
    """Return what one of so many owners is told."""
    storage = edit.dataset.storage
    with reporting_storage_errors(storage.staging.root):
        storage.staging.root.mkdir(parents=True, exist_ok=True)
    return Owner(
        edit.dataset.path,
        mode,
        interval,
        tuple(files),
        tuple(deletes),
        edit.dataset.schema,
        edit.layout,
        url or str(storage.staging.root),
        None if url else str(storage.keys),
        FEW_ROWS // owners,
    )


def old_file(dataset: DatasetInFiles, entry: Entry, whole: bool) -> OldFile:
    """Return a data file for an owner, which may take it over if it has the whole of it."""
    return OldFile(
        dataset.file_path(entry),
        entry.file,
        entry.rows,
        entry.origin,
        dataset.delete_paths(entry),
        whole and entry.location is None,
    )


def old_deletes(
    dataset: DatasetInFiles, deletes: Iterable[Entry], whole: Set[str]
) -> list[OldDeletes]:
    """Return the large delete files of which an owner has all the data files."""
    return [
        OldDeletes(dataset.file_path(entry), entry.file, tuple(entry.targets))
        for entry in deletes
        if entry.targets.keys() <= whole and not is_small(entry)
    ]


@dataclass(frozen=True, slots=True)
class _Held:
    """The content of an interval."""

    interval: Interval
    entries: list[Entry] = field(default_factory=list)
    whole: set[str] = field(default_factory=set)


def _held(dataset: DatasetInFiles, cuts: Cuts) -> list[_Held]:
    """Return what there is in each interval."""
    id_ = dataset.key.fields[0].id
    held = [_Held(Interval(id_, low, high)) for low, high in pairwise((None, *cuts.values, None))]
    for entry in dataset.data_entries:
        first, last = cuts.span(*key_edges(dataset, entry))
        for each in held[first : last + 1]:
            each.entries.append(entry)
        if first == last:
            held[first].whole.add(entry.file)
    return held


def spanning_files(held: Sequence[Set[str]], deletes: Iterable[Entry]) -> set[str]:
    """Return data files with rows in delete files that no single owner can take over.

    Such a data file stays, as what deletes from others would have to be written again with
    it; what is small, the driver writes again.
    """
    found: set[str] = set()
    for entry in deletes:
        if not is_small(entry) and not any(entry.targets.keys() <= whole for whole in held):
            found |= entry.targets.keys()
    return found


def key_edges(dataset: DatasetInFiles, entry: Entry) -> tuple[Any | None, Any | None]:
    """Return what no first key of a file is below, and what none is above, where known."""
    field = dataset.key.fields[0]
    statistics = entry.statistics.get(field.id)
    if statistics is None or statistics.lower is None or statistics.upper is None:
        return None, None
    # A document of others may say anything.
    with suppress(ValueError, TypeError, ArithmeticError):
        lower, upper = (from_scalar(v, field.type) for v in (statistics.lower, statistics.upper))
        return lower, upper
    return None, None


def pieces_of(piece: Piece, cuts: Cuts, id_: int, known: Edges) -> Iterator[tuple[int, Piece]]:
    """Yield the owners that a piece may have keys for; each reads what of it is in its interval."""
    if isinstance(piece, FilePiece):
        first, last = cuts.span(*known.get(file_name(piece.path), (None, None)))
        owners: Iterable[int] = range(first, last + 1)
    else:
        spans = (cuts.span(*(each or (None, None))) for each in key_ranges(piece.path, id_))
        owners = sorted({owner for first, last in spans for owner in range(first, last + 1)})
    yield from ((owner, piece) for owner in owners)
