"""Pairing rows of two sides by key, into change batches.

Both sides fit in memory here; whoever calls has cut them to the same interval of keys.
Within a side keys are unique. Rows equal on both sides vanish. Without a key, equal
rows are paired one to one and what is left over was deleted or inserted.

Which cells and rows of two aligned batches are equal.

Equal means the same value: geometries by coordinates and SRID whatever their bytes,
floats by their bits except that every NaN equals every other, nested values part by
part. A null equals a null and nothing else.

Changes before they are applied: in the columns of the dataset, each key once, in order.

This is common to all kinds of dataset, whatever they keep rows in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys
from havasu_vc.errors import KeyViolationError, SchemaViolationError
from havasu_vc.geo.wkb import equal as equal_geometries
from havasu_vc.model import compute as pc
from havasu_vc.model.arrays import arrow_array, ascending_order
from havasu_vc.model.arrow import arrow_schema, arrow_type
from havasu_vc.model.changes import MOST_BATCH_BYTES, ChangeBatch, struct_of
from havasu_vc.model.evolution import widens
from havasu_vc.model.hashing import Hashes
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Decimal, Field, List, Map, Primitive, Struct, Type

__all__ = [
    "Mask",
    "alike",
    "check_order",
    "column_codes",
    "comparable",
    "conform",
    "describe_key",
    "equal_columns",
    "equal_rows",
    "key_codes",
    "nth_equal",
    "pair_rows",
    "partners",
    "row_hashes",
    "same_key",
    "sort_by_key",
    "unpaired_rows",
]

Indices = npt.NDArray[np.int64]
_ABSENT = -1
_MOST_ROWS = 1 << 16


def pair_rows(
    old: pa.RecordBatch,
    new: pa.RecordBatch,
    old_schema: Schema,
    new_schema: Schema,
    *,
    equal_ones: bool = False,
) -> Iterator[ChangeBatch]:
    """Yield, in key order, the changes that turn the old rows into the new ones.

    With `equal_ones` rows with one key are a change also where nothing in them differs.
    """
    if same_key(old_schema, new_schema):
        first, second = _pair_by_key(old, new, old_schema, new_schema, equal_ones)
        order = _key_order(old, new, first, second, old_schema, new_schema)
    else:
        first, second, order = _pair_by_row(old, new, old_schema, new_schema)
    yield from _taken(old, new, first[order], second[order])


def same_key(old: Schema, new: Schema) -> bool:
    """Whether rows of two versions are told apart by the same columns, and by any."""
    if not new.key or set(old.identifier_ids) != set(new.identifier_ids):
        return False
    return all(comparable(old.by_id[f.id].type, f.type) for f in new.key.fields)


def sort_by_key(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return rows in key order."""
    names = schema.key.names
    if rows.num_rows < 2 or not names:
        return rows
    order = ascending_order(rows.select(list(names)))
    return pc.take(rows, arrow_array(order))


def _pair_by_key(
    old: pa.RecordBatch,
    new: pa.RecordBatch,
    old_schema: Schema,
    new_schema: Schema,
    equal_ones: bool,
) -> tuple[Indices, Indices]:
    """Return, for each change, the row on either side; equal pairs are left out unless wanted."""
    partner = partners(old, new, old_schema, new_schema)
    paired = np.flatnonzero(partner >= 0)
    left, right = partner[paired], paired
    aligned = len(left) == old.num_rows and bool((left == np.arange(len(left))).all())
    if equal_ones:
        same = np.zeros(len(left), bool)
    else:
        same = equal_rows(
            old if aligned else pc.take(old, arrow_array(left)),
            new if len(right) == new.num_rows else pc.take(new, arrow_array(right)),
            old_schema,
            new_schema,
        )
    inserted = np.flatnonzero(partner < 0)
    gone = np.ones(old.num_rows, bool)
    gone[left] = False
    deleted = np.flatnonzero(gone)
    none = np.full
    first = np.concatenate([left[~same], none(len(inserted), _ABSENT), deleted])
    second = np.concatenate([right[~same], inserted, none(len(deleted), _ABSENT)])
    return first.astype(np.int64), second.astype(np.int64)


def partners(
    old: pa.RecordBatch, new: pa.RecordBatch, old_schema: Schema, new_schema: Schema
) -> Indices:
    """Return, for each new row, which old row has its key; -1 where none has."""
    before, after = key_codes(old, new, old_schema, new_schema)
    if len(before) == len(after) and before.equals(after):
        return np.arange(len(after), dtype=np.int64)
    if pa.types.is_integer(after.type) and not before.null_count and not after.null_count:
        numbers, others = before.to_numpy(), after.to_numpy()
        if len(numbers) and _ascends(numbers) and _ascends(others):
            # A third of what a table of hashes takes.
            places = np.searchsorted(numbers, others)
            places[places == len(numbers)] = 0
            return np.where(numbers[places] == others, places, _ABSENT)
    found = pc.index_in(after, value_set=before)
    partner: Indices = pc.fill_null(found, _ABSENT).to_numpy().astype(np.int64)
    return partner


def _ascends(numbers: npt.NDArray[np.integer]) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def key_codes(
    old: pa.RecordBatch, new: pa.RecordBatch, old_schema: Schema, new_schema: Schema
) -> tuple[pa.Array, pa.Array]:
    """Return one column of each side that is equal exactly where keys are."""
    columns = []
    for field in new_schema.key.fields:
        after = new.column(field.name)
        before = old.column(old_schema.by_id[field.id].name)
        columns.append(alike(before, after))
    return column_codes(columns)


def column_codes(columns: Sequence[tuple[pa.Array, pa.Array]]) -> tuple[pa.Array, pa.Array]:
    """Return one column of each side that is equal exactly where all of some columns are."""
    if len(columns) == 1:
        return columns[0]
    count = len(columns[0][0])
    codes = np.zeros(count + len(columns[0][1]), np.int64)
    for before, after in columns:
        encoded = pc.dictionary_encode(pa.concat_arrays([before, after]))
        codes *= max(len(encoded.dictionary), 1)
        codes += encoded.indices.to_numpy()
        # Codes stay small however many columns there are.
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return arrow_array(codes[:count]), arrow_array(codes[count:])


def _key_order(
    old: pa.RecordBatch,
    new: pa.RecordBatch,
    first: Indices,
    second: Indices,
    old_schema: Schema,
    new_schema: Schema,
) -> Indices:
    from_new = second >= 0
    columns = []
    for field in new_schema.key.fields:
        before, after = alike(old.column(old_schema.by_id[field.id].name), new.column(field.name))
        both = pa.concat_arrays([before, after])
        columns.append(pc.take(both, arrow_array(np.where(from_new, second + len(before), first))))
    keys = pa.RecordBatch.from_arrays(columns, [str(i) for i in range(len(columns))])
    return ascending_order(keys)


def _pair_by_row(
    old: pa.RecordBatch, new: pa.RecordBatch, old_schema: Schema, new_schema: Schema
) -> tuple[Indices, Indices, Indices]:
    before = row_hashes(old, old_schema, new_schema)
    after = row_hashes(new, new_schema, new_schema)
    deleted, inserted = _unpaired(old, new, before, after, old_schema, new_schema)
    first = np.concatenate([deleted, np.full(len(inserted), _ABSENT)]).astype(np.int64)
    second = np.concatenate([np.full(len(deleted), _ABSENT), inserted]).astype(np.int64)
    order = np.argsort(np.concatenate([before[deleted], after[inserted]]), kind="stable")
    return first, second, order


def unpaired_rows(
    old: pa.RecordBatch, new: pa.RecordBatch, old_schema: Schema, new_schema: Schema
) -> tuple[Indices, Indices]:
    """Return the old rows without a key that no new row equals, and the new ones left over."""
    before = row_hashes(old, old_schema, new_schema)
    after = row_hashes(new, new_schema, new_schema)
    return _unpaired(old, new, before, after, old_schema, new_schema)


def _unpaired(
    old: pa.RecordBatch,
    new: pa.RecordBatch,
    before: Hashes,
    after: Hashes,
    old_schema: Schema,
    new_schema: Schema,
) -> tuple[Indices, Indices]:
    # Hashes only propose pairs; rows decide.
    partner = nth_equal(before, after)
    paired = np.flatnonzero(partner >= 0)
    same = equal_rows(
        pc.take(old, arrow_array(partner[paired])),
        pc.take(new, arrow_array(paired)),
        old_schema,
        new_schema,
    )
    matched_old = partner[paired[same]]
    matched_new = paired[same]
    deleted = np.setdiff1d(np.arange(old.num_rows), matched_old)
    return deleted, np.setdiff1d(np.arange(new.num_rows), matched_new)


def row_hashes(rows: pa.RecordBatch, schema: Schema, new: Schema) -> Hashes:
    """Return the hash of each row as a whole, over the columns that the new version has.

    It proposes pairs among rows without a key. A null counts nothing, so that an old row
    hashes like the same row in which added columns are null.
    """
    shared = Schema(tuple(field for field in schema.fields if field.id in new.by_id))
    return hash_keys(rows.select(list(shared.names)), shared)


def nth_equal(before: Hashes, after: Hashes) -> Indices:
    """Return, for the nth row of a hash on one side, the nth of that hash on the other."""
    order = np.argsort(before, kind="stable")
    ordered = before[order]
    mine = np.argsort(after, kind="stable")
    own = after[mine]
    rank = np.empty(len(after), np.int64)
    rank[mine] = np.arange(len(after)) - np.searchsorted(own, own, "left")
    starts = np.searchsorted(ordered, after, "left")
    counts = np.searchsorted(ordered, after, "right") - starts
    partner = np.full(len(after), _ABSENT, np.int64)
    there = rank < counts
    partner[there] = order[starts[there] + rank[there]]
    return partner


def _taken(
    old: pa.RecordBatch, new: pa.RecordBatch, first: Indices, second: Indices
) -> Iterator[ChangeBatch]:
    width = (old.nbytes + new.nbytes) // max(old.num_rows + new.num_rows, 1) + 1
    step = max(min(_MOST_ROWS, MOST_BATCH_BYTES // (2 * width)), 1)
    for start in range(0, len(first), step):
        yield ChangeBatch.from_structs(
            _side(old, first[start : start + step]), _side(new, second[start : start + step])
        )


def _side(rows: pa.RecordBatch, indices: Indices) -> pa.StructArray:
    absent = indices < 0
    if not absent.any():
        return struct_of(pc.take(rows, arrow_array(indices)))
    if absent.all():
        return pa.nulls(len(indices), pa.struct(list(rows.schema)))
    taken = pc.take(rows, arrow_array(indices, absent=absent))
    return struct_of(taken, mask=arrow_array(absent))


Mask = npt.NDArray[np.bool_]


def equal_rows(
    old: pa.RecordBatch, new: pa.RecordBatch, old_schema: Schema, new_schema: Schema
) -> Mask:
    """Return which rows are equal: in all columns that both schemas have, and null in added ones.

    A column that only the old schema has counts for nothing, as dropping it changes no row.
    """
    same = np.ones(old.num_rows, bool)
    for index, field in enumerate(new_schema.fields):
        column = new.column(index)
        before = old_schema.by_id.get(field.id)
        if before is None:
            if column.null_count < len(column):
                same &= ~_valid(column)
            continue
        same &= equal_columns(old.column(before.name), column, before, field)
    return same


def equal_columns(old: pa.Array, new: pa.Array, before: Field, field: Field) -> Mask:
    """Return which values of two aligned columns are equal."""
    geometries = before.geometry is not None and field.geometry is not None
    if not (geometries or comparable(before.type, field.type)):
        return ~(_valid(old) | _valid(new))
    # Array.equals holds NaN to differ from itself, so only a yes can be trusted.
    if old.equals(new):
        return np.ones(len(old), bool)
    if before.raster is not None and field.raster is not None:
        before = field  # parts of both stand in one order, whatever their ids are
    if before.geometry is not None and field.geometry is not None:
        same = equal_geometries(old, new, before.geometry.encoding, field.geometry.encoding)
        return _both(same, old, new)
    if not pa.types.is_nested(new.type):
        old, new = alike(old, new)
    match field.type:
        case Struct(fields) if isinstance(before.type, Struct):
            return _equal_structs(old, new, before.type.fields, fields)
        case List(element) if isinstance(before.type, List):
            return _equal_lists(old, new, ((old.values, new.values, before.type.element, element),))
        case Map(key, value) if isinstance(before.type, Map):
            parts = (
                (old.keys, new.keys, before.type.key, key),
                (old.items, new.items, before.type.value, value),
            )
            return _equal_lists(old, new, parts)
        case Primitive.FLOAT | Primitive.DOUBLE:
            return _both(_equal_floats(old, new), old, new)
        case _:
            return _both(pc.equal(old, new), old, new)


def comparable(one: Type, other: Type) -> bool:
    """Whether values of two types can be equal: one is the other, or is widened to it.

    Tables that were made apart may have one field id for columns of any types.
    """
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return one.scale == other.scale
    if isinstance(one, Struct | List | Map):
        return type(one) is type(other)
    return widens(one, other) or widens(other, one)


def alike(old: pa.Array, new: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return two columns of one field in one type, the wider of theirs: either may be older."""
    if old.type == new.type:
        return old, new
    first, second = old.type, new.type
    if pa.types.is_decimal(first) and pa.types.is_decimal(second):
        wider = first if first.precision > second.precision else second
    elif pa.types.is_primitive(first) and pa.types.is_primitive(second):
        wider = first if first.bit_width > second.bit_width else second
    else:
        wider = second
    return pc.cast(old, wider), pc.cast(new, wider)


def _valid(column: pa.Array) -> Mask:
    valid: Mask = pc.is_valid(column).to_numpy(zero_copy_only=False)
    return valid


def _both(same: pa.BooleanArray, old: pa.Array, new: pa.Array) -> Mask:
    if not (old.null_count or new.null_count):
        result: Mask = same.to_numpy(zero_copy_only=False)
        return result
    equal: Mask = pc.fill_null(same, False).to_numpy(zero_copy_only=False)
    first, second = _valid(old), _valid(new)
    return (equal & first & second) | ~(first | second)


def _equal_floats(old: pa.Array, new: pa.Array) -> pa.BooleanArray:
    bits = pa.int32() if pa.types.is_float32(new.type) else pa.int64()
    nan = pc.and_(pc.is_nan(old), pc.is_nan(new))
    return pc.or_(pc.equal(old.view(bits), new.view(bits)), nan)


def _equal_structs(
    old: pa.StructArray, new: pa.StructArray, before: tuple[Field, ...], fields: tuple[Field, ...]
) -> Mask:
    known = {field.id: (field, child) for field, child in zip(before, old.flatten(), strict=True)}
    same = np.ones(len(new), bool)
    for field, child in zip(fields, new.flatten(), strict=True):
        if field.id in known:
            was, values = known[field.id]
            same &= equal_columns(values, child, was, field)
        else:
            same &= ~_valid(child)
    first, second = _valid(old), _valid(new)
    return (same & first & second) | ~(first | second)


def _equal_lists(
    old: pa.Array, new: pa.Array, parts: tuple[tuple[pa.Array, pa.Array, Field, Field], ...]
) -> Mask:
    first, second = _valid(old), _valid(new)
    starts = [side.offsets.to_numpy().astype(np.int64) for side in (old, new)]
    lengths = [np.diff(offsets) for offsets in starts]
    candidates = np.flatnonzero(first & second & (lengths[0] == lengths[1]))
    counts = lengths[0][candidates]
    same = ~(first | second)
    same[candidates] = True
    if not counts.sum():
        return same
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    rows = np.repeat(candidates, counts)
    index = [pa.array(np.repeat(offsets[:-1][candidates], counts) + within) for offsets in starts]
    for left, right, before, field in parts:
        equal = equal_columns(pc.take(left, index[0]), pc.take(right, index[1]), before, field)
        same[rows[~equal]] = False
    return same


def conform(rows: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
    """Return rows in the columns of a schema, matched by name; required ones must be there."""
    target = arrow_schema(schema)
    if rows.schema.names != list(schema.names):
        missing = [name for name in schema.names if name not in rows.schema.names]
        if missing or rows.num_columns != len(schema.names):
            raise SchemaViolationError(
                f"rows have the columns {', '.join(rows.schema.names)}, "
                f"the dataset has {', '.join(schema.names)}"
            )
        rows = rows.select(list(schema.names))
    columns = [_cast(column, field) for column, field in zip(rows.columns, target, strict=True)]
    rows = pa.RecordBatch.from_arrays(columns, schema=target)
    keys = set(schema.identifier_ids)
    for field, column in zip(schema.fields, rows.columns, strict=True):
        if field.required and column.null_count:
            if field.id in keys:
                raise KeyViolationError(f"a row has no value in its key column {field.name!r}")
            raise SchemaViolationError(f"a row has no value in the required column {field.name!r}")
    return rows


def check_order(
    batch: ChangeBatch, last: pa.RecordBatch | None, before: Schema, after: Schema
) -> pa.RecordBatch | None:
    """Raise unless each key of a stream comes once, in order; return the last one.

    `last` is what the batch before gave; the schemas are those of the two sides.
    """
    if not after.key:
        return None
    columns = []
    for field in after.key.fields:
        new = _column(batch.new, field.name, arrow_type(field.type))
        was = before.by_id[field.id]
        columns.append(pc.coalesce(new, _column(batch.old, was.name, new.type)))
    names = list(after.key.names)
    if any(column.null_count for column in columns):
        raise KeyViolationError(f"a row has no value in its key columns {', '.join(names)}")
    keys = pa.RecordBatch.from_arrays(columns, names)
    whole = keys if last is None else pa.concat_batches([last, keys])
    left, right = whole.slice(0, whole.num_rows - 1), whole.slice(1)
    less, equal = np.zeros(left.num_rows, bool), np.ones(left.num_rows, bool)
    for first, second in zip(left.columns, right.columns, strict=True):
        less |= equal & pc.less(first, second).to_numpy(zero_copy_only=False)
        equal &= pc.equal(first, second).to_numpy(zero_copy_only=False)
    if equal.any():
        where = int(np.flatnonzero(equal)[0])
        key = describe_key(tuple(column[where].as_py() for column in whole.columns))
        raise KeyViolationError(f"the key {key} comes twice")
    if not less.all():
        raise ValueError("changes are not in key order")
    return keys.slice(keys.num_rows - 1)


def _column(side: pa.StructArray, name: str, type_: pa.DataType) -> pa.Array:
    """Return one column of a side; nulls where the side has none, as when it is all inserts."""
    if name not in side.type.names:
        return pa.nulls(len(side), type_)
    try:
        return pc.cast(pc.struct_field(side, name), type_)
    except pa.ArrowException as error:
        raise SchemaViolationError(f"a value does not fit column {name!r}: {error}") from error


def describe_key(key: tuple[object, ...]) -> str:
    """Return a key as people write it in a filter.

    >>> describe_key((7,)), describe_key(("a", 7)), describe_key(("a, b", 7))
    ('7', 'a,7', '"a, b",7')
    """
    values = [str(value) for value in key]
    if len(values) > 1:
        parting = ["," in value or value.startswith('"') for value in values]
        quoted = ['"' + value.replace('"', '""') + '"' for value in values]
        values = [q if parts else v for v, q, parts in zip(values, quoted, parting, strict=True)]
    return ",".join(values)


def _cast(column: pa.Array, field: pa.Field) -> pa.Array:
    if column.type == field.type:
        return column
    extra = _first_extra(column.type, field.type, field.name)
    if extra is not None:
        raise SchemaViolationError(f"rows have {extra!r}, which the dataset has not")
    try:
        return pc.cast(column, field.type)
    except pa.ArrowException as error:
        raise SchemaViolationError(
            f"column {field.name!r} is {field.type}, and a value does not fit: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _first_extra(came: pa.DataType, wanted: pa.DataType, name: str) -> str | None:
    """Return the first part of a struct that has no place, which a cast would leave out."""
    if pa.types.is_struct(came) and pa.types.is_struct(wanted):
        for part in came:
            index = wanted.get_field_index(part.name)
            inside = f"{name}.{part.name}"
            if index < 0:
                return inside
            found = _first_extra(part.type, wanted.field(index).type, inside)
            if found is not None:
                return found
        return None
    if pa.types.is_map(came) and pa.types.is_map(wanted):
        return _first_extra(came.item_type, wanted.item_type, name)
    if pa.types.is_list(came) and pa.types.is_list(wanted):
        return _first_extra(came.value_type, wanted.value_type, name)
    return None
