import csv
import datetime
import decimal
import io
from pathlib import Path
from typing import Any, Literal

import pytest
import shapely
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from havasu_vc.errors import GeometryError, InvalidArgumentError, InvalidFileError
from havasu_vc.model.task import run_task
from havasu_vc.model.types import Decimal, Primitive, Type
from tests.exchange.reading import open_one, read_all, read_table
from tests.support.examples import examples


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


TYPES: list[tuple[list[str], Type, list[Any]]] = [
    (["true", "False", ""], Primitive.BOOLEAN, [True, False, None]),
    (["1", "-2", "+3", ""], Primitive.LONG, [1, -2, 3, None]),
    (["007", "1"], Primitive.STRING, ["007", "1"]),
    (["0", "-0"], Primitive.LONG, [0, 0]),
    (["9223372036854775807", "1"], Primitive.LONG, [2**63 - 1, 1]),
    (["9223372036854775808", "1"], Decimal(38, 0), [decimal.Decimal(2**63), decimal.Decimal(1)]),
    (["9" * 39, "1"], Primitive.STRING, ["9" * 39, "1"]),
    (["1.5", "2", "-1e3", ".5", ""], Primitive.DOUBLE, [1.5, 2.0, -1000.0, 0.5, None]),
    (["9007199254740993", "1.5"], Primitive.STRING, ["9007199254740993", "1.5"]),
    (["2020-02-29", ""], Primitive.DATE, [datetime.date(2020, 2, 29), None]),
    (["2021-02-29"], Primitive.STRING, ["2021-02-29"]),
    (["2020-01-01T10:00:00", "2020-01-01 10:00:00.25"], Primitive.TIMESTAMP,
     [datetime.datetime(2020, 1, 1, 10), datetime.datetime(2020, 1, 1, 10, 0, 0, 250000)]),
    (["2020-01-01T10:00:00+02:00", "2020-01-01T10:00:00Z"], Primitive.TIMESTAMPTZ,
     [datetime.datetime(2020, 1, 1, 8, tzinfo=datetime.UTC),
      datetime.datetime(2020, 1, 1, 10, tzinfo=datetime.UTC)]),
    (["2020-01-01T10:00:00+02:00", "2020-01-01T10:00:00"], Primitive.STRING,
     ["2020-01-01T10:00:00+02:00", "2020-01-01T10:00:00"]),
    (["10:00", "23:59:59.5"], Primitive.TIME,
     [datetime.time(10), datetime.time(23, 59, 59, 500000)]),
    (["1", "x"], Primitive.STRING, ["1", "x"]),
    (["", ""], Primitive.STRING, [None, None]),
    (["true", "1"], Primitive.STRING, ["true", "1"]),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "type_", "values"), TYPES)
def test_types_are_judged_from_all_values(
    texts: list[str], type_: Type, values: list[Any], tmp_path: Path
) -> None:
    path = write(tmp_path / "t.csv", "n,v\n" + "".join(f"a,{text}\n" for text in texts))
    source = open_one(path)
    assert source.schema.by_name["v"].type == type_
    assert read_all(source).column("v").to_pylist() == values


@pytest.mark.thorough
def test_the_last_value_counts_as_much_as_the_first(tmp_path: Path) -> None:
    rows = "".join(f"{number},{number}\n" for number in range(900_000))
    path = write(tmp_path / "t.csv", f"a,b\n{rows}1,007\n")
    source = open_one(path)
    assert source.schema.by_name["a"].type is Primitive.LONG
    assert source.schema.by_name["b"].type is Primitive.STRING
    table = read_all(source)
    assert table.column("b")[-1].as_py() == "007"
    assert table.column("a")[899_999].as_py() == 899_999


def test_an_empty_text_is_not_a_null(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'a,b,n\n"",x,1\n,"y",""\n')
    assert read_table(path).to_pylist() == [
        {"a": "", "b": "x", "n": 1},
        {"a": None, "b": "y", "n": None},
    ]


@given(
    st.lists(
        st.tuples(*[st.text(st.characters(codec="utf-8", exclude_characters="\0"))] * 2),
        min_size=1,
        max_size=20,
    )
)
def test_quoted_text_comes_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with path.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, quoting=csv.QUOTE_ALL)
        writer.writerow(["a", "b"])
        writer.writerow(["text", "text"])
        writer.writerows(rows)
    table = read_table(path)
    assert table.slice(1).to_pylist() == [{"a": a, "b": b} for a, b in rows]


def test_wkt_becomes_the_geometry(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'id,WKT\n1,"POINT Z (1 2 3)"\n2,\n3,POLYGON EMPTY\n')
    source = open_one(path, crs="EPSG:2193")
    assert [field.name for field in source.schema.geometries] == ["WKT"]
    assert list(source.crs) == ["EPSG:2193"]
    first, none, empty = read_all(source).column("WKT").to_pylist()
    assert shapely.from_wkb(first) == shapely.Point(1, 2, 3)
    assert none is None and shapely.from_wkb(empty).is_empty


def test_a_text_column_called_geometry_stays_text(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "geometry\nround\nsquare\n")
    assert not open_one(path).schema.geometries


def test_bad_wkt_in_a_column_named_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "id,shape\n1,POINT (1\n")
    with pytest.raises(GeometryError):
        read_all(open_one(path, csv_wkt="shape"))


@pytest.mark.parametrize(
    ("header", "crs"), [("Longitude,LATITUDE", ["OGC:CRS84"]), ("lat,lon", ["OGC:CRS84"]),
                        ("x,Y", [])],
)  # fmt: skip
def test_coordinates_become_points(header: str, crs: list[str], tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", f"{header},name\n1,2.5,a\n,3,b\n")
    source = open_one(path)
    table = read_all(source)
    assert list(source.crs) == crs
    first, none = table.column("geom").to_pylist()
    x, y = (2.5, 1) if header.startswith("lat") else (1, 2.5)
    assert shapely.from_wkb(first) == shapely.Point(x, y)
    assert none is None
    assert table.column_names == [*header.split(","), "name", "geom"]
    assert read_table(path, csv_drop_coordinates=True).column_names == ["name", "geom"]


def test_coordinate_columns_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "e;n\n1;2\n")
    source = open_one(path, csv_lon="e", csv_lat="n", crs="EPSG:2193")
    assert shapely.from_wkb(read_all(source).column("geom")[0].as_py()) == shapely.Point(1, 2)
    with pytest.raises(InvalidArgumentError):
        open_one(path, csv_lon="e")


def test_other_delimiters_and_encodings(tmp_path: Path) -> None:
    tabs = write(tmp_path / "t.tsv", "a\tb,c\n1\tx\n")
    assert read_table(tabs).to_pylist() == [{"a": 1, "b,c": "x"}]
    marked = write(tmp_path / "bom.csv", "\ufeffa,b\n1,2\n")
    assert read_table(marked).column_names == ["a", "b"]
    latin = write(tmp_path / "l.csv", "näme\nÅse\n", "latin-1")
    assert read_table(latin, csv_encoding="latin-1").to_pylist() == [{"näme": "Åse"}]
    with pytest.raises(InvalidFileError, match="not utf-8") as caught:
        read_table(latin)
    assert "--csv-encoding" in caught.value.hints[0]
    late = write(tmp_path / "late.csv", "name\nÅse\n", "latin-1")
    with pytest.raises(InvalidFileError, match="not utf-8"):
        read_table(late)


def test_line_breaks_in_values_and_of_windows(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'a,b\r\n1,"x\r\ny"\r\n2,z\r\n')
    assert read_table(path).to_pylist() == [{"a": 1, "b": "x\r\ny"}, {"a": 2, "b": "z"}]


def test_a_ragged_row_is_named_by_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", 'a,b\n1,"x\ny"\n2\n')
    with pytest.raises(InvalidFileError, match="line 4 has 1 values where the header has 2"):
        open_one(path)


def test_columns_without_end_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", ",".join(f"c{n}" for n in range(10_001)) + "\n")
    with pytest.raises(InvalidFileError, match="10,001 columns, and a CSV of at most 10,000"):
        open_one(path)


def test_a_row_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("havasu_vc.exchange.csv._BLOCK", 1024)
    path = write(tmp_path / "t.csv", f"a,b\n1,{'x' * 10_000}\n2,y\n")
    assert [len(value) for value in read_table(path).column("b").to_pylist()] == [10_000, 1]


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(st.text('x",\n\r;é', max_size=4), min_size=2, max_size=2), min_size=1),
    ending=st.sampled_from(["\n", "\r\n"]),
    delimiter=st.sampled_from([",", ";"]),
    data=st.data(),
)
def test_a_file_cut_inside_a_quoted_value_is_refused(
    rows: list[list[str]], ending: str, delimiter: str, data: st.DataObject, tmp_path: Path
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator=ending, quoting=csv.QUOTE_ALL)
    writer.writerows([["a", "b"], *rows])
    whole = text.getvalue()
    assert len(read_table(write(tmp_path / "whole.csv", whole))) == len(rows)
    open_ends = [end for end in range(len(whole)) if whole[:end].count('"') % 2]
    end = data.draw(st.sampled_from([end for end in open_ends if end > len(f'"a"{delimiter}')]))

    with pytest.raises(InvalidFileError):
        open_one(write(tmp_path / "cut.csv", whole[:end]))


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
@pytest.mark.parametrize("end", ['"', '"é', '"x\n', '"x""', '"x""y\r\n2,z\r\n'])
def test_a_cut_inside_the_last_value_is_said_in_one_line(
    end: str, encoding: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "t.csv", f"a,b\n1,{end}", encoding)
    with pytest.raises(InvalidFileError, match="ends inside a quoted value"):
        open_one(path, csv_encoding=encoding)


@pytest.mark.parametrize("end", ['"x"', '""', 'x"', '3" pipe', '""""'])
def test_quotes_that_are_closed_or_stray_are_no_cut(end: str, tmp_path: Path) -> None:
    assert len(read_table(write(tmp_path / "t.csv", f"a,b\n1,{end}"))) == 1


def test_a_value_of_line_breaks_is_no_cut(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", 'a,b\n"","\n"\n'))

    assert table.column("b").to_pylist() == ["\n"]


def test_only_a_header_is_a_table_without_rows(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "t.csv", "a,b\n"))
    assert (table.num_rows, table.column_names) == (0, ["a", "b"])


NASTY = st.text('x",\n\r;é ', max_size=5)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be", "latin-1"])
@pytest.mark.parametrize("block", [64, 65, 66, 67, 68, 69, 70, 71, 72, 128, 129, 130, 131])
def test_a_line_end_in_a_value_is_whole_where_a_block_ends(
    encoding: str, block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = ["x" * number + "\r\n" for number in range(1, 13)]
    text = "a,b\r\n" + "".join(f'1,"{value}"\r\n' for value in values)
    monkeypatch.setattr("havasu_vc.exchange.csv._BLOCK", block)
    table = read_table(
        write(tmp_path / "t.csv", text, encoding), csv_encoding=encoding, csv_text=("b",)
    )
    assert table.column("b").to_pylist() == values


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.lists(NASTY, min_size=2, max_size=2), min_size=4, max_size=40),
    ending=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    blank=st.sets(st.integers(0, 40)),
    mark=st.booleans(),
    step=st.integers(1, 200),
    block=st.integers(40, 400),
)
def test_tasks_that_read_parts_of_a_file_read_all_of_it(
    rows: list[list[str]],
    ending: str,
    quoting: Literal[0, 1],
    blank: set[int],
    mark: bool,
    step: int,
    block: int,
    tmp_path: Path,
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator=ending, quoting=quoting)
    writer.writerow(["a", "b"])
    for number, row in enumerate(rows):
        text.write(ending * (number in blank))
        # Python puts no quotes around a carriage return alone.
        each = row if quoting == csv.QUOTE_ALL else [value.replace("\r", "") for value in row]
        writer.writerow(each)
    path = write(tmp_path / "t.csv", text.getvalue(), "utf-8-sig" if mark else "utf-8")
    wanted = read_table(path, csv_text=("a", "b"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", step)
        patch.setattr("havasu_vc.exchange.csv._BLOCK", block)
        source = open_one(path, csv_text=("a", "b"))
    assert source.notes == ()
    tasks = source.tasks()
    assert len(tasks) >= min(len(rows), path.stat().st_size // (step + 60))
    assert read_all(source).equals(wanted)
    counts = [sum(len(batch) for batch in run_task(task)) for task in tasks]
    assert all(counts)


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text('ab",\n\r', max_size=60), step=st.integers(1, 30))
def test_a_file_is_cut_as_it_is_read_or_not_at_all(text: str, step: int, tmp_path: Path) -> None:
    """Quotes stand anywhere, and lines end in any way."""
    path = write(tmp_path / "t.csv", f"a,b\n1,2\n{text}")
    try:
        wanted = read_table(path, csv_text=("a", "b"))
    except InvalidFileError:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", step)
        assert read_all(open_one(path, csv_text=("a", "b"))).equals(wanted)


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ('a,b\n1,3" pipe\n2,4" pipe\n', "utf-8"),
        ("a,b\r1,2\r3,4\r", "utf-8"),
        ("a,b\n1,2\n3,4\n", "utf-16"),
    ],
)
def test_a_file_that_is_not_cut_is_told_of(
    text: str, encoding: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", 4)
    source = open_one(write(tmp_path / "t.csv", text, encoding), csv_encoding=encoding)

    assert len(source.tasks()) == 1 and len(read_all(source)) == 2
    (note,) = source.notes
    assert note == "t.csv is read by one task, since quotes and line ends do not tell its rows"


def test_a_row_is_named_by_its_number_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", 30)
    rows = [f"{number},POINT ({number} 1)" for number in range(20)]
    rows[14] = "14,POINT (x)"
    path = write(tmp_path / "t.csv", "\n".join(["id,place", *rows]))
    source = open_one(path, csv_wkt="place")
    assert len(source.tasks()) > 5
    with pytest.raises(GeometryError, match="row 15"):
        read_all(source)
