"""Delta tables taken in, with or without their history."""

from pathlib import Path

import deltalake
import pyarrow as pa

from havasu_vc.exchange.source import SourceOptions
from tests.support.sound import CheckedRepo

KEY = SourceOptions(primary_key=("id",))


def table(folder: Path) -> str:
    """Make a table that is empty at first, then grows, loses a row, and is compacted."""
    place = str(folder / "roads")
    schema = pa.schema([("id", pa.int64()), ("kind", pa.string())])
    deltalake.write_deltalake(place, schema.empty_table())
    for number in range(3):
        rows = pa.table({"id": [number, number + 10], "kind": ["a", "b"]}, schema)
        deltalake.write_deltalake(place, rows, mode="append")
    deltalake.DeltaTable(place).delete("id = 11")
    deltalake.DeltaTable(place).optimize.compact()
    return place


def test_the_rows_of_a_version_come(repo: CheckedRepo, tmp_path: Path) -> None:
    place = table(tmp_path)

    result = repo.import_(f"delta:{place}", options=KEY)
    assert result.datasets["roads"].inserts == 5
    older = repo.import_(f"delta:{place}@2", "older", options=KEY)
    assert older.datasets["older"].inserts == 4


def test_each_version_becomes_a_commit(repo: CheckedRepo, tmp_path: Path) -> None:
    place = table(tmp_path)

    result = repo.import_(f"delta:{place}", options=KEY, history=True)

    assert (result.datasets["roads"].inserts, result.datasets["roads"].deletes) == (6, 1)
    messages = [entry.message for entry in repo.repo.log()]
    versions = [text.rpartition("Delta-Version: ")[2].strip() for text in messages[:5]]
    # The compaction changed no row.
    assert versions == ["4", "3", "2", "1", "0"]
    assert messages[1].startswith("WRITE of 20")
    assert repo.dataset("roads").snapshot.rows == 5
