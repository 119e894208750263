"""Times with a zone say so, in what commands print of rows; Kart's and patches do not."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed
from tests.repo.tables import BY_ID
from tests.support.templates import empty_repo

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAIN, ZONED = "2026-01-01T12:00:00", "2026-01-01T12:00:00Z"


def made(folder: Path, *, kart: bool) -> Repo:
    """Return a repository with a row that has come, with moments of both types."""
    repo = empty_repo(folder / "repo", kart=kart)
    columns = {
        "id": pa.array([1], pa.int64()),
        "at": pa.array([NOON], pa.timestamp("us", "UTC")),
        "local": pa.array([NOON.replace(tzinfo=None)], pa.timestamp("us")),
    }
    if not kart:
        columns["all"] = pa.array([[NOON]], pa.list_(pa.timestamp("us", "UTC")))
    pq.write_table(pa.table(columns), folder / "moments.parquet")
    repo.import_(str(folder / "moments.parquet"), options=BY_ID)
    return repo


def printed(repo: Repo, *words: str) -> str:
    return succeed(invoke(["-C", repo.path, *words])).stdout


@pytest.mark.parametrize("kart", [False, True])
def test_rows_and_changes(tmp_path: Path, kart: bool) -> None:
    repo = made(tmp_path, kart=kart)
    assert printed(repo, "cat", "moments").splitlines()[1].startswith(f"1,{ZONED},{PLAIN}")
    (row,) = json.loads(printed(repo, "cat", "moments", "-o", "json"))
    assert (row["at"], row["local"]) == (ZONED, PLAIN)
    assert kart or row["all"] == [ZONED]

    told = PLAIN if kart else ZONED
    for words in (("show",), ("show", "-o", "json"), ("diff", "[EMPTY]...HEAD", "-o", "geojson")):
        text = printed(repo, *words)
        assert text.count(ZONED) == (0 if kart else 2) and text.count(told)


def test_patches_stay_as_they_were(tmp_path: Path) -> None:
    """What was written before is read, and so is one whose times have the zone."""
    repo = made(tmp_path, kart=False)
    repo.write("moments", pa.table({"id": [1], "all": pa.array([[NOON] * 2])}))
    patch = printed(repo, "create-patch", "HEAD")
    assert PLAIN in patch and ZONED not in patch
    for text in (patch, patch.replace(PLAIN, ZONED)):
        printed(repo, "reset", "HEAD^")
        succeed(invoke(["-C", repo.path, "apply", "-"], stdin=text))
        assert json.loads(printed(repo, "cat", "moments", "-o", "json"))[0]["all"] == [ZONED] * 2
