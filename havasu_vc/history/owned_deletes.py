"""Rows that an engine deleted by position, taken away by tasks that each own an interval of keys.

The positions are known, so that nothing is looked up: an owner reads the rows of its files that
go, adds them up, and writes them into one delete file, or a mostly deleted file again. Where rows
are in no key order owners have files instead (`owned_rows`). What is small, whoever commits takes
away himself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from havasu_vc.datasets.havasu.edit import Edit
from havasu_vc.datasets.havasu.far import put_at, url_of
from havasu_vc.datasets.havasu.owners import Owner, report_batch
from havasu_vc.datasets.havasu.owning import Owning
from havasu_vc.datasets.havasu.parquet import Positions
from havasu_vc.engine.protocol import Batches, Engine
from havasu_vc.formats.havasu.entry import Entry
from havasu_vc.history.owned_edits import can_be_owned, collect_owned, cuts_of, owner_values
from havasu_vc.history.owned_rows import file_owners, own_gone, packed
from havasu_vc.model.task import Task, kernel, task_of

__all__ = ["for_owners", "take_away"]

LEAST_ROWS = 1 << 17
"""No more rows than these are taken away in one go."""


def for_owners(edit: Edit, deleted: Mapping[str, Positions]) -> bool:
    """Whether so many rows go from data files that owners of keys may take them away, and can."""
    if sum(map(len, deleted.values())) <= LEAST_ROWS:
        return False
    dataset = edit.dataset
    if url_of(dataset) is not None or not dataset.storage.on_demand:
        return True
    return all(map(dataset.storage.has, deleted))


def take_away(
    edit: Edit, deleted: Mapping[str, Positions], removed: Collection[Entry], engine: Engine
) -> None:
    """Take the rows at some positions out of data files; the caller counts changes.

    `removed` are data files that the edit takes away as a whole.
    """
    leaving = {entry.file for entry in removed}
    # What a delete file says beside of files that leave, the driver writes again.
    shared: set[str] = {
        target
        for entry in edit.dataset.delete_entries
        if not leaving.isdisjoint(entry.targets)
        for target in entry.targets
    }
    waiting = dict(deleted)
    tasks: list[Task] = []
    ordered = can_be_owned(edit.dataset, edit.schema)
    url = put_at(edit.dataset)
    if ordered:
        owners = owner_values(edit, cuts_of(edit), "change", url=url)
    else:
        owners = file_owners(edit, url)
    for owner in owners:
        mine = {file.name: waiting.pop(file.name) for file in owner.files if file.name in waiting}
        told = _without(owner, leaving, shared)
        if mine and ordered:
            tasks.append(task_of(own_deletes, (), told, mine))
        elif mine:
            gone = {name: (packed(np.sort(places)),) for name, places in mine.items()}
            tasks.append(task_of(own_gone, (), told, gone))

    def run() -> Batches:
        what = f"Taking in {edit.dataset.path}"
        # What was brought is in files of this machine.
        anywhere = url is not None or not edit.dataset.storage.on_demand
        return engine.run_dealt([], tasks, description=what, anywhere=anywhere)

    collect_owned(edit, run, url=url)


def _without(owner: Owner, leaving: set[str], shared: set[str]) -> Owner:
    """Return an owner to whom files that leave anyhow are no matter, nor what deletes from them."""
    return replace(
        owner,
        files=tuple(
            replace(file, whole=file.whole and file.name not in shared)
            for file in owner.files
            if file.name not in leaving
        ),
        deletes=tuple(each for each in owner.deletes if shared.isdisjoint(each.targets)),
    )


@kernel
def own_deletes(
    pieces: tuple[()], owner: Owner, deleted: Mapping[str, Positions]
) -> Iterator[pa.RecordBatch]:
    """Take the rows at some positions out of the files of an interval; nothing is dealt to it."""
    with Owning(owner) as work:
        work.drop(deleted)
        report = work.finish()
    yield report_batch(report)
