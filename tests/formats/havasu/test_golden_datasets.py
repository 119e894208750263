"""The golden datasets hold together: markers, entries, digests, key caches and rows agree.

They were written by an older version, so this is also the proof that it can be read.
"""

import hashlib
import json
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.datasets.digest import hash_rows
from havasu_vc.datasets.folder import MemoryFolder
from havasu_vc.datasets.havasu.deletes import read_positions
from havasu_vc.datasets.havasu.keys import build_key_cache, key_cache_path, write_key_cache
from havasu_vc.datasets.havasu.parquet import read_row_groups
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.datasets.storage import Storage
from havasu_vc.formats.havasu.entry import Content
from havasu_vc.formats.lfs import parse_pointer
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import run_task
from havasu_vc.store.files import DataFileStore
from tests.formats.havasu.golden import LONG, cases, documents, everything, keyless, parcels
from tests.model import plain_hashing as plain


@pytest.fixture(params=cases(), ids=lambda case: case.name)
def case(request: pytest.FixtureRequest) -> Path:
    found: Path = request.param
    return found


def opened(case: Path, scratch: Path) -> HavasuDataset:
    """Open a golden dataset, its files in a store and no key caches."""
    store = DataFileStore(scratch / "store")
    for path in (case / "objects").iterdir():
        copy = store.temporary()
        copy.write_bytes(path.read_bytes())
        assert store.put(copy)[0] == path.name
    storage = Storage(store, scratch / "keys", store)
    return HavasuDataset("parcels", MemoryFolder(documents(case)), storage)


def rows_of(dataset: HavasuDataset) -> list[dict[str, Any]]:
    batches = [batch for task in dataset.scan() for batch in run_task(task)]
    rows: list[dict[str, Any]] = pa.Table.from_batches(batches).to_pylist()
    return sorted(rows, key=str) if not dataset.key else sorted(rows, key=lambda row: row["id"])


def test_a_golden_dataset_is_sound(case: Path, tmp_path: Path) -> None:
    opened(case, tmp_path).check_guard()


def test_a_marker_stands_at_the_hash_of_its_key(tmp_path: Path) -> None:
    dataset = opened(next(c for c in cases() if c.name == "edited"), tmp_path)
    (key,) = dataset.schema.key.fields
    wanted = set()
    for number in (2, 3, 5, 7):
        digits = f"{plain.key_hash({key.id: plain.hash_value(number, key)}):016x}"
        wanted.add(f"0/{digits[:2]}/{digits[2:8]}")

    found = {name: blob for name, blob in dataset.folder.blobs("edits") if "/" in name}

    assert set(found) == wanted
    ids = {delta.id[:32].encode() for delta in dataset.deltas.values()}
    assert {dataset.folder.read_blob(blob) for blob in found.values()} <= {b"\0" + i for i in ids}


def test_an_id_and_its_bytes_are_those_of_the_page(case: Path) -> None:
    for path, data in documents(case).items():
        if not path.startswith("files/") or data.startswith(b"\0folded "):
            continue
        assert data.startswith(b"\0z")
        text = zlib.decompress(data[2:])
        assert text.endswith(b"}\n") and text.count(b"\n") == 1
        assert json.loads(text)["id"] == Path(path).stem == path.split("/")[1] + Path(path).stem[2:]


def test_entries_pointers_and_files_agree(case: Path, tmp_path: Path) -> None:
    dataset = opened(case, tmp_path)

    for entry in dataset.entries.values():
        data = (case / "objects" / entry.file).read_bytes()
        pointer = parse_pointer((case / entry.pointer_path).read_bytes())
        assert (
            (pointer.oid, pointer.size)
            == (entry.file, entry.size)
            == (
                hashlib.sha256(data).hexdigest(),
                len(data),
            )
        )
        metadata = pq.read_metadata(case / "objects" / entry.file)
        assert (metadata.num_rows, metadata.num_row_groups) == (entry.rows, len(entry.splits))
        if entry.content is Content.DELETES:
            found = read_positions(dataset.file_path(entry))
            assert {file: len(positions) for file, positions in found.items()} == entry.targets
            assert set(entry.targets) <= {e.file for e in dataset.data_entries}


def test_sums_are_those_of_the_rows(case: Path, tmp_path: Path) -> None:
    dataset = opened(case, tmp_path)
    entries = dataset.entries.values()
    rows = rows_of(dataset)

    assert dataset.snapshot.rows == len(rows)
    assert dataset.snapshot.size == sum(entry.size for entry in entries)
    assert dataset.snapshot.deleted_rows == sum(sum(e.targets.values()) for e in entries)
    assert dict(dataset.snapshot.digests) == digests_of(rows, dataset.schema)


def digests_of(rows: list[dict[str, Any]], schema: Schema) -> dict[int, tuple[int, int]]:
    """Return digests as `docs/format/digests.md` says, without the code that it describes."""
    cells: dict[int, list[int]] = {field.id: [] for field in schema.fields}
    for row in rows:
        values = {
            field.id: None if row[field.name] is None else plain.hash_value(row[field.name], field)
            for field in schema.fields
        }
        key = plain.whole_row_key(values)
        if schema.key:
            key = plain.key_hash({field.id: values[field.id] or 0 for field in schema.key.fields})
        for number, value in values.items():
            if value is not None:
                cells[number].append(plain.cell(key, number, value))
    return {number: plain.digest(found) for number, found in cells.items()}


def test_key_caches_are_those_of_the_rows(case: Path, tmp_path: Path) -> None:
    dataset = opened(case, tmp_path)
    seen = 0
    for entry in dataset.data_entries:
        schema = dataset.past_schema(entry.schema)
        (batch,) = read_row_groups(dataset.file_path(entry), schema)
        hashed = hash_rows(batch, schema)
        path = key_cache_path(tmp_path / "keys", entry.file, schema)
        write_key_cache(path, build_key_cache(hashed.keys, hashed.rows))
        golden = case / "keys" / path.name
        assert path.read_bytes() == golden.read_bytes()
        seen += 1
    assert seen


def test_rows_of_edited(tmp_path: Path) -> None:
    dataset = opened(next(c for c in cases() if c.name == "edited"), tmp_path)
    expected = {row["id"]: row for row in parcels().to_pylist()}
    del expected[5]
    expected[2]["name"], expected[3]["name"] = "The Domain", "short"
    expected[7] = dict.fromkeys(expected[1]) | {"id": 7, "name": "Point Chevalier"}

    assert str(rows_of(dataset)) == str([expected[key] for key in sorted(expected)])
    assert any(row["name"] == LONG for row in parcels().to_pylist())


def test_rows_of_evolved(tmp_path: Path) -> None:
    dataset = opened(next(c for c in cases() if c.name == "evolved"), tmp_path)
    rows = {row["id"]: row for row in rows_of(dataset)}

    assert dataset.schema.names[1] == "title" and dataset.schema.names[-1] == "name"
    assert "ratio" not in dataset.schema.names
    assert (rows[1]["title"], rows[1]["name"]) == ("Albert", "new column of an old name")
    assert (rows[2]["title"], rows[2]["name"]) == ("The Domain", None)


def test_rows_of_everything(tmp_path: Path) -> None:
    dataset = opened(next(c for c in cases() if c.name == "everything"), tmp_path)
    wanted = everything().to_pydict()
    # Bytes to Arrow, whatever type the column has in a schema; and too large for a long.
    wanted["code"] = [None if each is None else each.bytes for each in wanted["code"]]
    wanted["huge"] = [None if each is None else Decimal(each) for each in wanted["huge"]]
    found = rows_of(dataset)

    for name, values in wanted.items():
        assert str([row[name] for row in found]) == str(values)


def test_rows_of_keyless(tmp_path: Path) -> None:
    dataset = opened(next(c for c in cases() if c.name == "keyless"), tmp_path)

    assert rows_of(dataset) == sorted(keyless().to_pylist(), key=str)
    assert not dataset.key
