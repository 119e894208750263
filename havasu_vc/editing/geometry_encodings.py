"""Declaring what a column of bytes or text holds: geometries of an encoding, or none.

Nothing but the schema changes; data files stay as they are. So every value must be what
is declared already, which is checked by reading the column once. Bounds of files are
not known for a column that was none before, so no query leaves a file out by it until
the file is written anew.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa

from havasu_vc.datasets.havasu.keys import DECLARED
from havasu_vc.datasets.kinds import DEFAULT
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, TreeEdit
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import GeometryError, InvalidArgumentError, SchemaViolationError
from havasu_vc.geo.wkb import to_canonical
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import Task, kernel, run_task, task_of
from havasu_vc.model.types import Encoding, Field, Geometry, Primitive
from havasu_vc.repo.edits import commit_edits
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CommitResult

__all__ = ["NONE", "declare_geometries"]

NONE = "none"
"""The encoding of a column that holds no geometries."""


def declare_geometries(
    repo: OpenRepo, dataset: str, encodings: Mapping[str, str], *, message: str | None = None
) -> CommitResult:
    """Commit what columns hold, by name: `ewkb`, `wkb`, `wkt`, `geojson` or `none`.

    Only the schema changes; values that are something else are an error.
    """
    path = dataset.strip("/")

    def make(view: Dataset, engine: Engine) -> TreeEdit:
        return _declared(view, encodings, engine)

    text = message or f"Declare geometries of {path}"
    return commit_edits(repo, [(path, make)], text)


def _declared(dataset: Dataset, wanted: Mapping[str, str], engine: Engine) -> TreeEdit:
    view = dataset.in_files
    if view is None:
        raise InvalidArgumentError(
            f"{dataset.path} is a {dataset.kind.capitalize()} dataset, "
            "whose geometries have one encoding",
            hints=(f"`havasu-vc convert {shlex.quote(dataset.path)} --to {DEFAULT.name}` first",),
        )
    changed: dict[int, Field] = {}
    for name, encoding in wanted.items():
        field = view.schema.by_name.get(name)
        if field is None:
            raise InvalidArgumentError(
                f"{view.path} has no column {name!r}",
                hints=(f"it has {', '.join(view.schema.names)}",),
            )
        after = _marked(field, _field(field, encoding))
        _refuse_placed(view, field, after)
        if after != field:
            changed[field.id] = after
    if not changed:
        return TreeEdit(view.path, {})
    fields = tuple(changed.get(field.id, field) for field in view.schema.fields)
    for after in changed.values():
        if after.geometry is not None:
            _check_values(view, after, after.geometry.encoding, engine)
    _, edit = view.evolved(Schema(fields, view.schema.identifier_ids))
    with edit:
        return edit.finish(fold=False)


def _marked(before: Field, after: Field) -> Field:
    """Return a column that remembers that its values counted as bytes or text once."""
    if (before.geometry is None) == (after.geometry is None) or DECLARED in dict(after.extra):
        return after
    return replace(after, extra=(*after.extra, (DECLARED, "true")))


def _field(field: Field, encoding: str) -> Field:
    """Return a column declared otherwise; its type stays."""
    if encoding == NONE:
        extra = tuple(pair for pair in field.extra if pair[0] != "edges")
        return replace(field, geometry=None, extra=extra)
    known = list(Encoding)
    if encoding not in known:
        raise InvalidArgumentError(
            f"there is no geometry encoding {encoding!r}",
            hints=(f"encodings are {', '.join(known)}, and {NONE}",),
        )
    found = Encoding(encoding)
    if field.type != (Primitive.BINARY if found.is_binary else Primitive.STRING):
        raise SchemaViolationError(
            f"column {field.name!r} is {field.type}, so its values are no {encoding}",
            hints=(
                f"to rewrite them, export the dataset, then `havasu-vc import FILE DATASET "
                f"--replace --geometry-encoding {encoding}`",
            ),
        )
    geometry = field.geometry or Geometry(found)
    return replace(field, geometry=replace(geometry, encoding=found))


def _refuse_placed(view: DatasetInFiles, field: Field, after: Field) -> None:
    """Refuse columns that say in which file or in what order rows are."""
    if (field.geometry is None) == (after.geometry is None):
        return
    if field.id in view.schema.identifier_ids:
        raise SchemaViolationError(f"column {field.name!r} is of the key, so it holds no geometry")
    ordering = {part.source_id for part in view.partition.fields}
    ordering |= {part.source_id for part in view.order.fields}
    if field.id in ordering:
        raise SchemaViolationError(
            f"column {field.name!r} cannot change: the files of {view.path} are arranged by it"
        )


def _check_values(view: DatasetInFiles, field: Field, encoding: Encoding, engine: Engine) -> None:
    tasks = [
        task_of(check_geometries, task, field.name, encoding.value)
        for task in view.scan(columns=[field.name])
    ]
    try:
        for _ in engine.run(tasks, description=f"Checking {view.path}", brief=True):
            pass
    except GeometryError as error:
        raise GeometryError(
            f"column {field.name!r} holds values that are no {encoding.value}: {error.message}",
            hints=error.hints,
        ) from error


@kernel
def check_geometries(task: Task, name: str, encoding: str) -> Iterator[pa.RecordBatch]:
    """Yield nothing; raises `GeometryError` for a value that is not of the encoding."""
    for batch in run_task(task):
        column = batch.column(name)
        wkb, srids = to_canonical(column, Encoding(encoding))
        if encoding == Encoding.WKB.value and (srids is not None or not wkb.equals(column)):
            raise GeometryError(
                "some are EWKB, or of another byte order",
                hints=("columns of ewkb hold both",),
            )
        yield from ()
