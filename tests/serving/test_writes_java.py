"""Iceberg's Java library, which Spark, Trino and Flink share, writes through the catalog."""

import os
import pwd
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo, Settings
from havasu_vc.exchange.source import SourceOptions
from tests.serving.server import serving
from tests.support.templates import empty_repo

PROGRAM = Path(__file__).with_name("Writes.java")


@pytest.fixture
def jars() -> str:
    """Return the class path: Iceberg's runtime as Spark fetched it, and Spark's own jars."""
    pyspark = pytest.importorskip("pyspark")
    home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    found = sorted(home.glob(".ivy2*/jars/org.apache.iceberg_iceberg-spark-runtime-*.jar"))
    if not found:
        pytest.skip("Spark has fetched no runtime of Iceberg here")
    return f"{found[-1]}:{Path(pyspark.__file__).parent / 'jars'}/*"


@pytest.mark.spark
def test_javas_statements_are_commits_or_are_refused(tmp_path: Path, jars: str) -> None:
    repo = empty_repo(tmp_path / "repo", settings=Settings(engine="local"))
    table = pa.table({"id": pa.array(range(20), pa.int64()), "name": [f"n{n}" for n in range(20)]})
    pq.write_table(table, tmp_path / "in.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "in.parquet", "points", options=options)
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    with serving(repo.path, "--write", "main") as url:
        command = ["java", *quick, "-cp", jars, str(PROGRAM), url]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)

    steps = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    refused = {name: text for name, text in steps.items() if text != "ok"}
    assert len(steps) == 17
    assert refused.keys() == {"same key", "expire", "branch", "upgrade"}
    assert "made: two rows have the key id = 4" in refused["same key"]
    assert "GC is disabled" in refused["expire"]
    assert "branches and tags are git's" in refused["branch"]
    assert "are not upgraded to 3" in refused["upgrade"]
    assert [info.message.partition(" (")[0] for info in repo.log()][:-1] == [
        "drop x/moved",
        "rename made to x/moved",
        "overwrite points",
        "replace made",
        "replace made",
        "create made",
        "alter points",
        "alter points",
        "append points",
        "append points",
        "delete points",
        "overwrite points",
        "append points",
    ]
    before = {
        row["id"]: row["name"] for row in repo.table("points", "HEAD~3").to_arrow().to_pylist()
    }
    model = {n: f"n{n}" for n in range(20)} | {5: "five", 900: "a", 901: "b", 902: "c"}
    del model[6]
    assert before == model
    assert repo.table("points").to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "name": "o"},
        {"id": 2, "name": "p"},
    ]
    made = repo.table("made", "HEAD~2")
    assert made.to_arrow().to_pylist() == [{"id": 4, "name": "four"}]
    assert repo.dataset("made", "HEAD~2").schema.key.names == ("id",)
    assert list(Repo.open(repo.path).fsck(full=True)) == []
