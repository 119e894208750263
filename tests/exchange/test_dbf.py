"""Attributes of shapefiles are taken as they stand, or refused by name."""

import re
import struct
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyogrio.raw
import pytest
import shapely

from havasu_vc.errors import InvalidFileError
from havasu_vc.exchange.dbf import text_encoding
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.exchange.sources import open_sources
from havasu_vc.model.task import run_task

COLUMNS = (("n", "N", 6, 0), ("d", "D", 8, 0), ("l", "L", 1, 0), ("r", "N", 9, 2))


def shapefile(
    folder: Path,
    rows: Sequence[tuple[str, ...]],
    columns: Any = COLUMNS,
    encoding: str = "latin-1",
    said: str | None = None,
) -> Path:
    """Write points with attributes that stand in the file to the letter; `said` is in the .cpg."""
    folder.mkdir(exist_ok=True)
    path = folder / "a.shp"
    points = shapely.to_wkb([shapely.Point(n, 0) for n in range(len(rows))])
    pyogrio.raw.write(
        path,
        geometry=points,
        field_data=[np.zeros(len(rows), dtype="int32")],
        fields=["x"],
        geometry_type="Point",
        crs="EPSG:4326",
        driver="ESRI Shapefile",
    )
    header, length = 33 + 32 * len(columns), 1 + sum(each[2] for each in columns)
    head = struct.pack("<4BIHH20x", 3, 120, 1, 1, len(rows), header, length)
    for name, letter, size, scale in columns:
        head += name.encode(encoding).ljust(11, b"\0") + letter.encode() + bytes(4)
        head += bytes([size, scale]) + bytes(14)
    sizes = [each[2] for each in columns]
    lines = [
        b" " + b"".join(text.encode(encoding).rjust(n) for text, n in zip(row, sizes, strict=True))
        for row in rows
    ]
    path.with_suffix(".dbf").write_bytes(head + b"\r" + b"".join(lines) + b"\x1a")
    path.with_suffix(".cpg").unlink(missing_ok=True)
    if said is not None:
        path.with_suffix(".cpg").write_text(said)
    return path


def taken(path: Path, **how: Any) -> dict[str, list[object]]:
    (source,) = open_sources(str(path), options=SourceOptions(**how))
    # Not `read_all`: GDAL counts deleted rows among those of a shapefile.
    batches = [batch for task in source.tasks() for batch in run_task(task)]
    columns: dict[str, list[object]] = pa.Table.from_batches(batches).to_pydict()
    columns.pop("geom")
    return columns


SOUND = [("1", "20240229", "T", "1.50"), ("-7", "", "", ""), ("", "00000000", "?", "-1e2")]


def test_what_has_no_value_is_null(tmp_path: Path) -> None:
    path = shapefile(tmp_path / "a", [*SOUND, ("***", "19991231", "n", "7")])
    found = taken(path)
    assert found["n"] == [1, -7, None, None]
    assert [day and str(day) for day in found["d"]] == ["2024-02-29", None, None, "1999-12-31"]
    assert found["l"] == [True, None, None, False]  # GDAL makes false of the blank
    assert found["r"] == [1.5, None, -100, 7]


def test_deleted_rows_and_archives_count_too(tmp_path: Path) -> None:
    path = shapefile(tmp_path / "a", [*SOUND, ("5", "", "y", "")])
    table = path.with_suffix(".dbf")
    content = bytearray(table.read_bytes())
    content[33 + 32 * len(COLUMNS)] = ord("*")
    table.write_bytes(content)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for file in path.parent.iterdir():
            archive.write(file, f"folder/{file.name}")
    for each in (path, tmp_path / "a.zip"):
        assert taken(each)["l"] == [None, None, True]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (("abc", "", "", ""), "column 'n' holds 'abc', which is not a whole number"),
        (("1.5", "", "", ""), "column 'n' holds '1.5', which is not a whole number"),
        (("1 2", "", "", ""), "column 'n' holds '1 2', which is not a whole number"),
        (("", "20240230", "", ""), "column 'd' holds '20240230', which is not a date"),
        (("", "2024 1 1", "", ""), "column 'd' holds '2024 1 1', which is not a date"),
        (("", "", "X", ""), "column 'l' holds 'X', which is not true or false"),
        (("", "", "", "1,5"), "column 'r' holds '1,5', which is not a number"),
    ],
)
def test_values_that_are_not_what_their_column_says(
    row: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    path = shapefile(tmp_path / "a", [*SOUND, row])
    with pytest.raises(InvalidFileError, match=re.escape(said)):
        taken(path)
    wrong = said.split("'")[1]
    assert len(taken(path, leave_out=(wrong,))) == len(COLUMNS) - 1


def test_shapes_and_attributes_are_as_many(tmp_path: Path) -> None:
    path = shapefile(tmp_path / "a", SOUND)
    other = shapefile(tmp_path / "b", SOUND[:2])
    path.with_suffix(".dbf").write_bytes(other.with_suffix(".dbf").read_bytes())
    with pytest.raises(InvalidFileError, match="it has 3 shapes, and 2 rows of attributes"):
        taken(path)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = shapefile(tmp_path / "a", [("1", "2")], (("n", "N", 3, 0), ("n", "N", 3, 0)))
    with pytest.raises(InvalidFileError, match="two of its columns are called 'n'"):
        taken(path)


TEXTS = (("ü", "C", 12, 0), ("n", "N", 6, 0))
ODD = [("Zürich", "1"), ("é", "2"), ("plain", "3")]


@pytest.mark.parametrize("said", [None, "", "NOSUCH"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
@pytest.mark.parametrize("archived", [False, True])
def test_texts_of_a_file_that_does_not_say_their_encoding(
    encoding: str, said: str | None, archived: bool, tmp_path: Path
) -> None:
    path = shapefile(tmp_path / "a", ODD, TEXTS, encoding, said)
    if archived:
        with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
            for file in path.parent.iterdir():
                archive.write(file, file.name)
        path = tmp_path / "a.zip"
    assert [text and str(text).strip() for text in taken(path)["ü"]] == ["Zürich", "é", "plain"]
    (source,) = open_sources(str(path), options=SourceOptions())
    told = [note for note in source.notes if "CP1252" in note]
    assert len(told) == (encoding == "cp1252")


def test_texts_of_a_file_that_says_their_encoding(tmp_path: Path) -> None:
    path = shapefile(
        tmp_path / "a", [("Łódź", "1")], (("ź", "C", 12, 0), TEXTS[1]), "cp1250", "1250"
    )
    assert [str(text).strip() for text in taken(path)["ź"]] == ["Łódź"]
    wrong = shapefile(tmp_path / "b", ODD, TEXTS, "cp1252", "UTF-8")
    with pytest.raises(InvalidFileError, match="not encoded as it says"):
        taken(wrong)


def test_a_character_that_was_cut_off_makes_no_other_encoding(tmp_path: Path) -> None:
    path = shapefile(tmp_path / "a", ODD, TEXTS, "utf-8")
    data = path.with_suffix(".dbf").read_bytes()
    cut = "plainplain€".encode()[:12]
    path.with_suffix(".dbf").write_bytes(data.replace(b"       plain", cut))
    assert text_encoding(str(path)) == "UTF-8"


def test_whole_numbers_that_are_rounded_are_told(tmp_path: Path) -> None:
    columns = (("long", "N", 20, 0), ("short", "N", 20, 0), ("part", "N", 24, 2))
    rows = [("9223372036854775807", "123456789012345", "12345678901234567.25")]
    path = shapefile(tmp_path / "a", rows, columns)
    (source,) = open_sources(str(path), options=SourceOptions())
    assert [note.split("'")[1] for note in source.notes if "may be rounded" in note] == ["long"]
