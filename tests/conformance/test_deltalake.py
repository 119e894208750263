"""deltalake (delta-rs): tables that it writes come in, and it reads what goes out, by value."""

import datetime as dt
import math
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.conformance import ours
from tests.conformance.comparing import compared, named, same_rows, told
from tests.conformance.drawing import KINDS, Abilities, histories
from tests.conformance.ours import BY_KEY, NAME, agrees, folder, made
from tests.conformance.tables import (
    KEY,
    AddColumn,
    Append,
    Delete,
    History,
    State,
    Step,
    Update,
    arrow,
)
from tests.conformance.tally import Tally
from tests.support.examples import examples
from tests.support.templates import LOCAL, empty_repo

PROGRAM = "deltalake"
# Delta has neither times of day nor UUIDs nor bytes of one length.
HELD = KINDS - {"time", "uuid", "fixed"}
WRITES = Abilities(kinds=HELD, steps=(Append, Update, Delete, AddColumn))
READS = Abilities(kinds=HELD, steps=ours.STEPS, geometries=True)

tried = examples(20, suppress_health_check=list(HealthCheck))


def write(place: str, history: History, parted: str | None) -> None:
    """Write a table step by step."""
    by = [parted] if parted else None
    deltalake.write_deltalake(place, arrow([], history.first.schema), partition_by=by)
    for step, before in zip(history.steps, history.states, strict=False):
        apply(place, step, before)


def apply(place: str, step: Step, before: State) -> None:
    match step:
        case Update(rows) | Append(rows) if rows:
            if isinstance(step, Update):
                delete(place, tuple(row[KEY] for row in rows))
            table = arrow(list(rows), before.schema)
            deltalake.write_deltalake(place, table, mode="append")
        case Delete(keys):
            delete(place, keys)
        case AddColumn():
            wide = arrow([], step.applied(before).schema)
            deltalake.write_deltalake(place, wide, mode="append", schema_mode="merge")


def delete(place: str, keys: tuple[int, ...]) -> None:
    deltalake.DeltaTable(place).delete(f"{KEY} in ({', '.join(map(str, keys))})")


@st.composite
def parted(draw: st.DrawFn) -> tuple[History, str | None]:
    """Draw a table, and the column that its files are parted by."""
    history = draw(histories(WRITES))
    simple = (pa.bool_(), pa.int32(), pa.int64(), pa.date32(), pa.string())
    fit = [c.name for c in history.first.columns if c.name != KEY and c.type in simple]
    return history, draw(st.sampled_from([None, *fit]))


@given(drawn=parted())
@tried
def test_import(drawn: tuple[History, str | None], tally: Tally) -> None:
    history, by = drawn
    with folder() as place:
        write(str(place / "lake"), history, by)
        repo = empty_repo(place / "repo", settings=LOCAL)
        repo.import_(f"delta:{place / 'lake'}", NAME, options=BY_KEY, history=True)
        tally.case(PROGRAM, "import --history", agrees(repo, history.last, "import"))
        # What was left out by that comes in by itself.
        repo.import_(f"delta:{place / 'lake'}", "again", options=BY_KEY)
        agrees(repo, history.last, "import", name="again")


@pytest.mark.thorough
@given(history=histories(READS))
@tried
def test_export(history: History, tally: Tally) -> None:
    with folder() as place:
        repo = made(place, history)
        repo.export(NAME, place / "out", format="delta", plain=True)
        found = deltalake.DeltaTable(str(place / "out"))
        table = found.to_pyarrow_table()
        assert [(f.name, named(plain(f.type))) for f in table.schema] == told(history.last)
        tally.case(PROGRAM, "export", same_rows(table.to_pylist(), history.last, PROGRAM))
        check_statistics(found, place / "out")


def plain(type_: pa.DataType) -> pa.DataType:
    """Return a type without the larger forms that delta-rs has for text and bytes."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(plain(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(plain(type_.key_type), plain(type_.item_type))
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, plain(field.type)) for field in type_])
    large = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}
    return large.get(type_, type_)


def check_statistics(found: deltalake.DeltaTable, place: Path) -> None:
    """Check what the log says of each file, as delta-rs reads it, against its rows."""
    for said in pa.table(found.get_add_actions(flatten=True)).to_pylist():
        held = pq.ParquetFile(place / said["path"]).read()
        assert said["num_records"] == held.num_rows
        for field in held.schema:
            values = held[field.name].to_pylist()
            present = [value for value in values if value is not None]
            if (nulls := said.get(f"null_count.{field.name}")) is not None:
                assert nulls == len(values) - len(present), field
            check_bounds(field, said, present)


def check_bounds(field: pa.Field, said: dict[str, Any], values: list[Any]) -> None:
    least, most = said.get(f"min.{field.name}"), said.get(f"max.{field.name}")
    if least is None and most is None:
        return
    assert values, f"bounds of no values: {field}"
    if isinstance(values[0], float):
        numbers = [value for value in values if not math.isnan(value)]
        assert len(numbers) == len(values), "bounds beside NaN"
    found = [compared(each, field.type) if at_moment(field) else each for each in values]
    low, high = (compared(b, field.type) if at_moment(field) else b for b in (least, most))
    if isinstance(values[0], str):
        # Long ones may be cut.
        assert low is None or all(low <= each for each in found)
        assert high is None or all(each <= high for each in found)
    elif at_moment(field):
        # The log tells milliseconds, and readers know.
        assert low is not None and high is not None
        assert min(found) - 999 <= low <= min(found) and high // 1000 >= max(found) // 1000
    else:
        assert (low, high) == (min(found), max(found)), field


def at_moment(field: pa.Field) -> bool:
    return bool(pa.types.is_timestamp(field.type))


def test_statistics_of_an_export(tmp_path: Path) -> None:
    last = "\U0010ffff"
    rows = pa.table(
        {
            KEY: pa.array([1, 2]),
            "day": pa.array([dt.date(2026, 11, 3), dt.date(1850, 1, 2)]),
            "number": pa.array([1.5, -2.25]),
            "odd": pa.array([1.5, float("nan")]),
            "short": pa.array(["kauri", None]),
            "long": pa.array(["r" * 40, "k" * 40]),
            "beyond": pa.array([last * 40, "k"]),
        }
    )
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    repo.import_(rows, NAME, options=BY_KEY)
    repo.export(NAME, tmp_path / "out", format="delta", plain=True)
    (said,) = pa.table(
        deltalake.DeltaTable(tmp_path / "out").get_add_actions(flatten=True)
    ).to_pylist()

    assert (said["min.day"], said["max.day"]) == (dt.date(1850, 1, 2), dt.date(2026, 11, 3))
    assert (said["min.number"], said["max.number"]) == (-2.25, 1.5)
    assert (said["min.short"], said["max.short"], said["null_count.short"]) == ("kauri", "kauri", 1)
    assert said["min.long"] == "k" * 32 and said["max.long"] >= "r" * 40
    # A number that is none has no place among others, and no text is greater than that one.
    assert said.get("min.odd") is None and said.get("min.beyond") is None
