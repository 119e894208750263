"""Merging change streams: a table of cases run both ways, and laws against a plain model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from havasu_vc.datasets.pairing import pair_rows
from havasu_vc.history.conflicts import (
    DatasetConflicts,
    Glance,
    MergePolicy,
    MergeSchemas,
    MergeStep,
    Side,
    columns_back,
    dropped_and_edited,
    few_of,
    in_columns,
)
from havasu_vc.history.merge import merge_changes, with_renumbered
from havasu_vc.model.arrow import arrow_schema
from havasu_vc.model.changes import ChangeBatch, struct_of
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, List, Primitive, Struct
from tests.support.examples import examples

SCHEMA = Schema(
    (
        Field(1, "id", Primitive.LONG, required=True),
        Field(2, "name", Primitive.STRING),
        Field(3, "height", Primitive.INT),
    ),
    (1,),
)
BARE = Schema(SCHEMA.fields)
Table = Mapping[int, tuple[str | None, int | None]]
Conflict = tuple[str, tuple[str, ...], int]


def batch(table: Table, schema: Schema = SCHEMA) -> pa.RecordBatch:
    rows = [dict(zip(SCHEMA.names, (key, *row), strict=True)) for key, row in sorted(table.items())]
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(schema))


def stream(before: Table, after: Table, size: int = 1 << 16) -> Iterator[ChangeBatch]:
    for changes in pair_rows(batch(before), batch(after), SCHEMA, SCHEMA):
        for start in range(0, len(changes), size):
            yield changes.slice(start, min(size, len(changes) - start))


SAME = MergeSchemas(SCHEMA, SCHEMA, SCHEMA, SCHEMA)


def merged(
    base: Table, ours: Table, theirs: Table, policy: MergePolicy | None = None, size: int = 1 << 16
) -> tuple[dict[int, Any], list[Conflict]]:
    """Return ours with theirs brought in, and the conflicts."""
    result = dict(ours)
    conflicts: list[Conflict] = []
    steps = merge_changes(stream(base, ours, size), stream(base, theirs, size), SAME, policy)
    for step in steps:
        step.changes.data.validate(full=True)
        for change in step.changes.rows(("id",)):
            (key,) = change.key
            old = None if change.old is None else (change.old["name"], change.old["height"])
            assert ours.get(key) == old
            if change.new is None:
                del result[key]
            else:
                result[key] = (change.new["name"], change.new["height"])
        conflicts += [conflict_of(row) for row in step.conflicts.to_pylist()]
    return result, conflicts


def conflict_of(row: Mapping[str, Any]) -> Conflict:
    some = row["base"] or row["ours"] or row["theirs"]
    return row["kind"], tuple(row["columns"]), some["id"]


@dataclass(frozen=True)
class Case:
    name: str
    base: Table
    ours: Table
    theirs: Table
    expected: Table
    conflicts: tuple[Conflict, ...] = ()
    flipped: Table | None = None
    """What ours has after the merge the other way round, where that differs."""
    note: str = field(default="")


A, B, C = ("a", 1), ("b", 2), ("c", 3)
CASES = [
    Case("nothing", {1: A}, {1: A}, {1: A}, {1: A}),
    Case("theirs edits", {1: A}, {1: A}, {1: B}, {1: B}),
    Case("theirs inserts", {1: A}, {1: A}, {1: A, 2: B}, {1: A, 2: B}),
    Case("theirs deletes", {1: A, 2: B}, {1: A, 2: B}, {1: A}, {1: A}),
    Case("different rows", {1: A, 2: B}, {1: C, 2: B}, {1: A, 2: C}, {1: C, 2: C}),
    Case("different cells", {1: A}, {1: ("x", 1)}, {1: ("a", 9)}, {1: ("x", 9)}),
    Case("one edits a cell, one two", {1: A}, {1: ("x", 1)}, {1: ("x", 9)}, {1: ("x", 9)}),
    Case("the same edit", {1: A}, {1: B}, {1: B}, {1: B}),
    Case("the same insert", {}, {1: B}, {1: B}, {1: B}),
    Case("the same delete", {1: A}, {}, {}, {}),
    Case("to null and back", {1: (None, 1)}, {1: ("x", 1)}, {1: (None, 2)}, {1: ("x", 2)}),
    Case(
        "the same cell",
        {1: A},
        {1: ("x", 1)},
        {1: ("y", 1)},
        {1: ("x", 1)},
        (("same-cell", ("name",), 1),),
        {1: ("y", 1)},
    ),
    Case(
        "the same cell and another",
        {1: A},
        {1: ("x", 1)},
        {1: ("y", 5)},
        {1: ("x", 1)},
        (("same-cell", ("name",), 1),),
        {1: ("y", 5)},
    ),
    Case(
        "a cell set to null against an edit",
        {1: A},
        {1: (None, 1)},
        {1: ("y", 1)},
        {1: (None, 1)},
        (("same-cell", ("name",), 1),),
        {1: ("y", 1)},
    ),
    Case(
        "edit against delete",
        {1: A},
        {1: B},
        {},
        {1: B},
        (("edit/delete", (), 1),),
        {},
    ),
    Case(
        "different inserts",
        {},
        {1: ("x", 1)},
        {1: ("y", 1)},
        {1: ("x", 1)},
        (("insert/insert", ("name",), 1),),
        {1: ("y", 1)},
    ),
    Case(
        "a conflict stops nothing else",
        {1: A, 2: B, 3: C},
        {1: ("x", 1), 2: B, 3: C},
        {1: ("y", 1), 2: ("b", 7), 4: A},
        {1: ("x", 1), 2: ("b", 7), 4: A},
        (("same-cell", ("name",), 1),),
        {1: ("y", 1), 2: ("b", 7), 4: A},
    ),
]


@pytest.mark.parametrize("size", [1, 2, 1 << 16], ids=lambda size: f"batches of {size}")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_cases(case: Case, size: int) -> None:
    assert merged(case.base, case.ours, case.theirs, size=size) == (
        case.expected,
        list(case.conflicts),
    )
    flipped = case.expected if case.flipped is None else case.flipped
    result, conflicts = merged(case.base, case.theirs, case.ours, size=size)
    assert result == flipped
    assert [(kind, key) for kind, _, key in conflicts] == [
        (kind, key) for kind, _, key in case.conflicts
    ]


rows = st.tuples(st.sampled_from([None, "a", "b"]), st.sampled_from([None, 1, 2]))
tables = st.dictionaries(st.integers(0, 6), rows, max_size=7)
sizes = st.sampled_from([1, 2, 3, 100])


@given(base=tables, theirs=tables, size=sizes)
def test_merging_into_the_base_gives_theirs(base: Table, theirs: Table, size: int) -> None:
    assert merged(base, base, theirs, size=size) == (dict(theirs), [])


@given(base=tables, ours=tables)
def test_merging_the_base_changes_nothing(base: Table, ours: Table) -> None:
    assert merged(base, ours, base) == (dict(ours), [])


@given(base=tables, both=tables)
def test_merging_the_same_edits_changes_nothing(base: Table, both: Table) -> None:
    assert merged(base, both, both) == (dict(both), [])


def expected_cells(base: Table, ours: Table, theirs: Table) -> tuple[dict[int, Any], set[int]]:
    """Merge cell by cell, in plain Python."""
    result: dict[int, Any] = dict(ours)
    conflicts: set[int] = set()
    for key in base.keys() | ours.keys() | theirs.keys():
        b, o, t = base.get(key), ours.get(key), theirs.get(key)
        if t == b or o == t:
            continue
        if o == b:
            result.pop(key, None)
            if t is not None:
                result[key] = t
        elif o is None or t is None or b is None:
            conflicts.add(key)
        else:
            cells = []
            for before, mine, other in zip(b, o, t, strict=True):
                if mine == other or other == before:
                    cells.append(mine)
                elif mine == before:
                    cells.append(other)
                else:
                    conflicts.add(key)
            if key not in conflicts:
                result[key] = tuple(cells)
    return result, conflicts


@examples(300)
@given(base=tables, ours=tables, theirs=tables, size=sizes)
def test_cells_merge_as_in_a_plain_model(
    base: Table, ours: Table, theirs: Table, size: int
) -> None:
    wanted, conflicts = expected_cells(base, ours, theirs)

    result, found = merged(base, ours, theirs, size=size)

    assert result == wanted
    assert [key for _, _, key in found] == sorted(conflicts)


@examples(200)
@given(base=tables, ours=tables, theirs=tables)
def test_conflicts_are_the_same_from_both_sides(base: Table, ours: Table, theirs: Table) -> None:
    _, one = merged(base, ours, theirs)
    _, other = merged(base, theirs, ours)

    assert one == other


@examples(200)
@given(base=tables, ours=tables, theirs=tables)
def test_a_policy_leaves_no_conflict(base: Table, ours: Table, theirs: Table) -> None:
    plain, conflicts = merged(base, ours, theirs)
    for side, winner in ((Side.OURS, ours), (Side.THEIRS, theirs)):
        result, left = merged(base, ours, theirs, MergePolicy(side))
        assert left == []
        in_conflict = {key for _, _, key in conflicts}
        assert {k: v for k, v in result.items() if k not in in_conflict} == {
            k: v for k, v in plain.items() if k not in in_conflict
        }
        for kind, _, key in conflicts:
            if kind == "edit/delete":
                assert result.get(key) == winner.get(key)


def test_a_policy_for_one_column() -> None:
    policy = MergePolicy(columns={"name": Side.THEIRS})
    result, conflicts = merged({1: A}, {1: ("x", 5)}, {1: ("y", 6)}, policy)
    assert result == {1: ("x", 5)}
    assert conflicts == [("same-cell", ("height",), 1)]
    assert merged({1: A}, {1: ("x", 1)}, {1: ("y", 1)}, policy) == ({1: ("y", 1)}, [])


def test_a_null_yields_to_a_value() -> None:
    policy = MergePolicy(fill_nulls=True)
    assert merged({1: A}, {1: (None, 1)}, {1: ("y", 1)}, policy) == ({1: ("y", 1)}, [])
    assert merged({1: A}, {1: ("x", 1)}, {1: (None, 1)}, policy) == ({1: ("x", 1)}, [])


Bag = list[tuple[str | None, int | None]]


def bag_stream(before: Bag, after: Bag) -> list[ChangeBatch]:
    def rows_of(bag: Bag) -> pa.RecordBatch:
        rows = [{"id": 0, "name": name, "height": height} for name, height in bag]
        return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(BARE))

    return list(pair_rows(rows_of(before), rows_of(after), BARE, BARE))


def merged_bags(
    base: Bag, ours: Bag, theirs: Bag, policy: MergePolicy | None = None
) -> tuple[Bag, list[tuple[Any, bool, bool]]]:
    """Return ours with theirs brought in, and what conflicts: the row, and who has more of it."""
    schemas = MergeSchemas(BARE, BARE, BARE, BARE)
    mine, other = (iter(bag_stream(base, side)) for side in (ours, theirs))
    result, conflicts = list(ours), []
    for step in merge_changes(mine, other, schemas, policy):
        for change in step.changes.rows(()):
            if change.old is not None:
                result.remove((change.old["name"], change.old["height"]))
            if change.new is not None:
                result.append((change.new["name"], change.new["height"]))
        for row in step.conflicts.to_pylist():
            key = (row["base"]["name"], row["base"]["height"])
            conflicts.append((key, row["ours"] is not None, row["theirs"] is not None))
    return result, conflicts


bags = st.lists(rows, max_size=5)


@examples(100)
@given(base=bags, ours=bags, theirs=bags)
def test_a_policy_for_rows_without_a_key(base: Bag, ours: Bag, theirs: Bag) -> None:
    _, conflicts = merged_bags(base, ours, theirs)
    for row, mine, other in conflicts:
        assert mine == (ours.count(row) > base.count(row))
        assert other == (theirs.count(row) > base.count(row))
    for side, winner in ((Side.OURS, ours), (Side.THEIRS, theirs)):
        result, left = merged_bags(base, ours, theirs, MergePolicy(side=side))
        assert not left
        for row in {*base, *ours, *theirs}:
            b, o, t = base.count(row), ours.count(row), theirs.count(row)
            expected = t if o == b else o if t == b else winner.count(row)
            assert result.count(row) == expected


@examples(200)
@given(
    base=st.lists(rows, max_size=5),
    ours=st.lists(rows, max_size=5),
    theirs=st.lists(rows, max_size=5),
)
def test_without_a_key_counts_merge(base: Bag, ours: Bag, theirs: Bag) -> None:
    result, found = merged_bags(base, ours, theirs)
    conflicts = [row for row, _, _ in found]
    for row in set(base) | set(ours) | set(theirs):
        b, o, t = base.count(row), ours.count(row), theirs.count(row)
        if o == b or o == t or t == b:
            assert result.count(row) == (t if o == b else o)
            assert row not in conflicts
        else:
            assert result.count(row) == o
            assert row in conflicts


def test_rows_that_both_changed_are_whole_conflicts_where_that_is_wanted() -> None:
    whole = MergePolicy(whole=True)
    base = {1: A, 2: A, 3: A, 4: A, 5: A, 7: A}
    ours = {1: ("x", 1), 2: B, 3: B, 4: A, 6: ("x", 1), 7: ("x", 1)}
    theirs = {1: ("a", 9), 2: B, 3: A, 4: B, 5: B, 6: ("x", 1)}
    result, conflicts = merged(base, ours, theirs, whole)
    assert result == {**ours, 4: B}
    assert sorted((kind, key) for kind, _, key in conflicts) == [
        ("edit/delete", 5),
        ("edit/delete", 7),
        ("same-cell", 1),
    ]
    decided, left = merged(base, ours, theirs, MergePolicy(whole=True, side=Side.THEIRS))
    assert not left
    assert decided == {1: ("x", 9), 2: B, 3: B, 4: B, 5: B, 6: ("x", 1)}


PAIRS = Schema(
    (
        Field(1, "part", Primitive.STRING, required=True),
        Field(2, "number", Primitive.LONG, required=True),
        Field(3, "name", Primitive.STRING),
        Field(4, "height", Primitive.INT),
    ),
    (1, 2),
)


@examples(60)
@given(base=tables, ours=tables, theirs=tables, size=st.sampled_from([1, 2, 1 << 16]))
def test_keys_of_several_columns_are_keys(
    base: Table, ours: Table, theirs: Table, size: int
) -> None:
    """They merge as if they were one number."""

    def part(key: int) -> dict[str, Any]:
        return {"part": "abc"[key % 3], "number": key // 3}

    def batch_of(table: Table) -> pa.RecordBatch:
        found = [{**part(key), "name": row[0], "height": row[1]} for key, row in table.items()]
        found.sort(key=lambda row: (row["part"], row["number"]))
        return pa.RecordBatch.from_pylist(found, schema=arrow_schema(PAIRS))

    def changes(before: Table, after: Table) -> Iterator[ChangeBatch]:
        for found in pair_rows(batch_of(before), batch_of(after), PAIRS, PAIRS):
            for start in range(0, len(found), size):
                yield found.slice(start, min(size, len(found) - start))

    result = {tuple(part(key).values()): row for key, row in ours.items()}
    conflicts = []
    same = MergeSchemas(PAIRS, PAIRS, PAIRS, PAIRS)
    for step in merge_changes(changes(base, ours), changes(base, theirs), same):
        for change in step.changes.rows(("part", "number")):
            if change.new is None:
                del result[change.key]
            else:
                result[change.key] = (change.new["name"], change.new["height"])
        for row in step.conflicts.to_pylist():
            some = row["base"] or row["ours"] or row["theirs"]
            conflicts.append((row["kind"], tuple(row["columns"]), some["part"], some["number"]))
    expected, left = merged(base, ours, theirs)
    assert result == {tuple(part(key).values()): row for key, row in expected.items()}
    assert sorted(conflicts) == sorted((k, c, *part(key).values()) for k, c, key in left)


kinds = st.sampled_from(["edit/delete", "insert/insert", "same-cell"])


@given(batches=st.lists(st.lists(kinds, max_size=4), max_size=4), most=st.integers(0, 3))
def test_a_few_conflicts_of_each_kind_are_kept_and_all_counted(
    batches: list[list[str]], most: int
) -> None:
    numbered = [(kind, n, m) for n, each in enumerate(batches) for m, kind in enumerate(each)]
    given_ = [
        pa.RecordBatch.from_pydict(
            {"kind": pa.array(each, pa.string()), "at": [f"{n} {m}" for m in range(len(each))]},
            schema=pa.schema([("kind", pa.string()), ("at", pa.string())]),
        )
        for n, each in enumerate(batches)
    ]
    count, kept = few_of(given_, most)
    assert count == len(numbered)
    found = [at for batch in kept for at in batch.column("at").to_pylist()]
    first: dict[str, list[str]] = {}
    for kind, n, m in numbered:
        first.setdefault(kind, []).append(f"{n} {m}")
    assert found == sorted(at for each in first.values() for at in each[:most])
    assert all(batch.num_rows for batch in kept)
    glance = Glance(most)
    assert glance.few("points", given_) == glance.few("points", given_) == kept
    assert glance.rows == ({"points": 2 * count} if count else {})


def test_conflicts_are_those_of_rows_and_of_items() -> None:
    items = {"title": None, "schema.json": "ours"}
    found = DatasetConflicts("points", None, items)
    assert (found.total, found.unresolved, found.unresolved_items) == (2, 1, 1)
    rows = pa.table({"resolution": pa.array([None, "ours", None], pa.string())})
    found = DatasetConflicts("points", rows, items)
    assert (found.total, found.unresolved, found.unresolved_rows) == (5, 3, 2)
    assert DatasetConflicts("points", rows).total == 3


# What a merge says beside its result


def steps_of(base: Table, ours: Table, theirs: Table, size: int = 1 << 16) -> list[MergeStep]:
    return list(merge_changes(stream(base, ours, size), stream(base, theirs, size), SAME))


def test_rows_that_both_sides_changed_alike_are_no_change() -> None:
    base, both = {1: A, 2: A, 3: A}, {1: B, 2: A, 4: C}
    assert sum(len(step.changes) for step in steps_of(base, both, both)) == 0
    steps = steps_of(base, {**both, 2: C}, {**both, 5: C})
    assert [change.key for step in steps for change in step.changes.rows(("id",))] == [(5,)]


def test_a_conflict_has_what_is_merged_of_rows_that_both_sides_have() -> None:
    base = {1: A, 2: A, 3: A, 4: A}
    ours = {1: ("x", 1), 2: ("x", 1), 4: A, 9: ("x", 1)}
    theirs = {1: ("y", 7), 3: ("y", 1), 4: B, 9: ("y", 1)}
    (step,) = steps_of(base, ours, theirs)
    rows = {conflict_of(row)[2]: row for row in step.conflicts.to_pylist()}
    assert {key: row["kind"] for key, row in rows.items()} == {
        1: "same-cell",
        2: "edit/delete",
        3: "edit/delete",
        9: "insert/insert",
    }
    assert rows[1]["merged"] == {"id": 1, "name": "x", "height": 7}
    assert (rows[2]["merged"], rows[3]["merged"]) == (None, None)
    # Our side's row of each, which has none where ours deleted it.
    assert step.current is not None
    now = [None if row is None else (row["id"], row["name"]) for row in step.current.to_pylist()]
    assert now == [(1, "x"), (2, "x"), None, (9, "x")]


def test_a_null_of_a_row_that_both_inserted_is_a_value_where_both_have_the_column() -> None:
    (step,) = steps_of({}, {1: (None, 1)}, {1: ("x", 1)})
    assert [conflict_of(row) for row in step.conflicts.to_pylist()] == [
        ("insert/insert", ("name",), 1)
    ]
    # What a side does not have says nothing.
    wider = Schema((*SCHEMA.fields, Field(4, "kind", Primitive.STRING)), (1,))

    def inserted(schema: Schema, **more: str) -> ChangeBatch:
        row = {"id": 1, "name": "a", "height": 1, **more}
        come = pa.RecordBatch.from_pylist([row], schema=arrow_schema(schema))
        none = pa.RecordBatch.from_pylist([], schema=arrow_schema(SCHEMA))
        (found,) = pair_rows(none, come, SCHEMA, schema)
        return found

    for ours, theirs in ((wider, SCHEMA), (SCHEMA, wider)):
        both = [
            inserted(each, **({"kind": "k"} if each is wider else {})) for each in (ours, theirs)
        ]
        schemas = MergeSchemas(SCHEMA, ours, theirs, wider)
        (step,) = merge_changes(iter(both[:1]), iter(both[1:]), schemas)
        assert not len(step.conflicts)
        # Ours has it already, or gets it.
        kinds = [change.new and change.new["kind"] for change in step.changes.rows(("id",))]
        assert kinds == ([] if ours is wider else ["k"])


def test_a_row_of_which_both_have_more_is_shown_on_both_sides() -> None:
    schemas = MergeSchemas(BARE, BARE, BARE, BARE)
    for more, other in ((1, 2), (2, 1), (1, 3), (3, 1)):
        mine, theirs = (iter(bag_stream([], [A] * count)) for count in (more, other))
        (step,) = merge_changes(mine, theirs, schemas)
        (row,) = step.conflicts.to_pylist()
        assert (row["ours"]["name"], row["theirs"]["name"]) == ("a", "a")
        assert (row["ours_count"], row["theirs_count"]) == (more, other)


@pytest.mark.parametrize("size", [1, 2, 3, 1 << 16])
def test_rows_with_another_key_come_in_their_order(size: int) -> None:
    base = dict.fromkeys((1, 4, 6, 8, 12), A)
    changes = stream(base, dict.fromkeys(base, B), size)
    come = [0, 3, 5, 7, 9, 20, 21]
    more = [{"id": key, "name": "new", "height": 0} for key in [*come[3:], *come[:3]]]
    type_ = pa.struct(list(arrow_schema(SCHEMA)))
    rows = pa.table({"renumbered": pa.array([None, *more, None], type_)})
    found = list(with_renumbered(changes, rows, SAME))
    keys = [change.key[0] for batch in found for change in batch.rows(("id",))]
    assert keys == sorted([*base, *come])
    assert [batch.data.num_rows > 0 for batch in found] == [True] * len(found)
    none = pa.table({"renumbered": pa.array([None], type_)})
    assert len(list(with_renumbered(stream(base, {}, 2), none, SAME))) == 3
    few = pa.table({"renumbered": pa.array(more[-3:], type_)})
    found = list(with_renumbered(stream(base, {}, 1), few, SAME))
    keys = [change.key[0] for batch in found for change in batch.rows(("id",))]
    assert keys == sorted([*base, *come[:3]])


INSIDE = (Field(12, "a", Primitive.INT), Field(13, "b", Primitive.INT))
NESTED = Schema(
    (
        Field(1, "id", Primitive.LONG, required=True),
        Field(2, "n", Primitive.INT),
        Field(3, "m", Primitive.INT),
        Field(4, "s", Struct(INSIDE)),
        Field(
            5,
            "l",
            List(
                Field(
                    15,
                    "element",
                    Struct((Field(16, "p", Primitive.INT), Field(17, "q", Primitive.INT))),
                )
            ),
        ),
    ),
    (1,),
)


def edits_of(*changed: dict[str, Any]) -> list[ChangeBatch]:
    """Return a batch for each row in which a cell is another than in the row that is there."""
    found = []
    for key, cells in enumerate(changed):
        row = {"id": key, "n": 1, "m": 1, "s": {"a": 1, "b": 1}, "l": [{"p": 1, "q": 1}]}
        old, new = (
            pa.RecordBatch.from_pylist([each], schema=arrow_schema(NESTED))
            for each in (row, {**row, **cells})
        )
        found += list(pair_rows(old, new, NESTED, NESTED))
    return found


def without(*numbers: int) -> Schema:
    """Return the nested schema without some columns or parts."""

    def fields(those: tuple[Field, ...]) -> tuple[Field, ...]:
        kept = []
        for each in those:
            if each.id in numbers:
                continue
            if isinstance(each.type, Struct):
                each = replace(each, type=Struct(fields(each.type.fields)))
            elif isinstance(each.type, List):
                each = replace(each, type=List(fields((each.type.element,))[0]))
            kept.append(each)
        return tuple(kept)

    return Schema(fields(NESTED.fields), (1,))


@pytest.mark.parametrize(
    ("dropped", "changed", "found"),
    [
        ((2, 3), ({"n": 2}, {"m": 2}), {2, 3}),
        ((2, 3), ({"m": 2}, {"s": None}), {3}),
        ((2, 3), ({}, {"m": 2}, {}, {"n": 2}), {2, 3}),
        ((13,), ({"s": {"a": 2, "b": 1}},), set()),
        ((13,), ({"s": {"a": 1, "b": 2}},), {13}),
        ((12,), ({"s": {"a": 2, "b": 1}},), {12}),
        ((12,), ({"s": {"a": 1, "b": 2}},), set()),
        ((17,), ({"l": [{"p": 1, "q": 2}]},), {17}),
        ((17,), ({"l": [{"p": 2, "q": 1}]},), set()),
        ((4, 17), ({"s": {"a": 2, "b": 1}}, {"l": [{"p": 1, "q": None}]}), {4, 17}),
    ],
)
def test_what_was_dropped_on_one_side_and_edited_on_the_other(
    dropped: tuple[int, ...], changed: tuple[dict[str, Any], ...], found: set[int]
) -> None:
    changes = edits_of(*changed)
    assert dropped_and_edited(NESTED, without(*dropped), NESTED, lambda: iter(changes)) == found
    assert dropped_and_edited(NESTED, NESTED, NESTED, lambda: pytest.fail("looked at")) == set()


def test_rows_come_in_wider_types() -> None:
    wider = Schema((replace(BARE.fields[2], type=Primitive.LONG), BARE.fields[1]))
    rows = in_columns(struct_of(batch({1: A})), SCHEMA, wider)
    assert rows.to_pylist() == [{"height": 1, "name": "a"}]
    assert rows.schema.field(0).type == pa.int64()
    assert all(field.nullable for field in rows.schema)


def test_the_second_column_of_a_key_counts_where_the_first_is_the_same() -> None:
    part = Field(4, "part", Primitive.INT, required=True)
    schema = Schema((SCHEMA.fields[0], part, SCHEMA.fields[1]), (1, 4))
    keys = [(0, 9), (1, 5), (1, 6), (2, 0)]

    def side(**names: str) -> Iterator[ChangeBatch]:
        rows = [{"id": one, "part": two, "name": "a"} for one, two in keys]
        new = [{**row, "name": names.get(f"at_{number}", "a")} for number, row in enumerate(rows)]
        old, now = (
            pa.RecordBatch.from_pylist(each, schema=arrow_schema(schema)) for each in (rows, new)
        )
        yield from pair_rows(old, now, schema, schema)

    schemas = MergeSchemas(schema, schema, schema, schema)
    for one, other in (((0, 1), (1,)), ((1,), (0, 1)), ((0, 2, 3), (1, 2)), ((1, 2), (0, 2, 3))):
        mine = side(**{f"at_{number}": "x" for number in one})
        theirs = side(**{f"at_{number}": "y" for number in other})
        steps = list(merge_changes(mine, theirs, schemas))
        found = [row["ours"] for step in steps for row in step.conflicts.to_pylist()]
        both = sorted(set(one) & set(other))
        assert [(row["id"], row["part"]) for row in found] == [keys[number] for number in both]


def test_what_comes_back_is_what_a_side_dropped() -> None:
    more = Field(9, "more", Primitive.STRING)
    side = Schema(SCHEMA.fields[:2], (1,))
    kept, new = Schema((*SCHEMA.fields, more), (1,)), Schema((*side.fields, more), (1,))
    assert columns_back(SCHEMA, side, kept) == {3}
    # What is new on the other side was never here, and what both dropped is not in the merge.
    assert columns_back(SCHEMA, side, new) == columns_back(SCHEMA, side, side) == frozenset()
    assert columns_back(SCHEMA, SCHEMA, kept) == frozenset()
