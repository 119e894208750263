"""Tables with any bytes changed: rows, or one line that says what is wrong."""

import json
import os
import random
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc.errors import CorruptionError, HavasuError
from havasu_vc.model.schema import Schema
from havasu_vc.model.task import run_task
from havasu_vc.model.types import Field, Primitive
from havasu_vc.tables import positions
from havasu_vc.tables.scanning import scan_tasks
from havasu_vc.tables.snapshots import difference
from havasu_vc.tables.table import read_table
from tests.bench.process import run
from tests.support.templates import empty_repo
from tests.tables.making import TableMaker

SCHEMA = Schema((Field(1, "id", Primitive.INT), Field(2, "name", Primitive.STRING)))


@pytest.fixture
def maker(tmp_path: Path) -> TableMaker:
    return TableMaker(tmp_path / "t", SCHEMA)


def read_all(maker: TableMaker, old: int, new: int) -> None:
    table = read_table(maker.location)
    for task in scan_tasks(table):
        for batch in run_task(task):
            batch.to_pylist()
    difference(table, old, new)


def damaged(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 3])):
        place = chance.randrange(len(changed) or 1)
        match chance.randrange(8):
            case 0:
                del changed[place : place + chance.randrange(9)]
            case 1:
                del changed[place:]
            case 2:
                changed[place:place] = chance.randbytes(4)
            case _:
                changed[place : place + 1] = chance.randbytes(1)
    return bytes(changed)


@pytest.mark.parametrize("kind", ["*.json", "*.avro", "*.parquet", "*.text"])
@pytest.mark.few(1)
def test_any_bytes_may_be_wrong(maker: TableMaker, kind: str) -> None:
    data = maker.data([{"id": n, "name": f"n{n}"} for n in range(20)])
    old = maker.commit(data)
    maker.commit(maker.deletes(at=[(data, [1, 2])]))
    new = maker.commit(maker.equal([{"id": 5}], (1,)), maker.data([{"id": 7, "name": "é"}]))
    files = sorted(maker.location.rglob(kind))
    chance = random.Random(11)
    told = 0
    for _ in range(120):
        path = chance.choice(files)
        sound = path.read_bytes()
        path.write_bytes(damaged(sound, chance))
        try:
            read_all(maker, old, new)
        except HavasuError as error:
            told += 1
            assert len(str(error).splitlines()) == 1
        path.write_bytes(sound)
    read_all(maker, old, new)
    assert told or kind == "*.text"


def test_text_that_is_none(maker: TableMaker) -> None:
    schema = pa.schema([pa.field("name", pa.binary(), metadata={b"PARQUET:field_id": b"2"})])
    maker.commit(maker.data([{"name": b"\xff\xfe"}], schema=schema))

    with pytest.raises(CorruptionError):
        [list(run_task(task)) for task in scan_tasks(maker.table)]


def test_more_deletes_than_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"file_path": ["/a"] * 9, "pos": list(range(9))}), path)
    monkeypatch.setattr(positions, "_MOST_ROWS", 8)
    monkeypatch.setattr(positions, "_MOST_EQUALITY_ROWS", 8)

    with pytest.raises(CorruptionError, match="9 deletes"):
        positions.read_position_deletes(path)
    with pytest.raises(CorruptionError, match="9 rows"):
        positions.read_equality_deletes(str(path), SCHEMA, ((0,),))


@pytest.mark.thorough
@pytest.mark.parametrize("log", ["metadata-log", "snapshot-log"])
def test_a_log_of_a_million_lines_is_imported_in_little_memory(
    log: str, maker: TableMaker, tmp_path: Path
) -> None:
    """No more than four times its bytes, and 50 MB, above what the table takes without."""
    maker.commit(maker.data([{"id": n, "name": f"n{n}"} for n in range(20)]))
    repo = empty_repo(tmp_path / "repo")
    file = maker.table.metadata_file
    program = [str(Path(sys.executable).with_name("havasu-vc")), "-C", str(repo.path)]

    def memory(name: str) -> float:
        return run([*program, "import", f"iceberg:{maker.location}", name], os.environ).memory

    usual = memory("usual")
    lines = ",".join(
        f'{{"timestamp-ms":{n},"metadata-file":"m/v{n}{{[.json"}}'
        if log == "metadata-log"
        else f'{{"timestamp-ms": {n}, "snapshot-id": {maker.table.metadata.current_snapshot_id}}}'
        for n in range(1_000_000)
    )
    value = json.loads(file.read_text()) | {log: []}
    file.write_text(json.dumps(value).replace(f'"{log}": []', f'"{log}": [{lines}]'))

    assert memory("long") <= usual + (4 * file.stat().st_size + (50 << 20)) / 1e6
    assert repo.table("long").to_arrow().num_rows == 20
