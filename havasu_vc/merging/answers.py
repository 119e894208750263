"""What conflicts of rows are resolved with: a side, cells from sides, a row, a new key.

All conflicts that were chosen are answered at once, as columns. An answer that makes no
sense for one of them is refused with its label, and nothing is answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.errors import InvalidArgumentError, SchemaViolationError
from havasu_vc.history.merging import ConflictKind
from havasu_vc.merging.written_rows import parse_row, row_of
from havasu_vc.model import kernels as pc
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass

__all__ = ["CHOICES", "Resolution", "answer"]

CHOICES = ("ours", "theirs", "base", "delete")
"""What the whole of something in conflict may become."""
SIDES = ("ours", "theirs", "base")


@dataclass(frozen=True, slots=True)
class Resolution:
    """How conflicts are to be resolved."""

    choice: str | None = None
    """`ours`, `theirs`, `base` or `delete`: the whole row as it is there. With `columns`, the side
    of cells in conflict that these do not name."""
    columns: Mapping[str, str] | None = None
    """The side of the cells of some columns; cells that are not in conflict are merged."""
    row: Mapping[str, Any] | None = None
    """The row itself, for a single conflict."""
    document: bytes | None = None
    """The row as a GeoJSON feature or as Kart's JSON, for a single conflict."""
    renumber: str | None = None
    """`ours` or `theirs`: that side's row gets the next free key, and both rows stand."""

    @property
    def gives_row(self) -> bool:
        """Whether it is the row itself."""
        return self.row is not None or self.document is not None

    def check(self) -> None:
        """Raise unless it says one thing that makes sense."""
        if self.choice is not None and self.choice not in CHOICES:
            raise InvalidArgumentError(
                f"conflicts cannot be resolved with {self.choice!r}",
                hints=(f"choose {', '.join(CHOICES)}",),
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


def answer(
    picked: pa.Table,
    schema: Schema,
    resolution: Resolution,
    labels: Sequence[str],
    *,
    first_key: int | None = None,
) -> dict[str, pa.Array]:
    """Return the columns `resolution`, `result` and `renumbered` of some conflicts.

    `labels` are what they are called in messages; `first_key` is the first free key.
    """
    type_ = picked.schema.field("result").type
    if not schema.key and resolution.choice not in SIDES:
        raise InvalidArgumentError(
            f"{labels[0]} is about how often a row is there: it is resolved with ours, theirs or"
            " base"
        )
    renumbered = pa.nulls(len(labels), type_)
    if resolution.renumber is not None:
        how = "renumber"
        other = "theirs" if resolution.renumber == "ours" else "ours"
        result = _side(picked, other)
        renumbered = _with_keys(_side(picked, resolution.renumber), schema, first_key or 0)
    elif resolution.gives_row:
        how, result = "row", _given(picked, schema, resolution, labels)
    elif resolution.columns:
        how, result = "columns", _mixed(picked, schema, resolution, labels)
    else:
        how = resolution.choice or ""
        result = pa.nulls(len(labels), type_) if how == "delete" else _side(picked, how)
    said = pa.array([how] * len(labels), pa.string())
    return {"resolution": said, "result": result, "renumbered": renumbered}


def _side(picked: pa.Table, name: str) -> pa.StructArray:
    return picked.column(name).combine_chunks()


def _with_keys(rows: pa.StructArray, schema: Schema, first: int) -> pa.StructArray:
    (name,) = schema.key.names
    columns = [
        pa.array(np.arange(first, first + len(rows)), field.type) if field.name == name else column
        for field, column in zip(rows.type, rows.flatten(), strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(rows.type))


def _given(
    picked: pa.Table, schema: Schema, resolution: Resolution, labels: Sequence[str]
) -> pa.StructArray:
    if len(labels) != 1:
        raise InvalidArgumentError(
            f"a row resolves one conflict, and {len(labels):,} are meant",
            hints=(f"name one by its label, such as {labels[0]}",),
        )
    if resolution.document is not None:
        like = next(_side(picked, s) for s in SIDES if pc.is_valid(_side(picked, s))[0].as_py())
        row = parse_row(resolution.document, schema, like)
    else:
        row = row_of(resolution.row or {}, schema)
    rows = [_side(picked, side) for side in SIDES]
    for field in schema.key.fields:
        key = pc.coalesce(*(pc.struct_field(each, field.name) for each in rows))
        given = pc.struct_field(row, field.name)
        if not pc.cast(given, key.type).equals(key):
            raise SchemaViolationError(
                f"the row has {given[0].as_py()!r} as its {field.name!r}, so it is not {labels[0]}",
            )
    return row


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
            cells = pc.if_else(pa.array(clash), other, cells)
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
