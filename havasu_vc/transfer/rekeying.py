"""A dataset under another key: its rows are all written again, at the places of their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from havasu_vc.datasets.kinds import require_files
from havasu_vc.datasets.protocol import Dataset, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import InvalidArgumentError, UnsupportedError
from havasu_vc.model.arrow import arrow_field
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task
from havasu_vc.transfer.requests import ImportRequest

__all__ = ["changed_items", "in_columns", "key_notes", "other_key", "rekeyed", "with_key_of"]


def other_key(old: Dataset, request: ImportRequest) -> Sequence[str] | None:
    """Return the key that a request gives to a dataset; None where that is the one it has."""
    key = None if request.options is None else request.options.primary_key
    if key is None or set(key) == set(old.key.names):
        return None
    if not key:
        raise InvalidArgumentError(
            f"{old.path} has the key ({', '.join(old.key.names)}), not no key",
            hints=("--primary-key COLUMN gives it another one",),
        )
    if request.replace_ids is not None:
        raise UnsupportedError(
            "--replace-ids is not supported when the primary key column is being changed",
            hints=("take in all rows, with --replace alone",),
        )
    return key


def changed_items(old: Dataset, edit: TreeEdit) -> Sequence[str]:
    """Return the meta items that an edit changes, which may write the others as they are."""
    return [
        item
        for item in edit.meta
        if item == "schema.json" or old.folder.read(f"meta/{item}") != edit.blobs[f"meta/{item}"]
    ]


def key_notes(old: Dataset, key: Sequence[str]) -> Iterator[str]:
    """Yield that a dataset has another key."""
    was = f"({', '.join(old.key.names)})" if old.key.names else "none"
    yield f"{old.path}: the key is ({', '.join(key)}) now, {was} before; every row is written anew"


def rekeyed(
    old: Dataset,
    schema: Schema,
    meta: Mapping[str, bytes | None],
    tasks: Sequence[Task],
    engine: Engine,
    *,
    size: int,
) -> TreeEdit:
    """Return the edit that gives a dataset another key; `tasks` yield all its rows in `schema`."""
    edit = old.rekeyed(schema, meta, engine.run(tasks))
    if edit is not None:
        return edit
    from havasu_vc.datasets.havasu.build import NewDataset
    from havasu_vc.exchange.importing import Curve, write_table

    old = require_files(old)
    kept: dict[str, bytes | None] = {f"meta/{name}": data for name, data in old.items.items()}
    kept |= meta
    hilbert = schema.geometries[0] if old.order.is_hilbert and schema.geometries else None
    new = NewDataset(
        old.path,
        schema,
        table_uuid=old.properties.table_uuid,
        meta={name: data for name, data in kept.items() if data is not None},
        hilbert=None if hilbert is None else hilbert.id,
    )
    curve = None if hilbert is None else Curve(hilbert.name)
    files = write_table(tasks, new, old.storage, engine, input_bytes=size, curve=curve)
    return new.replacing(old, files)


def with_key_of(schema: Schema, names: Sequence[str]) -> Schema:
    """Return a schema whose key is some of its columns."""
    ids = tuple(schema.by_name[name].id for name in names)
    fields = (replace(f, required=True) if f.id in ids else f for f in schema.fields)
    return Schema(tuple(fields), ids)


@kernel
def in_columns(task: Task, old: Schema, schema: Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows of a dataset in the columns that it gets, told by their ids."""
    names = [old.by_id[f.id].name if f.id in old.by_id else None for f in schema.fields]
    for batch in run_task(task):
        columns = []
        for name, field in zip(names, schema.fields, strict=True):
            wanted = arrow_field(field).type
            none = pa.nulls(batch.num_rows, wanted)
            columns.append(none if name is None else batch.column(name).cast(wanted))
        yield pa.RecordBatch.from_arrays(columns, names=list(schema.names))
