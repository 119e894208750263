"""What a delete file carries, what it leaves to the data file, and how that is told again.

The digests are worked out here once more from what `docs/format` says of them, for they
stand in files that others keep.
"""

import hashlib
import struct
from datetime import datetime
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from havasu_vc.datasets.havasu.delete_writing import write_delete_file
from havasu_vc.datasets.havasu.deletes import (
    LARGE,
    Deletion,
    are_large,
    deleted_places,
    large_digest,
    needs_data_files,
    needs_originals,
    read_deleted_keys,
    read_deleted_rows,
    read_positions,
)
from havasu_vc.datasets.havasu.plan import FileLayout
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import CorruptDataFileError
from havasu_vc.formats.havasu.entry import Origin
from havasu_vc.model.rasters import RASTER_TYPE, raster_field
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import Field, Primitive
from havasu_vc.store.files import DataFileStore
from havasu_vc.testing.tables import batch_of
from tests.repo.tables import BY_ID, write
from tests.support.templates import empty_repo

BAND = {
    "pixel_type": 4,
    "no_data": b"\x01",
    "data": b"ab",
    "out_db_band_no": None,
    "out_db_url": "f.tif",
}
NULL = b"\xff" * 8


def whole(number: int) -> bytes:
    return struct.pack("<q", number)


def counted(data: bytes) -> bytes:
    return whole(len(data)) + data


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ("Öl", "Öl".encode()),
        (b"\x00\x01", b"\x00\x01"),
        (None, b""),
        ({"width": 3, "scale": 0.5}, whole(3) + struct.pack("<d", 0.5)),
        ({"bands": [], "crs_wkt": None}, whole(0) + NULL),
        (
            {"band_1": BAND, "bands": [BAND, None]},
            (band := whole(4) + counted(b"\x01") + counted(b"ab") + NULL + counted(b"f.tif"))
            + whole(2)
            + band
            + NULL,
        ),
    ],
)
def test_digests_of_large_values(value: Any, data: bytes) -> None:
    assert large_digest(value) == hashlib.sha256(data).digest()


def test_a_value_is_large_beyond_64_kib() -> None:
    sizes = [0, 1, 2**16 - 1, 2**16, 2**16 + 1]
    column = pa.array([b"x" * size for size in sizes] + [None], pa.binary())
    found = are_large(column, Field(1, "data", Primitive.BINARY))
    assert LARGE == 2**16
    assert found.tolist() == [False, False, False, False, True, False]


@pytest.mark.parametrize("place", ["band_1", "band_2", "band_3", "band_4", "bands"])
def test_a_raster_is_as_large_as_all_its_pixels(place: str) -> None:
    def raster(*sizes: int) -> dict[str, Any]:
        bands = [dict(BAND, data=b"x" * size) for size in sizes]
        named = dict.fromkeys(("band_1", "band_2", "band_3", "band_4"))
        return {
            "width": 1,
            "height": 1,
            "num_bands": 1,
            "crs_wkt": None,
            "geo_reference": dict.fromkeys(
                ("scale_x", "scale_y", "skew_x", "skew_y", "upperleft_x", "upperleft_y"), 1.0
            ),
            "bands": bands if place == "bands" else [dict(BAND, data=b"x" * 7)],
            **named,
            **({} if place == "bands" else {place: bands[0]}),
        }

    most = LARGE if place == "bands" else LARGE - 7
    rasters = [raster(most), raster(most + 1), raster(0)]
    if place == "bands":
        rasters += [raster(most // 2, most // 2), raster(most // 2, most // 2, 1)]
    found = are_large(pa.array(rasters, RASTER_TYPE), raster_field(1, "picture", 2))
    assert found.tolist() == [False, True, False, False, True][: len(rasters)]


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """Notes of all sizes about the limit, of which the even ones were deleted."""
    sizes = [10, 2**16, 2**16 + 1, 70_000, 2**16 - 1, 90_000, 80_000, 3]
    table = pa.table(
        {
            "id": range(len(sizes)),
            "note": [chr(97 + n) * size for n, size in enumerate(sizes)],
            "data": [b"z" * 66_000 if n == 4 else None for n in range(len(sizes))],
        }
    )
    found = empty_repo(tmp_path / "repo")
    found.import_(write(tmp_path / "t.parquet", table), options=BY_ID)
    found.write("t", pa.table({"id": [0, 2, 4, 6]}), mode="delete")
    return found


def delete_file(repo: Repo) -> tuple[HavasuDataset, str]:
    view = repo.dataset("t")
    assert isinstance(view, HavasuDataset)
    (entry,) = view.delete_entries
    return view, view.file_path(entry)


def test_a_delete_file_carries_what_is_not_large(repo: Repo) -> None:
    _, path = delete_file(repo)
    rows = pq.read_table(path).to_pylist()
    assert [len(each["row"]["note"] or "") for each in rows] == [10, 0, 2**16 - 1, 0]
    assert [each["row"]["data"] for each in rows] == [None] * 4
    assert [[i["field"] for i in each["large"] or []] for each in rows] == [[], [2], [3], [2]]
    assert needs_originals(path)


def test_a_delete_file_has_the_columns_of_a_data_file(tmp_path: Path) -> None:
    table = pa.table(
        {
            "id": [1, 2],
            "uuid": pa.array([b"0123456789abcdef"] * 2, pa.binary(16)),
            "exact": pa.array([Decimal("1.5"), None], pa.decimal128(12, 2)),
            "time": pa.array([datetime(2001, 2, 3), None], pa.timestamp("us", "UTC")),
            "list": pa.array([[1], None], pa.list_(pa.int32())),
        }
    )
    found = empty_repo(tmp_path / "repo")
    found.import_(write(tmp_path / "t.parquet", table), options=BY_ID)
    columns = found.get_meta("t", ["schema.json"])["schema.json"]
    columns[2]["name"] = "called otherwise now"
    found.set_meta("t", {"schema.json": columns})
    found.write("t", pa.table({"id": [1]}), mode="delete")

    view, path = delete_file(found)
    (entry,) = view.data_entries
    data = pq.ParquetFile(view.file_path(entry)).schema
    deletes = pq.ParquetFile(path).schema
    by_path = {deletes.column(n).path: deletes.column(n) for n in range(len(deletes))}
    for name in ("file", "pos"):
        assert by_path[name].max_definition_level == 0
    for column in map(data.column, range(len(data))):
        same = by_path[f"row.{column.path}"]
        assert (same.physical_type, str(same.logical_type), same.length) == (
            column.physical_type,
            str(column.logical_type),
            column.length,
        )
        # Each may be null here, also what the table requires: a large value is not carried.
        assert same.max_definition_level > 1


def test_nothing_is_left_beside_the_files(repo: Repo) -> None:
    stored = {path.name for path in (repo.path / ".git" / "havasu").rglob("*") if path.is_file()}
    repo.write("t", pa.table({"id": [0]}), mode="delete")
    after = {path.name for path in (repo.path / ".git" / "havasu").rglob("*") if path.is_file()}
    assert after == stored


def test_the_rows_of_a_delete_file_are_whole(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    view, path = delete_file(repo)
    (entry,) = view.data_entries
    for share in (1, 16 << 20):
        monkeypatch.setattr("havasu_vc.datasets.havasu.deletes.SHARE_BYTES", share)
        found = list(
            read_deleted_rows(
                path, view.schema, read_positions(path), {entry.file: view.file_path(entry)}
            )
        )
        assert len(found) == (4 if share == 1 else 1)
        rows = [row for each in found for row in each.rows.to_pylist()]
        assert [(row["id"], len(row["note"])) for row in rows] == [
            *((0, 10), (2, 2**16 + 1), (4, 2**16 - 1), (6, 80_000))
        ]
        assert rows[2]["data"] == b"z" * 66_000


def test_row_groups_that_hold_no_wanted_row_are_passed_over(repo: Repo, tmp_path: Path) -> None:
    view, path = delete_file(repo)
    (entry,) = view.data_entries
    table = pq.read_table(path)
    cut = tmp_path / "cut.parquet"
    with pq.ParquetWriter(cut, table.schema) as writer:
        for number in range(len(table)):
            writer.write_table(table.slice(number, 1))
    # A group that nobody needs is not even read: its bytes may be anything.
    meta = pq.read_metadata(cut)
    bytes_ = bytearray(cut.read_bytes())
    for group in (0, 3):
        column = meta.row_group(group).column(2)
        start = column.dictionary_page_offset or column.data_page_offset
        bytes_[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    cut.write_bytes(bytes_)

    where = {entry.file: np.array([2, 4], np.int64)}
    paths = {entry.file: view.file_path(entry)}
    found = list(read_deleted_rows(str(cut), view.schema, where, paths))
    assert [row["id"] for each in found for row in each.rows.to_pylist()] == [2, 4]
    assert list(read_deleted_rows(str(cut), view.schema, {"other": where[entry.file]}, paths)) == []


@pytest.mark.parametrize("statistics", [False, ["file"], ["pos"]])
def test_delete_files_without_statistics_are_read_whole(
    repo: Repo, tmp_path: Path, statistics: bool | list[str]
) -> None:
    view, path = delete_file(repo)
    (entry,) = view.data_entries
    bare = tmp_path / "bare.parquet"
    pq.write_table(pq.read_table(path), bare, write_statistics=statistics)
    where = {entry.file: np.array([4], np.int64)}
    paths = {entry.file: view.file_path(entry)}
    found = list(read_deleted_rows(str(bare), view.schema, where, paths))
    assert [row["id"] for each in found for row in each.rows.to_pylist()] == [4]
    # Nor does it say then whether values were left to data files.
    assert needs_originals(str(bare))
    pq.write_table(pq.read_table(path).slice(0, 1), bare, write_statistics=statistics)
    assert not needs_originals(str(bare))


def test_rows_without_large_values_need_no_data_file(repo: Repo) -> None:
    repo.write("t", pa.table({"id": [7]}), mode="delete")
    view = repo.dataset("t")
    assert isinstance(view, HavasuDataset)
    needing = [needs_originals(view.file_path(entry)) for entry in view.delete_entries]
    assert sorted(needing) == [False, True]


def test_keys_and_places_of_deleted_rows(repo: Repo) -> None:
    view, path = delete_file(repo)
    (entry,) = view.data_entries
    (keys,) = read_deleted_keys(path, view.schema)
    assert keys.to_pydict() == {"id": [0, 2, 4, 6]}
    assert deleted_places(path, np.array([1, 3])) == [(entry.file, 2), (entry.file, 6)]


def test_a_delete_file_needs_data_files_for_large_values_and_for_later_columns(repo: Repo) -> None:
    repo.write("t", pa.table({"id": [7]}), mode="delete")
    view = repo.dataset("t")
    assert isinstance(view, HavasuDataset)
    paths = sorted(map(view.file_path, view.delete_entries), key=needs_originals)
    assert [needs_data_files(path, view.schema) for path in paths] == [False, True]
    later = Field(9, "later", Primitive.INT)
    after = Schema((*view.schema.fields, later), view.schema.identifier_ids)
    assert [needs_data_files(path, after) for path in paths] == [True, True]
    keys = Schema(view.schema.fields[:1], view.schema.identifier_ids)
    assert [needs_data_files(path, keys) for path in paths] == [False, True]


def test_of_deleted_rows_only_those_that_are_wanted_come(repo: Repo) -> None:
    view, path = delete_file(repo)
    (entry,) = view.data_entries
    paths = {entry.file: view.file_path(entry)}

    def read(*positions: int, without: int | None = None) -> list[int]:
        def kept(rows: pa.RecordBatch) -> pa.Array | None:
            return None if without is None else pc.not_equal(rows.column("id"), without)

        where = {entry.file: np.array(positions, np.int64)}
        found = read_deleted_rows(path, view.schema, where, paths, kept=kept)
        return [row["id"] for each in found for row in each.rows.to_pylist()]

    assert read(0, 2, 4, 6) == [0, 2, 4, 6]
    assert read(0, 2, 4, 6, without=2) == [0, 4, 6]
    # A position that this delete file does not carry is no row of it.
    assert read(1, 4, 5) == [4]
    assert read(2, without=2) == []


def test_rows_of_two_data_files_are_told_apart(tmp_path: Path) -> None:
    schema = Schema((Field(1, "id", Primitive.LONG, required=True),), (1,))
    store = DataFileStore(tmp_path / "store")
    one, other = "a" * 64, "b" * 64
    pieces = [
        Deletion(file, np.array([1, 2]), batch_of([{1: first + 1}, {1: first + 2}], schema))
        for file, first in ((one, 10), (other, 20))
    ]
    layout = FileLayout(schema, "columns", "parts", "order")
    written = write_delete_file(pieces, layout, store, origin=Origin.EDIT)
    assert written is not None
    path = str(store.path(written.entry.file))
    cut = tmp_path / "cut.parquet"
    pq.write_table(pq.read_table(path), cut, row_group_size=1)
    for place, (wanted, ids) in product(
        (path, str(cut)),
        (
            ({one: [1], other: [2]}, [11, 22]),
            ({one: [2]}, [12]),
            ({other: [1, 2]}, [21, 22]),
            ({one: [3], other: []}, []),
        ),
    ):
        where = {file: np.array(places, np.int64) for file, places in wanted.items()}
        found = list(read_deleted_rows(place, schema, where, {}))
        assert [row["id"] for each in found for row in each.rows.to_pylist()] == ids
        assert all(len(each.positions) for each in found)


def test_a_large_value_that_is_another_one_is_told(repo: Repo, tmp_path: Path) -> None:
    view, path = delete_file(repo)
    (entry,) = view.data_entries
    table = pq.read_table(view.file_path(entry))
    notes = table.column("note").to_pylist()
    notes[6] = "x" * len(notes[6])
    other = tmp_path / "other.parquet"
    index = table.schema.get_field_index("note")
    changed = table.set_column(index, table.schema.field("note"), [pa.array(notes)])
    pq.write_table(changed, other, store_schema=False)
    with pytest.raises(CorruptDataFileError, match="not the one recorded"):
        list(read_deleted_rows(path, view.schema, read_positions(path), {entry.file: str(other)}))
    with pytest.raises(CorruptDataFileError, match="has no data file"):
        list(read_deleted_rows(path, view.schema, read_positions(path), {}))


def test_deletes_of_one_file_may_come_in_pieces_in_order_of_files(tmp_path: Path) -> None:
    schema = Schema((Field(1, "id", Primitive.LONG, required=True),), (1,))
    store = DataFileStore(tmp_path / "store")
    layout = FileLayout(schema, "columns", "parts", "order")

    def gone(file: str, *keys: int) -> Deletion:
        return Deletion(file, np.array(keys), batch_of([{1: key} for key in keys], schema))

    one, other = "a" * 64, "b" * 64
    pieces = [gone(one, 1), gone(one), gone(one, 2, 5), gone(other, 0)]
    written = write_delete_file(pieces, layout, store, origin=Origin.EDIT)
    assert written is not None and written.entry.targets == {one: 3, other: 1}
    found = read_positions(str(store.path(written.entry.file)))
    assert {file: list(places) for file, places in found.items()} == {one: [1, 2, 5], other: [0]}

    with pytest.raises(ValueError, match="not in order"):
        write_delete_file([gone(other, 0), gone(one, 1)], layout, store, origin=Origin.EDIT)
    assert write_delete_file([gone(one)], layout, store, origin=Origin.EDIT) is None
    assert not list(store.temporary().parent.iterdir())
