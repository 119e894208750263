"""Partition specs of checkouts: drawn ones, and what each makes of plain rows.

What a transform makes of a value is computed here as Iceberg's specification has it, one value of
Python at a time, and metadata as PyIceberg reads it is held against that.
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import assume
from hypothesis import strategies as st
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import StaticTable

from tests.conformance.comparing import compared
from tests.conformance.drawing import Abilities, histories
from tests.conformance.tables import (
    KEY,
    DropColumn,
    History,
    RenameColumn,
    Row,
    State,
    Step,
)

__all__ = ["Moment", "Part", "Parted", "check_metadata", "lost_columns", "parted", "plain", "spelt"]

MOMENTS = (pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"))
SUFFIXES = {"truncate": "trunc"}
HOUR = 3_600_000_000
EPOCH = dt.date(1970, 1, 1)


@dataclass(frozen=True)
class Part:
    """A field of a partition spec."""

    column: str
    """What its column is called now."""
    transform: str
    """As Iceberg spells it, such as `bucket[3]`."""
    name: str
    """What it is called where it is asked for first, unless a column is called so."""

    @classmethod
    def of(cls, column: str, transform: str) -> "Part":
        kind = transform.partition("[")[0]
        suffix = "" if kind == "identity" else f"_{SUFFIXES.get(kind, kind)}"
        return cls(column, transform, column + suffix)


@dataclass(frozen=True)
class Moment:
    """A table after a step and a checkout."""

    step: Step
    before: State
    asked: tuple[Part, ...] | None
    """What is asked for after the step, as `Parted` has it."""
    parts: tuple[Part, ...]
    """The spec that the table has then."""
    once: bool
    """Whether no other spec was asked for until now."""
    called: frozenset[str]
    """What columns were called until now."""

    @property
    def after(self) -> State:
        return self.step.applied(self.before)


@dataclass(frozen=True)
class Parted:
    """A history, and how the checkout is asked to be laid out on its way."""

    history: History
    asked: tuple[tuple[Part, ...] | None, ...]
    """After each step: the spec that is asked for; none for the files of the commits, None if
    nothing is asked."""

    @property
    def moments(self) -> Iterator[Moment]:
        """The table after each step."""
        parts: tuple[Part, ...] = ()
        specs: set[tuple[Part, ...]] = set()
        called: frozenset[str] = frozenset()
        steps = zip(self.history.steps, self.history.states, self.asked, strict=False)
        for step, before, asked in steps:
            parts = spec_after(parts, step) if asked is None else asked
            specs |= {asked} if asked else set()
            called |= {column.name for column in step.applied(before).columns}
            yield Moment(step, before, asked, parts, len(specs) == 1, called)


def spec_after(parts: tuple[Part, ...], step: Step) -> tuple[Part, ...]:
    """Return a spec after a step: a field goes with its column, and keeps its name."""
    match step:
        case DropColumn(name):
            return tuple(part for part in parts if part.column != name)
        case RenameColumn(old, new):
            return tuple(
                replace(part, column=new) if part.column == old else part for part in parts
            )
    return parts


def kinds_of(type_: pa.DataType) -> list[str]:
    """Return the transforms of a type, as the specification has them."""
    if pa.types.is_nested(type_):
        return []
    whole = pa.types.is_integer(type_) or pa.types.is_decimal(type_)
    found = []
    if not pa.types.is_floating(type_):
        found.append("identity")
        if not pa.types.is_boolean(type_):
            found.append("bucket")
    if whole or type_ in (pa.string(), pa.binary()):
        found.append("truncate")
    if type_ in MOMENTS:
        found += ["year", "month", "day"]
    if type_ in MOMENTS[1:]:
        found.append("hour")
    return found


@st.composite
def specs(draw: st.DrawFn, state: State) -> tuple[Part, ...]:
    """Draw a spec of some columns, each of which may be in it in several ways."""
    flat = [column for column in state.columns if column.geo is None and kinds_of(column.type)]
    flat.sort(key=lambda column: column.name != KEY)
    columns = draw(st.lists(st.sampled_from(flat[1:] or flat), min_size=1, max_size=2))
    columns += [flat[0]] if draw(st.booleans()) else []
    parts = [Part.of(column.name, draw(transforms(column.type))) for column in columns]
    return tuple({part.name: part for part in parts}.values())


def transforms(type_: pa.DataType) -> st.SearchStrategy[str]:
    def whole(kind: str) -> st.SearchStrategy[str]:
        if kind == "bucket":
            return st.sampled_from([1, 2, 3, 16]).map(lambda n: f"bucket[{n}]")
        if kind == "truncate":
            return st.sampled_from([1, 2, 5, 1000]).map(lambda n: f"truncate[{n}]")
        return st.just(kind)

    return st.sampled_from(kinds_of(type_)).flatmap(whole)


@st.composite
def parted(draw: st.DrawFn, able: Abilities) -> Parted:
    """Draw a history whose checkout is laid out by a spec at first, and again later."""
    history = draw(histories(able).filter(lambda found: len(found.states[1].rows) > 1))
    parts = draw(specs(history.states[1]))
    asked: list[tuple[Part, ...] | None] = [parts]
    for step, state in zip(history.steps[1:], history.states[2:], strict=True):
        parts = spec_after(parts, step)
        again = draw(st.sampled_from(["", "", "", "spec", "spec", "renamed", "linked"]))
        if again == "spec":
            asked.append(draw(specs(state)))
        elif again == "renamed":
            # The same anew, by what columns are called now.
            asked.append(tuple(Part.of(part.column, part.transform) for part in parts) or None)
        else:
            asked.append(() if again == "linked" else None)
    found = Parted(history, tuple(asked))
    assume(not any(left_out(moment) for moment in found.moments))
    return found


def left_out(moment: Moment) -> bool:
    """Whether a decimal is rounded down to one of more digits than its type has.

    Iceberg for Java writes no such partition, and a checkout by one is refused.
    """
    state = moment.after
    return any(
        len(made.as_tuple().digits) > type_.precision
        for part in moment.parts
        for type_ in [state.column(part.column).type]
        if pa.types.is_decimal(type_) and part.transform.startswith("truncate")
        for row in state.rows.values()
        for made in [made_of(row[part.column], type_, part.transform)]
        if made is not None
    )


def spelt(parts: tuple[Part, ...]) -> str:
    """Return a spec as somebody types it, in one of the ways that are taken."""
    return ", ".join(_spelt(part, number) for number, part in enumerate(parts))


def _spelt(part: Part, number: int) -> str:
    kind, _, width = part.transform.removesuffix("]").partition("[")
    column = f"`{part.column}`" if number % 2 else part.column
    if kind == "identity":
        return column
    if not width:
        return f"{kind}s({column})" if number % 2 else f"{kind}({column})"
    return f"{kind}({width}, {column})" if number % 2 else f"{kind}({column}, {width})"


# What a transform makes of a value.


def made_of(value: Any, type_: pa.DataType, transform: str) -> Any:
    """Return what a transform makes of a value; moments are numbers, as they are stored."""
    if value is None:
        return None
    kind, _, width = transform.removesuffix("]").partition("[")
    if kind == "identity":
        return plain(value, type_)
    if kind == "bucket":
        return (murmur3(hashed(value, type_)) & 0x7FFF_FFFF) % int(width)
    if kind == "truncate":
        return truncated(value, type_, int(width))
    number = plain(value, type_)
    days = number if type_ == pa.date32() else number // (24 * HOUR)
    if kind == "hour":
        return number // HOUR
    if kind == "day":
        return days
    date = EPOCH + dt.timedelta(days)
    return date.year - 1970 if kind == "year" else (date.year - 1970) * 12 + date.month - 1


def plain(value: Any, type_: pa.DataType) -> Any:
    """Return a value as it is stored: days and microseconds of what tells a time."""
    if isinstance(value, dt.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**6 + value.microsecond
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return (value - EPOCH).days
    return value if value is None or isinstance(value, Decimal) else compared(value, type_)


def unscaled(value: Decimal, type_: pa.DataType) -> int:
    return int("".join(map(str, value.as_tuple().digits))) * (-1 if value.is_signed() else 1)


def truncated(value: Any, type_: pa.DataType, width: int) -> Any:
    if isinstance(value, Decimal):
        number = unscaled(value, type_)
        number -= number % width
        digits = tuple(map(int, str(abs(number))))
        return Decimal((int(number < 0), digits, -type_.scale))
    if isinstance(value, int):
        # Below the least number of a type one comes out at its other end, as in Java.
        half = 1 << (type_.bit_width - 1)
        return (value - value % width + half) % (2 * half) - half
    return value[:width]


def hashed(value: Any, type_: pa.DataType) -> bytes:
    """Return the bytes of a value that are hashed."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, Decimal):
        number = unscaled(value, type_)
        bits = (number if number >= 0 else -number - 1).bit_length() + 1
        return number.to_bytes((bits + 7) // 8, "big", signed=True)
    return int(plain(value, type_)).to_bytes(8, "little", signed=True)


def murmur3(data: bytes) -> int:
    """Return the hash of bytes: Murmur3 of 32 bits for x86, of seed 0."""

    def mixed(word: int) -> int:
        word = word * 0xCC9E2D51 & 0xFFFF_FFFF
        return (word << 15 | word >> 17) * 0x1B873593 & 0xFFFF_FFFF

    state = 0
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        state ^= mixed(int.from_bytes(data[at : at + 4], "little"))
        state = ((state << 13 | state >> 19) * 5 + 0xE6546B64) & 0xFFFF_FFFF
    state ^= mixed(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & 0xFFFF_FFFF
    state = (state ^ state >> 13) * 0xC2B2AE35 & 0xFFFF_FFFF
    return state ^ state >> 16


# Metadata of a table as PyIceberg reads it.

Values = tuple[Any, ...]


def check_metadata(folder: Path, moment: "Moment", *, fresh: bool) -> int:
    """Check the spec of a table, and partitions of its files; return how many files were in some.

    `fresh` says that all rows were sorted anew, so that each partition is a file.
    """
    wanted, parts = moment.after, moment.parts
    table = StaticTable.from_metadata(str(folder))
    schema = table.schema()
    found = [(schema.find_column_name(f.source_id), str(f.transform)) for f in table.spec().fields]
    assert found == [(part.column, part.transform) for part in parts]
    if moment.once:
        named = zip(table.spec().fields, parts, strict=True)
        assert all(f.name == part.name or part.name in moment.called for f, part in named)
    check_specs(table)
    ids = [each.field_id for each in schema.fields]
    files: dict[str, tuple[int, Values]] = {}
    gone: list[tuple[str, tuple[int, Values]]] = []
    counts: Counter[Values] = Counter()
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else []:
        spec = table.specs()[manifest.partition_spec_id]
        # A manifest also tells files that went with it, which its summaries count.
        entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
        values = [partition_of(entry.data_file, len(spec.fields)) for entry in entries]
        if spec.fields and {part.source_id for part in spec.fields} <= set(ids):
            check_summaries(table, spec, manifest, values)
        for entry, value in zip(entries, values, strict=True):
            file = entry.data_file
            path = file.file_path
            if entry.status is ManifestEntryStatus.DELETED:
                continue
            assert not spec.fields or spec == table.spec(), "a file of another spec"
            if file.content != 0:
                gone.append((path, (spec.spec_id, value)))
                continue
            assert path not in files
            files[path] = spec.spec_id, value
            if spec.fields:
                assert value not in counts, f"two files of one partition: {value}"
                counts[value] += file.record_count
                check_file(path, file.record_count, [each.source_id for each in spec.fields],
                           parts, value)  # fmt: skip
    for path, where in gone:
        named = pq.read_table(path.removeprefix("file://"), columns=["file_path"])
        for each in set(named.column(0).to_pylist()):
            assert files[each] == where, "deletes of another partition"
    if fresh and parts:
        assert not gone and counts.total() == len(wanted.rows)
        assert counts == Counter(of_row(row, wanted, parts) for row in wanted.rows.values())
    return len(counts)


def check_specs(table: StaticTable) -> None:
    """Check that each field of all specs has an id and a name that nothing else has."""
    fields = [field for spec in table.specs().values() for field in spec.fields]
    by_id = {
        field.field_id: (field.source_id, str(field.transform), field.name) for field in fields
    }
    assert {
        (field.field_id, field.source_id, str(field.transform), field.name) for field in fields
    } == {(number, *said) for number, said in by_id.items()}
    assert len({name for _, _, name in by_id.values()}) == len(by_id)
    assert len({(source, transform) for source, transform, _ in by_id.values()}) == len(by_id)
    assert 1000 <= min(by_id, default=1000)
    assert (table.metadata.last_partition_id or 0) >= max(by_id, default=999)
    columns = {column.name: column.field_id for column in table.schema().fields}
    for source, transform, name in by_id.values():
        assert name not in columns or (transform, source) == ("identity", columns[name])


def lost_columns(folder: Path) -> bool:
    """Whether a spec of a table, of whatever moment, goes by a column that is not there now.

    A condition makes DuckDB 1.5 fail then (`unordered_map::at`), whatever it is about.
    """
    table = StaticTable.from_metadata(str(folder))
    ids = {each.field_id for each in table.schema().fields}
    return any(field.source_id not in ids for s in table.specs().values() for field in s.fields)


def partition_of(file: Any, count: int) -> Values:
    return tuple(stored(file.partition[place]) for place in range(count))


def stored(value: Any) -> Any:
    """Return a value of a partition as `plain` has it, of whatever class."""
    if isinstance(value, dt.date | dt.time | dt.datetime):
        return plain(value, pa.date32())
    return value.bytes if hasattr(value, "bytes") else value


def of_row(row: Row, state: State, parts: tuple[Part, ...]) -> Values:
    return tuple(
        made_of(row[part.column], state.column(part.column).type, part.transform) for part in parts
    )


def check_file(
    path: str, count: int, ids: list[int], parts: tuple[Part, ...], value: Values
) -> None:
    """Check that all rows of a file are of its partition."""
    held = pq.ParquetFile(path.removeprefix("file://")).read()
    assert held.num_rows == count > 0
    by_id = {int(f.metadata[b"PARQUET:field_id"]): f.name for f in held.schema}
    for number, part, shared in zip(ids, parts, value, strict=True):
        name = by_id.get(number)
        column = [None] * count if name is None else held[name].to_pylist()
        type_ = pa.null() if name is None else held.schema.field(name).type
        assert {made_of(each, type_, part.transform) for each in column} == {shared}, part


def check_summaries(table: Any, spec: Any, manifest: Any, values: Iterable[Values]) -> None:
    """Check what a manifest list says of the partitions of a manifest."""
    types = [each.field_type for each in spec.partition_type(table.schema()).fields]
    columns: dict[int, list[Any]] = defaultdict(list)
    for value in values:
        for place, each in enumerate(value):
            columns[place].append(each)
    for place, type_ in enumerate(types):
        said = manifest.partitions[place]
        present = [each for each in columns[place] if each is not None]
        assert said.contains_null is (len(present) < len(columns[place]))
        bounds = [
            None if each is None else stored(from_bytes(type_, each))
            for each in (said.lower_bound, said.upper_bound)
        ]
        assert bounds == ([min(present), max(present)] if present else [None, None]), spec
