"""The golden documents in `fixtures/format`, and how they were made.

`python -m tests.formats.havasu.golden` makes them anew. Their bytes are what an older
version wrote, so that is only for a new format version; see PROVENANCE.md there.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc.datasets.kinds import require_files
from havasu_vc.datasets.protocol import DatasetInFiles

FIXTURES = Path(__file__).parents[3] / "fixtures" / "format"

POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
"""POINT (1 2) as little-endian WKB."""
LONG = "long " * 20_000
"""A text that delete files carry as a digest."""


def documents(folder: Path) -> dict[str, bytes]:
    """Return the documents of a golden dataset by path, without its data files."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in ("objects", "keys")
    }


def cases() -> list[Path]:
    """Return the folders that are whole datasets."""
    return [found.parent for found in sorted(FIXTURES.glob("*/dataset.json"))]


def parcels() -> pa.Table:
    """Return the rows that `edited` and `evolved` began with."""
    return pa.table(
        {
            "id": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
            "name": ["Albert", "Domain", LONG, "Western Springs", None, "Myers"],
            "grade": pa.array([3, 1, 2, None, 255, 0], pa.uint8()),
            "area": pa.array(
                [
                    Decimal("12.50"),
                    None,
                    Decimal("-0.01"),
                    Decimal("4"),
                    Decimal("2"),
                    Decimal("9"),
                ],
                pa.decimal128(9, 2),
            ),
            "ratio": [0.5, float("nan"), None, -0.0, 1e300, 2.0],
            "surveyed": pa.array(
                [datetime(2026, 8, day, 9, 30, 0, 125000, tzinfo=UTC) for day in range(1, 7)],
                pa.timestamp("us", tz="UTC"),
            ),
            "tags": pa.array([["a"], [], None, ["b", None], ["c"], ["d"]], pa.list_(pa.string())),
            "geom": pa.array([POINT] * 5 + [None], pa.binary()),
        }
    )


def everything() -> pa.Table:
    """Return three rows with a column of every type."""
    return pa.table(
        {
            "id": pa.array([1, 2, 3], pa.int32()),
            "flag": [True, False, None],
            "whole": pa.array([1, -1, None], pa.int64()),
            "single": pa.array([1.5, float("nan"), None], pa.float32()),
            "double": pa.array([-0.0, 1e300, None], pa.float64()),
            "price": pa.array([Decimal("1.25"), Decimal("-99.99"), None], pa.decimal128(9, 2)),
            "huge": pa.array([2**64 - 1, 0, None], pa.uint64()),
            "day": pa.array([date(1970, 1, 1), date(1899, 12, 31), None]),
            "clock": pa.array([time(0, 0), time(23, 59, 59, 999999), None], pa.time64("us")),
            "local": pa.array([datetime(2026, 1, 1), None, None], pa.timestamp("us")),
            "moment": pa.array(
                [datetime(2026, 1, 1, tzinfo=UTC), None, None], pa.timestamp("ms", "UTC")
            ),
            "text": ["", "Whangārei", None],
            "code": pa.array([uuid.UUID(int=7).bytes, None, None], pa.uuid()),
            "hash": pa.array([b"\0\1\2\3", None, None], pa.binary(4)),
            "blob": pa.array([b"", b"\xff" * 20, None]),
            "list": pa.array([[1, None], [], None], pa.list_(pa.int32())),
            "struct": pa.array([{"a": 1, "b": "x"}, {"a": None, "b": None}, None]),
            "map": pa.array([[("k", 1.0)], [], None], pa.map_(pa.string(), pa.float64())),
            "small": pa.array([-128, 127, None], pa.int8()),
            "category": pa.array(["x", "y", None]).dictionary_encode(),
        }
    )


def keyless() -> pa.Table:
    """Return rows of a table without a key, two of them equal."""
    return pa.table({"name": ["a", "a", None, "b"], "n": pa.array([1, 1, 2, 3], pa.int32())})


def main() -> None:
    """Make the golden datasets."""
    import pyarrow.parquet as pq

    from havasu_vc import Repo, Settings
    from havasu_vc.datasets.havasu import edit as editing
    from havasu_vc.datasets.havasu import ledger
    from havasu_vc.exchange.source import SourceOptions

    numbers = iter(range(1, 100))
    with tempfile.TemporaryDirectory() as scratch, pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers)))
        repo = Repo.init(Path(scratch, "repo"), settings=Settings(engine="local"))
        source = Path(scratch, "source.parquet")
        for name, table, key in (
            ("parcels", parcels(), ("id",)),
            ("everything", everything(), ("id",)),
            ("keyless", keyless(), ()),
        ):
            geo = _geoparquet(table) if "geom" in table.column_names else table
            pq.write_table(geo, source, store_schema=True)
            repo.import_(source, name, options=SourceOptions(primary_key=key))
            if name != "parcels":
                _save(require_files(repo.dataset(name)), FIXTURES / name)
        repo.set_meta("parcels", {"title": "Parcels", "description": "Made for tests."})
        repo.write(
            "parcels",
            pa.table({"id": [2, 3, 7], "name": ["The Domain", "short", "Point Chevalier"]}),
        )
        repo.write("parcels", pa.table({"id": [5]}), mode="delete")
        _save(require_files(repo.dataset("parcels")), FIXTURES / "edited")
        columns = repo.get_meta("parcels", ["schema.json"])["schema.json"]
        columns[1]["name"] = "title"
        columns.append({"name": "name", "dataType": "text"})
        repo.set_meta("parcels", {"schema.json": [c for c in columns if c["name"] != "ratio"]})
        repo.write("parcels", pa.table({"id": [1], "name": ["new column of an old name"]}))
        _save(require_files(repo.dataset("parcels")), FIXTURES / "evolved")
        repo.optimize(["parcels"])
        patch.setattr(ledger, "MOST_KEYS", 1)
        patch.setattr(editing, "MOST_KEYS", 1)
        repo.write("parcels", pa.table({"id": [2, 4], "title": ["Domain", "Springs"]}))
        repo.write("parcels", pa.table({"id": [6], "title": ["Myers Park"]}))
        _save(require_files(repo.dataset("parcels")), FIXTURES / "closed")


def _geoparquet(table: pa.Table) -> pa.Table:
    column = {"encoding": "WKB", "geometry_types": ["Point"], "crs": None}
    geo = {"version": "1.1.0", "primary_column": "geom", "columns": {"geom": column}}
    return table.replace_schema_metadata({"geo": json.dumps(geo)})


def _save(view: DatasetInFiles, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for name, blob in view.folder.blobs(""):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(view.folder.read_blob(blob))
    for file in view.entries:
        for kind, found in (
            ("objects", [view.storage.path(file)]),
            ("keys", view.storage.keys.glob(f"{file}-????????????????")),
        ):
            for path in found:
                place = folder / kind / path.name
                place.parent.mkdir(exist_ok=True)
                place.write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
