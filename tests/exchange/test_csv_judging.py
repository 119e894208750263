"""What tasks say of parts of a CSV adds up to what one says that reads it all."""

import csv
import datetime
import io
import itertools
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.csv import open_one
from havasu_vc.exchange.csv_judging import judged
from havasu_vc.exchange.csv_text import CsvForm
from havasu_vc.exchange.csv_types import Judgement
from havasu_vc.exchange.source import ONE_BY_ONE, SourceOptions
from havasu_vc.exchange.sources import read_as
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Primitive
from tests.exchange.reading import read_all
from tests.support.examples import examples

VALUES = [
    "", "1", "-7", "007", "12345", "9223372036854775807", "9223372036854775808", "9" * 39,
    "1.5", "1e3", "nan", "123456789012345678", "0.1234567890123456789", "true", "FALSE",
    "2020-01-31", "2020-13-01", "2020-01-31T10:00", "2020-02-31 10:00:00.5", "2020-01-31T10:00Z",
    "2020-01-31 10:00:00+02:00", "10:00", "25:00", "POINT (1 2)", "SRID=4326;POINT EMPTY", "x",
    "é \u2028", 'say "x"', "a,b", "two\nlines", "two\r\nlines", "\ufeff1",
]  # fmt: skip
CLEAN = [value for value in VALUES if not set('"\n\r,') & set(value)]

columns = st.one_of(
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=30),
    # Most columns are of one kind, with a value here and there that is not.
    st.tuples(st.sampled_from(CLEAN), st.lists(st.sampled_from([*CLEAN, *[None] * 60]),
              min_size=1, max_size=30)).map(
        lambda pair: [pair[0] if value is None else value for value in pair[1]]),
)  # fmt: skip


def look(values: list[Any], ends: list[int]) -> Judgement:
    """Judge values block by block."""
    found = Judgement()
    for start, end in itertools.pairwise([0, *sorted(set(ends)), len(values)]):
        found.look(pa.array(values[start:end], pa.string()))
    return found


@examples(120)
@given(values=columns, data=st.data())
def test_parts_and_blocks_make_no_difference(values: list[Any], data: st.DataObject) -> None:
    values = [None if value == "" and data.draw(st.booleans()) else value for value in values]
    places = st.lists(st.integers(0, len(values)), max_size=4)
    whole = look(values, [])
    assert look(values, data.draw(places)) == whole
    ends = [0, *sorted(data.draw(places)), len(values)]
    parts = [look(values[start:end], []) for start, end in itertools.pairwise(ends)]
    assert reduce(Judgement.then, parts) == whole
    alone = [look([value], []) for value in values]
    assert reduce(Judgement.then, alone) == whole
    assert whole.possible == [
        name for name in Judgement().possible if all(name in each.possible for each in alone)
    ]


@examples(100)
@given(values=columns)
def test_a_plain_program_finds_the_same_types(values: list[str]) -> None:
    def fits(value: str, name: str) -> bool:
        try:
            match name:
                case "date":
                    datetime.datetime.strptime(value, "%Y-%m-%d")
                case "boolean":
                    return value.lower() in ("true", "false")
                case "int64":
                    return -(2**63) <= int(value) < 2**63 and str(int(value)) == value
                case "decimal":
                    return str(int(value)) == value and len(value.lstrip("-")) <= 38
                case "float64":
                    float(value)
                    return value[1:2] == "." or value.lstrip("-")[0] != "0" or value in "0"
        except ValueError:
            return False
        return True

    filled = [value for value in values if value]
    found = look(list(values), [])
    for name in ("boolean", "int64", "decimal", "float64", "date"):
        assert (name in found.possible) == all(fits(value, name) for value in filled), name


def test_where_a_block_ends_tells_no_type() -> None:
    for texts in (["true", "1"], ["2020-01-31", "2020-01-31T10:00"], ["10:00", "2020-01-31"]):
        assert look(texts, [1]).type == "text"
    assert look(["1"] * 1500 + ["x"], [3]).doubts("a") == (
        "column 'a' is text: row 1,501 holds 'x', which is no number like those before"
    )
    months = look(["2020-01-31T10:00"] * 9 + ["2020-13-31T10:00", "x"], [2])
    assert "row 10 holds '2020-13-31T10:00', which is no time" in (months.doubts("a") or "")


def test_a_long_value_is_not_kept() -> None:
    assert max(len(odd.value) for odd in look(["x" * 10_000], []).odd.values()) == 200


def test_many_rows_without_a_value_come_before_what_is_odd() -> None:
    values: list[Any] = [*[None] * 5000, *["1"] * 3, "x"]
    assert look(values, []) == look(values, [1200, 5001])
    assert look(values, []).odd["float64"].row == 5004


@st.composite
def files(draw: st.DrawFn) -> tuple[str, str]:
    """Return the text of a file, and its encoding."""
    width = draw(st.integers(1, 3))
    rows = draw(
        st.lists(st.lists(st.sampled_from(VALUES), min_size=width, max_size=width), max_size=25)
    )
    quoting: Literal[0, 1] = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=draw(st.sampled_from(["\n", "\r\n"])), quoting=quoting)
    writer.writerows([[f"c{n}" for n in range(width)], *rows])
    whole = text.getvalue()
    match draw(st.sampled_from(["as it is"] * 6 + ["ragged", "no end", "open", "stray", "bytes"])):
        case "ragged":
            whole += ",".join("1" * (width + 1)) + "\n"
        case "no end":
            whole = whole.rstrip("\r\n")
        case "open":
            whole += '"x'
        case "stray":
            whole += 'x"' + ",1" * (width - 1) + "\n"
        case "bytes":
            whole += "\udcff" + ",1" * (width - 1) + "\n"
    marked = draw(st.booleans())
    return "\ufeff" * marked + whole, "utf-8"


@examples(120, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(file=files(), step=st.integers(1, 120), block=st.integers(150, 400))
def test_tasks_say_of_parts_what_one_says_of_all(
    file: tuple[str, str], step: int, block: int, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(file[0].encode(file[1], "surrogateescape"))
    size = path.stat().st_size
    form = CsvForm(str(path), ",", file[1], block)

    def outcome(step: int) -> Any:
        try:
            return judged(form, size, step, lambda: ONE_BY_ONE)
        except InvalidFileError as error:
            return str(error)

    whole, parts = outcome(size), outcome(step)
    if isinstance(whole, str) or isinstance(parts, str):
        assert parts == whole
        return
    assert parts.columns == whole.columns
    assert parts.rows == whole.rows
    spans = parts.spans or ()
    assert sum(span.rows for span in spans) == (whole.rows if spans else 0)
    assert [span.start for span in spans[1:]] == [span.end for span in spans[:-1]]


def lines(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join(["id,day,note,lon,lat", *rows]) + "\n", encoding="utf-8")
    return path


def typical(count: int) -> list[str]:
    return [f'{n},2020-01-{n % 28 + 1:02},"note\n{n}",{n % 180},{n % 90}.5' for n in range(count)]


def test_threads_judge_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines(tmp_path / "t.csv", typical(4000))
    wanted = open_one([path], "t", SourceOptions())
    monkeypatch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", 3000)
    with LocalEngine(threads=3) as engine:
        sizes = []

        def engine_of(size: int) -> LocalEngine:
            sizes.append(size)
            return engine

        found = open_one([path], "t", SourceOptions(), engine_of=engine_of)
    assert set(sizes) == {path.stat().st_size}
    assert len(found.spans) > 20
    assert replace(found, reading=wanted.reading, spans=()) == wanted
    assert read_all(found).equals(read_all(wanted))


@pytest.mark.parametrize(
    ("odd", "said"),
    [
        ("7", "line 6001 has 1 values where the header has 5"),
        ("1,2020-01-01,\udcff,1,2", "its text is not utf-8"),
        ('1,2020-01-01,x,1,"2', "it ends inside a quoted value"),
    ],
)
def test_what_is_wrong_is_said_as_of_the_whole(
    odd: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.csv"
    text = "\n".join(["id,day,note,lon,lat", *typical(2999), "", odd])
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    monkeypatch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", 2000)
    with LocalEngine(threads=2) as engine, pytest.raises(InvalidFileError, match=said):
        open_one([path], "t", SourceOptions(), engine_of=lambda _: engine)


def test_rows_of_odd_values_are_counted_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", 2000)
    rows = typical(3000)
    rows[2345] = "2345,long ago,x,1,2"
    source = open_one([lines(tmp_path / "day.csv", rows)], "day", SourceOptions())
    assert source.notes == (
        "column 'day' is text: row 2,346 holds 'long ago', which is no date like those before",
    )
    dated = Schema(
        tuple(
            replace(each, type=Primitive.DATE) if each.name == "day" else each
            for each in source.schema.fields
        )
    )
    with LocalEngine(threads=2) as engine, pytest.raises(InvalidFileError, match="row 2,346 has"):
        read_as(source, dated, engine)
    rows[2345], rows[2500] = typical(1)[0], "2500,2020-01-01,x,east,2"
    with (
        LocalEngine(threads=2) as engine,
        pytest.raises(InvalidFileError, match="row 2501 has 'east' in column 'lon'"),
    ):
        open_one([lines(tmp_path / "lon.csv", rows)], "lon", SourceOptions(),
                 engine_of=lambda _: engine)  # fmt: skip
