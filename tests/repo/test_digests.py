"""Digests after everything that makes some: as the page says, worked out by hand from the rows.

Each commit's sums are compared with those that `tests.datasets.digest_by_hand` finds, value by
value and in both lanes, in a table of every type with geometries of several SRIDs. What an
import gives is pinned as well, so that the two cannot change together.
"""

from __future__ import annotations

import datetime as dt
import json
import struct
import uuid
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import shapely

from havasu_vc import Repo, Settings
from havasu_vc.cli.main import cli, run
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.exchange.source import SourceOptions
from tests.datasets.digest_by_hand import of_rows
from tests.repo.tables import BY_ID, NO_KEY, write
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = pa.struct([("a", pa.int32()), ("b", pa.list_(pa.string()))])
TYPES = pa.schema(
    [
        ("id", pa.int64()),
        ("shape", pa.binary()),
        ("flag", pa.bool_()),
        ("small", pa.int32()),
        ("narrow", pa.float32()),
        ("wide", pa.float64()),
        ("money", pa.decimal128(9, 2)),
        ("huge", pa.decimal128(38, 3)),
        ("day", pa.date32()),
        ("hour", pa.time64("us")),
        ("local", pa.timestamp("us")),
        ("instant", pa.timestamp("us", "UTC")),
        ("text", pa.string()),
        ("token", pa.uuid()),
        ("fixed", pa.binary(5)),
        ("data", pa.binary()),
        ("parts", PARTS),
        ("words", pa.list_(pa.string())),
        ("named", pa.map_(pa.string(), pa.float64())),
    ]
)


def ewkb(number: int) -> bytes:
    """Return a point with an SRID, of which there are several and none."""
    srid = (0, 4326, 2193, 999999)[number % 4]
    point = shapely.set_srid(shapely.Point(number * 1.5 - 20, 40 - number), srid)
    return bytes(shapely.to_wkb(point, include_srid=srid != 0, byte_order=1))


def row(number: int) -> dict[str, Any]:
    """Return a row; every seventh value is null."""
    n = number
    values = {
        "shape": ewkb(n),
        "flag": n % 2 == 0,
        "small": n * (-1) ** n,
        "narrow": n / 3,
        "wide": float("nan") if n % 11 == 10 else -n / 7,
        "money": Decimal(n * 137 - 2000) / 100,
        "huge": Decimal(n - 20) * 10**30 + Decimal("0.125"),
        "day": dt.date(1969, 12, 20) + dt.timedelta(n),
        "hour": dt.time(n % 24, 1, 2, n),
        "local": dt.datetime(1965 + n, 1, 2, 3, 4, 5, n),
        "instant": dt.datetime(1965 + n, 1, 2, tzinfo=dt.UTC),
        "text": "ä" * n + "x" * (n % 9),
        "token": uuid.UUID(int=n << 64 | n),
        "fixed": bytes([n] * 5),
        "data": bytes(range(n)),
        "parts": {"a": n if n % 3 else None, "b": [str(n), None] if n % 4 else None},
        "words": [str(each) if each % 2 else None for each in range(n % 5)],
        "named": [(f"k{each}", each / 2 if each else None) for each in range(n % 4)],
    }
    kept = {
        name: None if (n + at) % 7 == 6 else value
        for at, (name, value) in enumerate(values.items())
    }
    return {"id": n * 1000 - 5000, **kept}


def table(*numbers: int) -> pa.Table:
    rows = [row(number) for number in numbers]
    columns = {}
    for field in TYPES:
        values = [each[field.name] for each in rows]
        if field.name == "token":
            raw = pa.array([None if v is None else v.bytes for v in values], pa.binary(16))
            columns[field.name] = pa.ExtensionArray.from_storage(pa.uuid(), raw)
        else:
            columns[field.name] = pa.array(values, field.type)
    return pa.table(columns)


def digests(repo: Repo, dataset: str = "all", revision: str = "HEAD") -> dict[int, tuple[int, int]]:
    view = repo.dataset(dataset, revision)
    assert isinstance(view, HavasuDataset)
    return dict(view.snapshot.digests)


def assert_by_hand(repo: Repo, dataset: str = "all", revision: str = "HEAD") -> None:
    found = repo.table(dataset, revision)
    rows = [dict(each) for each in found.to_arrow().to_pylist()]
    expected = of_rows(rows, found.schema)
    assert digests(repo, dataset, revision) == expected
    assert sum(digest != (0, 0) for digest in expected.values()) == len(expected)


def made(folder: Path, options: SourceOptions = BY_ID, count: int = 40) -> Repo:
    repo = empty_repo(folder / "repo", settings=Settings(engine="local"))
    repo.import_(write(folder / "all.parquet", table(*range(count))), options=options)
    assert run(cli, ["-C", str(repo.path), "convert", "all", "--geometry", "shape=EWKB"]) == 0
    return Repo.open(repo.path, settings=Settings(engine="local"))


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return made(tmp_path)


def test_every_type_and_srid_is_there(repo: Repo) -> None:
    schema = repo.dataset("all").schema
    kinds = {str(field.type) for field in schema.fields}
    # Geometries are binary, as `data` is.
    assert len(kinds) == len(TYPES) - 1 and schema.by_name["shape"].geometry is not None
    assert_by_hand(repo)


def test_an_import_is_pinned(repo: Repo) -> None:
    """In hexadecimal, as `snapshot.json` has them."""
    names = repo.dataset("all").schema.by_id
    found = {names[n].name: f"{a:016x}{b:016x}" for n, (a, b) in digests(repo).items()}
    golden = Path(__file__).with_name("digests.json")
    assert found == json.loads(golden.read_text())


def test_without_a_key(tmp_path: Path) -> None:
    repo = made(tmp_path, NO_KEY)
    assert_by_hand(repo)
    repo.write("all", table(50, 50), mode="append")
    assert_by_hand(repo)


def test_edits(repo: Repo) -> None:
    other = table(3, 4, 5, 60, 61)
    other = other.set_column(1, "shape", pa.array([ewkb(n) for n in range(5)], pa.binary()))
    repo.write("all", other)
    assert_by_hand(repo)
    repo.write("all", table(7, 8, 60).select(["id"]), mode="delete")
    assert_by_hand(repo)
    repo.write("all", table(*range(10, 20)), mode="overwrite")
    assert_by_hand(repo)


def test_a_change_of_srid_alone(repo: Repo) -> None:
    before = digests(repo)
    moved = bytearray(ewkb(5))
    moved[5:9] = struct.pack("<i", 3857)
    repo.write("all", pa.table({"id": [0], "shape": pa.array([bytes(moved)], pa.binary())}))
    number = repo.dataset("all").schema.by_name["shape"].id
    changed = {each for each, digest in digests(repo).items() if digest != before[each]}
    assert changed == {number}
    assert all(old != new for old, new in zip(before[number], digests(repo)[number], strict=True))
    assert_by_hand(repo)


def test_a_release(repo: Repo, tmp_path: Path) -> None:
    file = write(tmp_path / "next.parquet", table(*range(5, 30), 70))
    assert run(cli, ["-C", str(repo.path), "import", str(file), "all", "--replace"]) == 0
    assert_by_hand(repo)


def test_a_merge(repo: Repo) -> None:
    repo.create_branch("side")
    repo.write("all", table(80, 81))
    repo.write("all", table(3).select(["id"]), mode="delete")
    repo.switch("side")
    repo.write("all", pa.table({"id": [-1000], "text": ["side"]}))
    repo.write("all", table(5).select(["id"]), mode="delete")
    repo.switch("main")
    assert repo.merge("side").kind == "merge"
    assert_by_hand(repo)


def test_columns_that_come_and_go(repo: Repo) -> None:
    columns = repo.get_meta("all", ["schema.json"])["schema.json"]
    columns = [each for each in columns if each["name"] != "text"]
    columns.append({"name": "more", "dataType": "text"})
    repo.set_meta("all", {"schema.json": columns})
    repo.write("all", pa.table({"id": [0, 1000], "more": ["a", "b"]}))
    assert_by_hand(repo)


@pytest.mark.thorough
def test_files_that_are_folded_and_laid_out_anew(tmp_path: Path) -> None:
    repo = made(tmp_path, count=200)
    for number in range(12):
        repo.write("all", pa.table({"id": [number * 1000], "text": [f"{number}" * 300]}))
    before = digests(repo)
    assert run(cli, ["-C", str(repo.path), "optimize", "all"]) == 0
    assert digests(repo) == before
    assert_by_hand(repo)


def test_from_kart_and_its_table(tmp_path: Path) -> None:
    names = ["id", "flag", "small", "wide", "money", "day", "text", "data", "local"]
    repo = empty_repo(tmp_path / "repo", kart=True)
    given = table(*range(30)).select(names)
    repo.import_(write(tmp_path / "all.parquet", given), options=BY_ID)
    repo.write("all", table(31, 32).select(names))
    repo.convert("all", "havasu")
    assert_by_hand(repo)


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["upsert", "overwrite"])
def test_what_spark_writes(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    from havasu_vc.spark import read
    from havasu_vc.spark import write as commit_frame

    repo = made(tmp_path)
    frame = read(spark, repo, "all").where("id > 0")
    frame = frame.withColumn("text", frame.text.substr(1, 3))
    commit_frame(frame, repo, "all", mode=mode)
    assert_by_hand(repo)
