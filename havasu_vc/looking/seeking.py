"""Rows that hold a value: of a revision, and in what a commit changed.

A text is held by cells of text that contain it, and by other cells whose value it is: `7` by
the number 7 and by 7.0, not by 70. A regular expression looks at each value as it is printed.
Geometries, rasters and nested columns hold none. Columns are looked at whole, as Arrow compares
them, and only those are read that can hold it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.looking.requests import SeekRequest
from havasu_vc.looking.tables import Table
from havasu_vc.model import compute as pc
from havasu_vc.model.arrow import arrow_type
from havasu_vc.model.changes import ChangeBatch
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, Fixed, List, Map, Primitive, Struct
from havasu_vc.records import dataclass
from havasu_vc.repo.differences import diff_revisions
from havasu_vc.repo.filters import parse_filters
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.writers.values import plain_text

__all__ = ["FoundRows", "changes_hold", "seek"]


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Some rows of a dataset that hold it."""

    path: str
    """The dataset."""
    schema: Schema
    """Its columns that were read."""
    rows: pa.RecordBatch
    """The rows, with the key and the columns that were looked in."""
    held: dict[str, pa.BooleanArray]
    """Whether it is in each of these columns."""


def seek(repo: OpenRepo, request: SeekRequest) -> Iterator[FoundRows]:
    """Yield the rows of a revision that hold a value, by dataset."""
    found = repo.revision(request.revision)
    wanted = parse_filters(request.filters)
    paths = repo.datasets(request.revision)
    wanted.check(paths, f"at {request.revision}")
    _check_regex(request)
    for path in paths:
        chosen = wanted.of(path)
        if chosen is None or not chosen.rows:
            continue
        if chosen.keys is not None:
            raise InvalidArgumentError("a value is sought in whole datasets, not in one row")
        dataset = repo.dataset(path, found.name)
        known = [name for name in request.columns if name in dataset.schema.by_name]
        if request.columns and not known:
            continue
        fields = [dataset.schema.by_name[name] for name in known] or dataset.schema.fields
        looked = [field for field in fields if _can_hold(field, request)]
        if not looked:
            continue
        key = dataset.schema.key.names
        # Without a key, rows are called by all that is in them.
        names = dict.fromkeys((*key, *(field.name for field in looked))) if key else None
        columns = None if names is None else tuple(names)
        for batch in Table(dataset, repo.settings).to_batches(columns):
            held = {f.name: _held(batch.column(f.name), f, request) for f in looked}
            mask = reduce(pc.or_, held.values())
            rows = pc.filter(batch, mask)
            if rows.num_rows:
                schema = dataset.schema if columns is None else dataset.schema.select(columns)
                where = {name: pc.filter(each, mask) for name, each in held.items()}
                yield FoundRows(path, schema, rows, where)


def changes_hold(
    repo: OpenRepo, commit: str, request: SeekRequest, filters: Sequence[str] = ()
) -> bool:
    """Whether a commit changed a row that holds a value, before or after."""
    _check_regex(request)
    old, new = repo.resolve(f"{commit}^?"), repo.resolve(commit)
    before, after = repo.folders(old), repo.folders(new)
    # Before a dataset was moved its changes are those of another path.
    named = all(text.partition(":")[0].strip("/") in before.keys() | after for text in filters)
    wanted = filters if named else ()
    for diff in diff_revisions(repo, old, new, wanted, tables_only=True, moves=True):
        sides = [
            (side, header.schema)
            for side, header in (("old", diff.old), ("new", diff.new))
            if header is not None
        ]
        for batch in diff.changes:
            if any(_side_holds(batch, side, schema, request) for side, schema in sides):
                return True
    return False


def _side_holds(batch: ChangeBatch, side: str, schema: Schema, request: SeekRequest) -> bool:
    rows = batch.old if side == "old" else batch.new
    for index, column in enumerate(rows.flatten()):
        field = schema.by_name.get(rows.type.field(index).name)
        if field is None or (request.columns and field.name not in request.columns):
            continue
        if _can_hold(field, request) and pc.any(_held(column, field, request)).as_py():
            return True
    return False


def _check_regex(request: SeekRequest) -> None:
    if not request.text:
        raise InvalidArgumentError("an empty value is in every row")
    if request.regex:
        try:
            pc.match_substring_regex(pa.array(["a"]), request.text)
        except pa.ArrowException as error:
            raise InvalidArgumentError(f"{request.text!r} is no regular expression") from error


def _can_hold(field: Field, request: SeekRequest) -> bool:
    """Whether a column can hold what is sought at all."""
    if field.geometry is not None or field.raster is not None:
        return False
    match field.type:
        case Struct() | List() | Map():
            return False
        case Primitive.STRING:
            return True
        case Primitive.UUID | Primitive.BINARY | Fixed():
            return True
        case _:
            return request.regex or _value(field, request) is not None


def _value(field: Field, request: SeekRequest) -> pa.Scalar | None:
    """Return the text as a value of a column's type; None where it is none."""
    try:
        if field.type is Primitive.BOOLEAN and request.text.lower() not in ("true", "false"):
            return None
        if isinstance(field.type, Decimal):
            return pc.cast(pc.cast(pa.scalar(request.text), pa.float64()), arrow_type(field.type))
        return pc.cast(pa.scalar(request.text), arrow_type(field.type))
    except pa.ArrowException:
        return None


def _held(column: pa.Array, field: Field, request: SeekRequest) -> pa.BooleanArray:
    """Return whether each cell holds it; a null holds nothing."""
    match field.type:
        case _ if request.regex:
            text = plain_text(column, field)
            found = pc.match_substring_regex(text, request.text, ignore_case=request.ignore_case)
        case Primitive.STRING:
            found = pc.match_substring(column, request.text, ignore_case=request.ignore_case)
        case Primitive.UUID | Primitive.BINARY | Fixed():
            found = pc.equal(plain_text(column, field), request.text.lower())
        case _:
            found = pc.equal(column, _value(field, request))
    return pc.fill_null(found, False)
