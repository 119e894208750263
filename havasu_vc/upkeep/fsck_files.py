"""Checking files against what their entries say, and a dataset's digests against its rows.

Each data file is a task of its own, which tells what is wrong and what its live rows
sum up to; an error inside becomes a finding, so that the other files are checked too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from havasu_vc.datasets.digest import Digests, hash_rows
from havasu_vc.datasets.havasu.kernels import deleted_positions
from havasu_vc.datasets.havasu.parquet import open_parquet, read_row_groups
from havasu_vc.datasets.havasu.projection import lacks
from havasu_vc.datasets.havasu.verify import mark_verified, verify_delete_file
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.havasu.writing import split_offsets
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import CorruptDataFileError, HavasuError
from havasu_vc.formats.havasu.entry import Content, Entry, format_entry, parse_entry
from havasu_vc.history.summing import format_digests, parse_digests
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, task_of
from havasu_vc.upkeep.finding import Finding, Findings
from havasu_vc.upkeep.fsck_keys import duplicate_keys
from havasu_vc.upkeep.fsck_values import ValueCheck

__all__ = ["check_data_file", "check_files"]

_REPORT = pa.schema([(name, pa.string()) for name in ("message", "hint", "column", "digests")])


def check_files(
    view: HavasuDataset,
    here: Mapping[str, Entry],
    engine: Engine,
    checked: set[str],
    *,
    whole: bool,
    summed: bool,
) -> Iterator[Finding]:
    """Yield what is wrong with the files of a dataset that are in the store.

    `whole` says that these are all, so that they can be added up, and `summed` that
    there is a snapshot to compare that with.
    """
    deletes = [entry for entry in here.values() if entry.content is Content.DELETES]
    findings = Findings()
    sound = [entry for entry in deletes if _check_delete_file(view, entry, here, findings, checked)]
    tasks: list[Task] = []
    files: list[Entry] = []
    for entry in here.values():
        if entry.content is Content.DATA:
            with findings.catching(f"{view.path}: data file {entry.file}"):
                tasks.append(_task(view, entry, sound, hashed=entry.file not in checked))
                files.append(entry)
    digests = Digests()
    for number, batch in engine.run_each(tasks, description=f"Checking {view.path}"):
        for row in batch.to_pylist():
            if row["digests"] is not None:
                digests.add(parse_digests(row["digests"]))
                continue
            where = f"{view.path}: data file {files[number].file}"
            findings.add(where, row["message"], row["hint"], row["column"])
    checked |= {entry.file for entry in files}
    yield from findings.found
    if whole and not findings.found:
        # What is missing or damaged cannot be added up.
        if summed:
            yield from _check_digests(view, digests)
        yield from duplicate_keys(view, files)


def _check_digests(view: HavasuDataset, digests: Digests) -> Iterator[Finding]:
    found = digests.of(view.schema.by_id)
    wrong = [
        field.name
        for field in view.schema.fields
        if view.snapshot.digests.get(field.id) != found[field.id]
    ]
    if wrong:
        yield Finding(
            f"{view.path}/files",
            f"the rows do not have the digests that deltas add up to, in column {', '.join(wrong)}",
        )


def _check_delete_file(
    view: HavasuDataset,
    entry: Entry,
    here: Mapping[str, Entry],
    findings: Findings,
    checked: set[str],
) -> bool:
    """Check one delete file; return whether it can be read."""
    count = len(findings.found)
    with findings.catching(f"{view.path}: delete file {entry.file}"):
        if entry.file not in checked and entry.file not in view.derived_files:
            view.storage.files.verify(entry.file)
            checked.add(entry.file)
        if entry.targets.keys() <= here.keys():
            verify_delete_file(view, entry)
            mark_verified(view.storage.keys, entry.file)
    return len(findings.found) == count


def _task(view: HavasuDataset, entry: Entry, deletes: Sequence[Entry], *, hashed: bool) -> Task:
    paths = tuple(view.file_path(delete) for delete in deletes if entry.file in delete.targets)
    return task_of(
        check_data_file,
        view.file_path(entry),
        format_entry(entry),
        view.past_schema(entry.schema),
        view.schema,
        paths,
        hashed,
    )


@kernel
def check_data_file(
    path: str,
    document: bytes,
    written: Schema,
    schema: Schema,
    deletes: tuple[str, ...],
    hashed: bool,
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each thing that is wrong with a data file, then the digests of its live rows.

    `written` is the schema that the entry names, `schema` the dataset's; with `hashed`
    the bytes of the file are hashed too.
    """
    file = Path(path).name
    entry = parse_entry(document, file, file)
    try:
        if hashed:
            _check_hash(path)
        check = ValueCheck(entry, written)
        for column, message in _problems(path, entry, written, check):
            yield _report(message, column=column)
        if not check.is_readable:
            return  # what cannot be read has no digest
        deleted = deleted_positions(file, deletes)
        digests = Digests()
        for rows in read_row_groups(path, schema, deleted=deleted):
            digests.add(hash_rows(rows, schema).digests)
        yield _report(digests=digests)
    except HavasuError as error:
        yield _report(error.message, error.hints[0] if error.hints else None)


def _check_hash(path: str) -> None:
    name = Path(path).name
    with Path(path).open("rb", buffering=0) as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != name:
        raise CorruptDataFileError(name, f"its bytes have the hash {found}")


def _problems(
    path: str, entry: Entry, written: Schema, check: ValueCheck
) -> Iterator[tuple[str | None, str]]:
    with open_parquet(path) as file:
        if file.metadata.num_rows != entry.rows:
            yield None, f"it has {file.metadata.num_rows} rows, its entry says {entry.rows}"
        if entry.splits and split_offsets(file.metadata) != entry.splits:
            yield None, "its row groups do not begin where its entry says"
        if lacks(file.schema_arrow, written):
            yield None, "it lacks columns of the schema that its entry names"
    for rows in read_row_groups(path, written):
        check.add(rows)
    yield from check.problems()


def _report(
    message: str | None = None,
    hint: str | None = None,
    *,
    column: str | None = None,
    digests: Digests | None = None,
) -> pa.RecordBatch:
    text = None if digests is None else format_digests(digests.sums)
    row = {"message": message, "hint": hint, "column": column, "digests": text}
    return pa.RecordBatch.from_pylist([row], schema=_REPORT)
