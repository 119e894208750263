"""Parquet files whose columns are not what is declared of them, and damaged ones."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.errors import GeometryError, HavasuError, InvalidFileError
from tests.exchange.reading import open_one, read_all
from tests.exchange.tables import points

ROOT = Path(__file__).parents[2]
GOOD = points((1, 2), (3, 4))


def described(path: Path, column: Any, **said: Any) -> Path:
    """Write a column that its document describes in some way."""
    document = {"version": "1.1.0", "primary_column": "g", "columns": {"g": said}}
    table = pa.table({"id": [1, 2], "g": column})
    pq.write_table(table.replace_schema_metadata({"geo": json.dumps(document)}), path)
    return path


def refused(path: Path) -> HavasuError:
    with pytest.raises(HavasuError) as caught:
        read_all(open_one(path))
    message = caught.value.message
    assert "\n" not in message and len(message) < 400
    return caught.value


@pytest.mark.parametrize(
    ("column", "said", "cause"),
    [
        (pa.array([1, 2]), {"encoding": "WKB"}, "holds no bytes but int64"),
        (pa.array(["POINT (1 2)", "x"]), {"encoding": "WKB"}, "holds no bytes but string"),
        (pa.array([b"nonsense", b""]), {"encoding": "WKB"}, "row 1: its geometry cannot be used"),
        (GOOD, {"encoding": "point"}, "not of the GeoArrow type 'point'"),
        (pa.array([[1.0], [2.0]]), {"encoding": "polygon"}, "'polygon'"),
        (pa.array([{"x": 1.0}, {"x": 2.0}]), {"encoding": "point"}, "'point'"),
        (pa.array([{"x": "a", "y": "b"}] * 2), {"encoding": "point"}, "'point'"),
        (GOOD, {"encoding": "TWKB"}, "unknown geometry encoding 'TWKB'"),
        (GOOD, {"encoding": "WKB", "crs": {"type": "Nonsense"}}, "coordinate reference system"),
        (GOOD, {"encoding": "WKB", "geometry_types": [1]}, "geometry_types"),
    ],
)
def test_a_column_that_is_declared_in_a_wrong_way(
    column: Any, said: dict[str, Any], cause: str, tmp_path: Path
) -> None:
    assert cause in refused(described(tmp_path / "a.parquet", column, **said)).message


@pytest.mark.parametrize("document", [b"{", b"[]", b"{}", b'{"columns": {"other": {}}}', b"\xff"])
def test_documents_that_describe_nothing(document: bytes, tmp_path: Path) -> None:
    table = pa.table({"g": GOOD}).replace_schema_metadata({b"geo": document})
    pq.write_table(table, tmp_path / "a.parquet")

    assert isinstance(refused(tmp_path / "a.parquet"), InvalidFileError)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"PARE" * 9, b"PK\3\4" + bytes(99)])
def test_other_bytes_in_a_file_called_parquet(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(content)

    error = refused(tmp_path / "a.parquet")
    assert isinstance(error, InvalidFileError)
    assert error.hints


def test_a_box_column_that_is_none(tmp_path: Path) -> None:
    # What says where rows are is of no use here, and the rows are sound all the same.
    covering = {"bbox": {axis: ["id", axis] for axis in ("xmin", "ymin", "xmax", "ymax")}}
    path = described(tmp_path / "a.parquet", GOOD, encoding="WKB", covering=covering)

    assert read_all(open_one(path, bbox=(0, 0, 2, 3))).num_rows == 1


def test_one_bad_value_among_many_names_its_row(tmp_path: Path) -> None:
    column = pa.array([*GOOD.to_pylist()[:1], b"\x01\x02"], pa.binary())
    error = refused(described(tmp_path / "a.parquet", column, encoding="WKB"))

    assert isinstance(error, GeometryError)
    assert "row 2" in error.message


CHILD = """
import random, sys
from pathlib import Path
from havasu_vc.errors import HavasuError
from tests.exchange.reading import open_one
from havasu_vc.model.task import run_task
whole, place = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
chance = random.Random(7)
for number in range(150):
    data = bytearray(whole)
    for _ in range(chance.choice([1, 1, 3])):
        at = chance.randrange(len(data) // 2 if number % 2 else 4, len(data))
        data[at] = chance.choice([0, 255, 127, chance.randrange(256)])
    place.write_bytes(data)
    try:
        for task in open_one(place).tasks():
            for _ in run_task(task):
                pass
    except HavasuError as error:
        assert "\\n" not in error.message, error.message
print("all held")
"""


def test_bytes_changed_anywhere_are_an_error_or_another_file(tmp_path: Path) -> None:
    """In a process of its own: what crashes Arrow would take the tests along."""
    path = described(tmp_path / "a.parquet", GOOD, encoding="WKB", geometry_types=["Point"])

    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(tmp_path / "b.parquet")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert done.stdout == "all held\n", done.stderr[-2000:]


@pytest.mark.thorough
def test_a_text_that_repeats_itself_to_fill_the_memory(tmp_path: Path) -> None:
    table = pa.table({"id": [1, 2], "name": ["0" * (40 << 20)] * 2})
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression="zstd", use_dictionary=False)
    error = refused(path)
    assert "column 'name' would take 80 MB of memory for 3 kB" in error.message
    pq.write_table(table, path, compression="snappy", use_dictionary=False)
    assert len(read_all(open_one(path))) == 2, "as the hint says"


def test_a_dictionary_that_repeats_a_text_to_fill_the_memory(tmp_path: Path) -> None:
    indices = pa.array([0] * 60_000, pa.int32())
    names = pa.DictionaryArray.from_arrays(indices, pa.array(["0" * 20_000]))
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(60_000), "name": names}), path)
    assert "60,000 rows of column 'name' hold 1,144 MB" in refused(path).message
    names = pa.DictionaryArray.from_arrays(indices, pa.array(["0" * 200]))
    pq.write_table(pa.table({"id": range(60_000), "name": names}), path)
    assert len(read_all(open_one(path))) == 60_000
