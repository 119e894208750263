"""Answers to conflicts of rows: a side, cells from sides, a row, a new key.

All conflicts that were chosen are answered at once, as columns. An answer that makes no
sense for one of them is refused with its label, and nothing is answered.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import HavasuError, InvalidArgumentError, SchemaViolationError
from havasu_vc.formats.json_columns import json_column
from havasu_vc.geo.geojson import parse_geojson
from havasu_vc.geo.wkb import from_canonical, to_canonical
from havasu_vc.history.conflicts import ConflictKind, DatasetConflicts, conflict_columns
from havasu_vc.merging.state import MergeState
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array
from havasu_vc.model.arrow import arrow_field, arrow_schema
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive, Type
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo

__all__ = [
    "CHOICES",
    "WORKING_COPY",
    "Resolution",
    "Standing",
    "answer",
    "has_counting_key",
    "next_key",
    "parse_rows",
    "row_of",
]


CHOICES = ("ours", "theirs", "base", "delete")
"""Choices for the whole of something in conflict."""
SIDES = ("ours", "theirs", "base")
WORKING_COPY = "workingcopy"
"""The choice of the row that stands in a living working copy."""
Standing = Callable[[str, pa.RecordBatch, Schema], pa.StructArray]
"""Returns rows of a dataset's table by their keys, in some columns; null where there is none."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """How conflicts are to be resolved."""

    choice: str | None = None
    """`ours`, `theirs`, `base` or `delete`: the whole row as it is there; `workingcopy`, the row
    that stands there. With `columns`, the side of cells in conflict that these do not name."""
    columns: Mapping[str, str] | None = None
    """The side of the cells of some columns; cells that are not in conflict are merged."""
    row: Mapping[str, Any] | None = None
    """The row itself, for a single conflict."""
    document: bytes | None = None
    """The row as a GeoJSON feature or as Kart's JSON, for a single conflict; or two features, of
    which one has another key, under which it stands besides; or none, which deletes the row."""
    renumber: str | None = None
    """`ours` or `theirs`: that side's row gets the next free key, and both rows stand."""

    @property
    def gives_row(self) -> bool:
        """Whether it is the row itself."""
        return self.row is not None or self.document is not None

    def check(self) -> None:
        """Raise unless it says one thing that makes sense."""
        known = (*CHOICES, WORKING_COPY)
        if self.choice is not None and self.choice not in known:
            raise InvalidArgumentError(
                f"conflicts cannot be resolved with {self.choice!r}",
                hints=(f"choose {', '.join(known)}",),
            )
        if self.renumber is not None and self.renumber not in ("ours", "theirs"):
            raise InvalidArgumentError(f"ours or theirs can be renumbered, not {self.renumber!r}")
        for column, side in (self.columns or {}).items():
            if side not in SIDES:
                raise InvalidArgumentError(
                    f"column {column!r} is resolved with ours, theirs or base, not {side!r}"
                )
        ways = [
            self.choice is not None or bool(self.columns),
            self.row is not None,
            self.document is not None,
            self.renumber is not None,
        ]
        if sum(ways) != 1:
            raise InvalidArgumentError(
                "conflicts are resolved in one way at a time",
                hints=("a side and columns, a row, or a new key",),
            )
        if self.columns and self.choice == "delete":
            raise InvalidArgumentError("a row that is deleted has no columns to choose")
        if self.columns and self.choice == WORKING_COPY:
            raise InvalidArgumentError("a row of the working copy is taken as a whole")


def answer(
    picked: pa.Table,
    schema: Schema,
    resolution: Resolution,
    labels: Sequence[str],
    *,
    first_key: int | None = None,
    order: npt.NDArray[np.int64] | None = None,
    standing: pa.StructArray | None = None,
) -> dict[str, pa.Array]:
    """Return the columns `resolution`, `result` and `renumbered` of some conflicts.

    `labels` are what they are called in messages; `first_key` is the first free key, and
    `order` the one in which they get keys, where it is not that of their keys; `standing`
    are the rows that a working copy has.
    """
    type_ = picked.schema.field("result").type
    if not schema.key and resolution.choice not in SIDES:
        raise InvalidArgumentError(
            f"{labels[0]} is about how often a row is there: it is resolved with ours, theirs or"
            " base"
        )
    renumbered = pa.nulls(len(labels), type_)
    if standing is not None:
        there = pa.array(["row"] * len(labels), pa.string())
        return {"resolution": there, "result": standing, "renumbered": renumbered}
    if resolution.renumber is not None:
        how = "renumber"
        other = "theirs" if resolution.renumber == "ours" else "ours"
        result = _side(picked, other)
        places = np.arange(len(labels)) if order is None else np.argsort(order)
        keys = (first_key or 0) + places
        renumbered = _with_keys(_side(picked, resolution.renumber), schema, keys)
    elif resolution.gives_row:
        result, renumbered = _given(picked, schema, resolution, labels)
        how = "delete" if result.null_count == renumbered.null_count == 1 else "row"
    elif resolution.columns:
        how, result = "columns", _mixed(picked, schema, resolution, labels)
    else:
        how = resolution.choice or ""
        result = pa.nulls(len(labels), type_) if how == "delete" else _side(picked, how)
    said = pa.array([how] * len(labels), pa.string())
    return {"resolution": said, "result": result, "renumbered": renumbered}


def _side(picked: pa.Table, name: str) -> pa.StructArray:
    return picked.column(name).combine_chunks()


def _with_keys(rows: pa.StructArray, schema: Schema, keys: npt.NDArray[np.int64]) -> pa.StructArray:
    (name,) = schema.key.names
    columns = [
        pa.array(keys, field.type) if field.name == name else column
        for field, column in zip(rows.type, rows.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(rows.type))


def _given(
    picked: pa.Table, schema: Schema, resolution: Resolution, labels: Sequence[str]
) -> tuple[pa.StructArray, pa.StructArray]:
    """Return the row that somebody wrote down, and one of another key, if there is; else null."""
    if len(labels) != 1:
        raise InvalidArgumentError(
            f"a row resolves one conflict, and {len(labels):,} are meant",
            hints=(f"name one by its label, such as {labels[0]}",),
        )
    if resolution.document is not None:
        like = next(_side(picked, s) for s in SIDES if pc.is_valid(_side(picked, s))[0].as_py())
        rows = parse_rows(resolution.document, schema, like)
    else:
        rows = [row_of(resolution.row or {}, schema)]
    own = [row for row in rows if _other_key(row, picked, schema) is None]
    others = [row for row in rows if _other_key(row, picked, schema) is not None]
    if len(rows) == 1 and others:
        given, name = _other_key(rows[0], picked, schema) or ("", "")
        raise SchemaViolationError(f"the row has {given} as its {name!r}, so it is not {labels[0]}")
    if len(own) > 1 or len(others) > 1:
        raise InvalidArgumentError(
            f"two rows of {'its' if len(own) > 1 else 'another'} key cannot resolve {labels[0]}",
            hints=("at most one row stands in its place, and one more under another key",),
        )
    if others and len(schema.key.fields) > 1:
        raise InvalidArgumentError("a row of another key needs a key of one column")
    absent = pa.nulls(1, picked.schema.field("result").type)
    return (own or [absent])[0], (others or [absent])[0]


def _other_key(row: pa.StructArray, picked: pa.Table, schema: Schema) -> tuple[str, str] | None:
    """Return the value and the column by which a row has another key than a conflict."""
    sides = [_side(picked, side) for side in SIDES]
    for field in schema.key.fields:
        key = pc.coalesce(*(pc.struct_field(each, field.name) for each in sides))
        given = pc.struct_field(row, field.name)
        if not pc.cast(given, key.type).equals(key):
            return repr(given[0].as_py()), field.name
    return None


def _mixed(
    picked: pa.Table, schema: Schema, resolution: Resolution, labels: Sequence[str]
) -> pa.StructArray:
    """Return rows whose cells come from different sides; what is not in conflict is merged."""
    columns = dict(resolution.columns or {})
    _check_columns(columns, schema)
    _check_rows(picked, {*columns.values(), resolution.choice or "ours"}, labels)
    merged = _side(picked, "merged")
    arrays = []
    for field in merged.type:
        clash = _in_conflict(picked, field.name)
        side = columns.get(field.name)
        if side is not None:
            arrays.append(pc.struct_field(_side(picked, side), field.name))
            continue
        cells = pc.struct_field(merged, field.name)
        if clash.any():
            if resolution.choice is None:
                raise InvalidArgumentError(
                    f"{labels[int(np.flatnonzero(clash)[0])]} is also in conflict in column"
                    f" {field.name!r}",
                    hints=(f"add `--column {field.name}=theirs`, or `--with=ours` for all others",),
                )
            other = pc.struct_field(_side(picked, resolution.choice), field.name)
            cells = pc.if_else(arrow_array(clash), other, cells)
        arrays.append(cells)
    return pa.StructArray.from_arrays(arrays, fields=list(merged.type))


def _in_conflict(picked: pa.Table, column: str) -> npt.NDArray[np.bool_]:
    """Return the conflicts in which the cells of a column are part."""
    lists = picked.column("columns").combine_chunks()
    named = pc.equal(lists.flatten(), column)
    owners = pc.filter(pc.list_parent_indices(lists), named).to_numpy()
    result = np.zeros(len(lists), bool)
    result[owners] = True
    return result


def _check_columns(columns: Mapping[str, str], schema: Schema) -> None:
    for name in columns:
        if name not in schema.by_name:
            raise InvalidArgumentError(
                f"the dataset has no column {name!r}",
                hints=(f"it has {', '.join(schema.names)}",),
            )
        if name in schema.key.names:
            raise InvalidArgumentError(f"column {name!r} is the key, which is never in conflict")


def _check_rows(picked: pa.Table, sides: set[str], labels: Sequence[str]) -> None:
    """Raise for a conflict that is not about the cells of a row that the sides have."""
    kinds = picked.column("kind").combine_chunks()
    deleted = np.flatnonzero(pc.equal(kinds, ConflictKind.EDIT_DELETE.value).to_pylist())
    if len(deleted):
        raise InvalidArgumentError(
            f"one side deleted {labels[deleted[0]]}, so its columns cannot be chosen one by one",
            hints=("resolve it with --with=ours, theirs, base or delete",),
        )
    if "base" in sides:
        fresh = np.flatnonzero(pc.is_null(_side(picked, "base")).to_pylist())
        if len(fresh):
            raise InvalidArgumentError(
                f"{labels[fresh[0]]} was inserted on both sides, so there is no base"
            )


# New keys for rows that both sides inserted under one key: beyond all that there are.
#
# The highest live key of either side comes from the statistics of data files where these
# say it exactly; a file with deleted rows is read, its key column alone.

_LAST: Mapping[Type, int] = {Primitive.INT: (1 << 31) - 1, Primitive.LONG: (1 << 63) - 1}


def has_counting_key(schema: Schema) -> bool:
    """Whether the key is one column of whole numbers."""
    return len(schema.key.fields) == 1 and schema.key.fields[0].type in _LAST


def next_key(repo: OpenRepo, state: MergeState, found: DatasetConflicts, count: int) -> int:
    """Return the first of `count` keys in a row that no row has or was given."""
    if found.rows is None:
        raise ValueError("there are no rows to renumber")
    (field,) = conflict_columns(found.rows).key.fields
    given = pc.max(pc.struct_field(found.rows.column("renumbered").combine_chunks(), field.name))
    sides = [repo.dataset(found.path, commit) for commit in (state.ours, state.theirs)]
    first = max(given.as_py() or 0, *(_highest(repo, view) for view in sides)) + 1
    if first + count - 1 > _LAST[field.type]:
        raise InvalidArgumentError(
            f"{found.path} has no keys left after {first - 1} to renumber rows with"
        )
    return first


def _highest(repo: OpenRepo, view: Dataset) -> int:
    """Return the highest key of a dataset, 0 without rows."""
    (field,) = view.key.fields
    files = view.in_files
    if files is None:
        with repo.settings.open_engine(view.size) as engine:
            keys = [
                pc.max(batch.column(0)).as_py() for batch in engine.run(view.scan([field.name]))
            ]
        return max((key for key in keys if key is not None), default=0)
    bounds = []
    for entry in files.data_entries:
        statistics = entry.statistics.get(field.id)
        upper = None if statistics is None else statistics.upper
        bounds.append((upper if isinstance(upper, int) else _LAST[Primitive.LONG], entry))
    best: int | None = None
    schema = view.schema.select((field.name,))
    for bound, entry in sorted(bounds, key=lambda each: (-each[0], each[1].file)):
        if best is not None and bound <= best:
            break
        if bound != _LAST[Primitive.LONG] and not files.deletes.get(entry.file):
            highest: int | None = bound
        else:
            with repo.settings.open_engine(entry.size) as engine:
                batches = list(engine.run(list(files.scan_file(entry, schema))))
            columns = [batch.column(0) for batch in batches]
            highest = pc.max(pa.chunked_array(columns, pa.int64())).as_py() if columns else None
        if highest is not None and (best is None or highest > best):
            best = highest
    return 0 if best is None else best


# A row that somebody wrote down to resolve a conflict: GeoJSON, Kart's JSON, or Python.
#
# It must have just the columns of the dataset, with values that they can hold. In a
# GeoJSON feature the geometry stands for the first geometry column; where the column
# keeps an SRID with each value, the one of the row in conflict is taken.

MOST_BYTES = 64 << 20
"""No row that somebody writes down is larger."""


def parse_rows(data: bytes, schema: Schema, like: pa.StructArray) -> list[pa.StructArray]:
    """Return the rows that a document holds; `like` is the row whose place they take."""
    if len(data) > MOST_BYTES:
        raise InvalidArgumentError("the file is too large for a row")
    try:
        value = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        reason = "it nests too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidArgumentError(f"the row is not JSON: {reason}") from error
    if not isinstance(value, dict):
        raise InvalidArgumentError(
            "the row is not a JSON object", hints=("give a GeoJSON feature, or {column: value, …}",)
        )
    if value.get("type") == "FeatureCollection" and isinstance(value.get("features"), list):
        features = value["features"]
        if len(features) > 2 or not all(isinstance(each, dict) for each in features):
            raise InvalidArgumentError(
                f"two features resolve a conflict at most, and there are {len(features)}"
            )
        return [_parsed_row(each, schema, like) for each in features]
    return [_parsed_row(value, schema, like)]


def _parsed_row(value: Mapping[str, Any], schema: Schema, like: pa.StructArray) -> pa.StructArray:
    geojson = value.get("type") == "Feature" and isinstance(value.get("properties"), dict | None)
    values = _feature_values(value, schema) if geojson else value
    _check_names(values, schema)
    columns = [_column(values[field.name], field, like) for field in schema.fields]
    return _checked(columns, schema)


def row_of(values: Mapping[str, Any], schema: Schema) -> pa.StructArray:
    """Return a row of Python values in the stored types."""
    _check_names(values, schema)
    columns = []
    for field in arrow_schema(schema):
        try:
            columns.append(pa.array([values[field.name]], field.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise SchemaViolationError(
                f"column {field.name!r} cannot hold {_short(values[field.name])}"
            ) from error
    return _checked(columns, schema)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _feature_values(feature: Mapping[str, Any], schema: Schema) -> dict[str, Any]:
    values = dict(feature.get("properties") or {})
    if schema.geometries:
        values[schema.geometries[0].name] = feature.get("geometry")
    elif feature.get("geometry") is not None:
        raise SchemaViolationError(
            "the feature has a geometry, and the dataset has no column for it"
        )
    return values


def _check_names(values: Mapping[str, Any], schema: Schema) -> None:
    unknown = sorted(set(values) - set(schema.names))
    if unknown:
        raise SchemaViolationError(
            f"the row has a column {unknown[0]!r}, and the dataset has none of that name",
            hints=(f"its columns are {', '.join(schema.names)}",),
        )
    missing = [name for name in schema.names if name not in values]
    if missing:
        raise SchemaViolationError(
            f"the row has no value for the column {missing[0]!r}",
            hints=("write null for no value",),
        )


def _column(value: Any, field: Field, like: pa.StructArray) -> pa.Array:
    if field.geometry is None or not isinstance(value, dict):
        try:
            return json_column([value], field, lambda _, name: f"column {name!r} of the row")
        except HavasuError as error:
            raise SchemaViolationError(error.message) from error
    try:
        wkb = parse_geojson(pa.array([json.dumps(value)]))
        encoding = field.geometry.encoding
        _, srids = to_canonical(pc.struct_field(like, field.name), encoding)
        return pc.cast(from_canonical(wkb, srids, encoding), arrow_field(field).type)
    except (HavasuError, ValueError, RecursionError) as error:
        raise SchemaViolationError(
            f"column {field.name!r} of the row is no geometry that it can hold: {error}"
        ) from error


def _checked(columns: list[pa.Array], schema: Schema) -> pa.StructArray:
    for field, column in zip(schema.fields, columns, strict=True):
        if field.required and column.null_count:
            raise SchemaViolationError(
                f"the row has no value in the required column {field.name!r}"
            )
    fields = [arrow_field(field).with_nullable(True) for field in schema.fields]
    return pa.StructArray.from_arrays(columns, fields=fields)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
