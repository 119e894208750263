"""Iceberg's Spark reads and edits a table in a bucket, by a session of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import MissingProgramError, NotYetSupportedError, UnsupportedVersionError
from havasu_vc.spark.jars import (
    BUCKET_JAR_SETTING,
    JAR_VARIABLE,
    bucket_jars,
    bucket_settings,
    hadoop_version,
)
from havasu_vc.spark.session import session_settings
from tests.conftest import lacking
from tests.remotes.buckets import s3
from tests.remotes.sharing import bare, files, share
from tests.repo.points import make, read, write
from tests.support.git import run_git
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto
from tests.support.sound import LOCAL
from tests.support.spark import has_java

PACKAGE = Path(__file__).parents[2]
PROGRAM = """
import sys
from pyarrow.fs import S3FileSystem
from havasu_vc import spark
from havasu_vc import Repo
repo, url = Repo.open(sys.argv[1]), sys.argv[2]
try:
    session = spark.session(repo, tables=url, master="local[1]")
except Exception as error:
    print("NO JAR", error)
    raise SystemExit(0)
session.sql("UPDATE havasu.points SET name = 'by Spark' WHERE id < 3")
session.sql("INSERT INTO havasu.points VALUES (100, 'new', 7)")
session.sql("DELETE FROM havasu.points WHERE id = 9")
(row,) = session.sql("SELECT count(*) AS n, max(id) AS last FROM havasu.points").collect()
print("ROWS", row["n"], row["last"])
"""


FOLLOWED = """
import sys
from havasu_vc import spark
from havasu_vc.errors import UncommittedChangesError
from havasu_vc import Repo
repo = Repo.open(sys.argv[1])
try:
    session = spark.session(repo, master="local[1]")
except Exception as error:
    print("NO JAR", error)
    raise SystemExit(0)
session.sql("UPDATE havasu.points SET name = 'by Spark' WHERE id < 3")
session.sql("DELETE FROM havasu.points WHERE id = 9")
seen = repo.workspace.changes().tables["points"].rows
print("SEEN", seen.inserts, seen.updates, seen.deletes)
try:
    repo.switch("dev")
except UncommittedChangesError as error:
    print("REFUSED", error.message)
repo.workspace.commit(message="By Spark")
repo.switch("dev")
(row,) = session.sql("SELECT count(*) AS n, max(name) AS last FROM havasu.points").collect()
print("DEV", row["n"], row["last"])
repo.switch("main")
session.sql("ALTER TABLE havasu.points ADD COLUMN note string")
session.sql("MERGE INTO havasu.points t USING (SELECT 1L AS id) s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET note = 'merged'")
session.sql("CALL havasu.system.rewrite_data_files(table => 'points',"
            " options => map('rewrite-all', 'true'))")
print("AGAIN", repo.workspace.commit(message="Again").changes["points"].updates)
(row,) = session.sql("SELECT count(*) AS n, max(note) AS last FROM havasu.points").collect()
print("MAIN", row["n"], row["last"], repo.workspace.edited())
"""

COMMAND = """
from havasu_vc.cli.start import main

main()
"""


def test_settings_name_the_server_and_no_secret() -> None:
    environment = {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    found = bucket_settings("s3://maps", environment)
    assert "secret" not in json.dumps(found) and "somebody" not in json.dumps(found)
    assert found["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9"
    assert found["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    with pytest.raises(NotYetSupportedError):
        bucket_settings("gs://maps", {})


def test_hadoop_is_that_of_the_spark_here(tmp_path: Path) -> None:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    assert f"hadoop-aws:{hadoop_version(jars)}" in bucket_jars(jars)["spark.jars.packages"]
    with pytest.raises(UnsupportedVersionError):
        bucket_jars(tmp_path)


def test_jars_that_are_named(tmp_path: Path) -> None:
    jar = tmp_path / "hadoop-aws.jar"
    jar.write_bytes(b"")
    assert bucket_jars(tmp_path, ["none"]) == {}
    assert bucket_jars(tmp_path, [str(jar), "org:name:1"]) == {
        "spark.jars.packages": "org:name:1",
        "spark.jars": jar.as_uri(),
    }
    with pytest.raises(MissingProgramError, match="no jar at"):
        bucket_jars(tmp_path, [str(tmp_path / "none.jar")])


def test_jars_come_beside_that_of_iceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JAR_VARIABLE, "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0")
    repo = make(tmp_path / "ours", {1: ("one", 1)})
    repo.config.set("havasu.workspace.path", "s3://maps/all")
    repo.git.git("config", "--add", BUCKET_JAR_SETTING, "org:one:1")
    repo.git.git("config", "--add", BUCKET_JAR_SETTING, "org:two:2")
    found = session_settings(Repo.open(repo.path))
    assert found["spark.jars.packages"].split(",")[1:] == ["org:one:1", "org:two:2"]
    assert found["spark.sql.catalog.havasu.warehouse"] == "s3://maps/all"


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A place for tables in a bucket."""
    if not (has_java() and has_moto()):
        lacking("this needs Java and an S3 server: pip install 'moto[s3]' flask flask-cors")
    for name, value in S3_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    with moto() as endpoint:
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        s3(endpoint).create_dir("spark-tables")
        yield "s3://spark-tables/maps"


def run(text: str, tmp_path: Path, *arguments: str) -> str:
    """Run a program and return what it prints."""
    program = tmp_path / "program.py"
    program.write_text(text)
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PACKAGE)},
    )
    if "NO JAR" in done.stdout:
        lacking(f"this needs Maven Central once: {done.stdout}")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.spark
def test_spark_edits_a_table_in_a_bucket(tmp_path: Path, url: str) -> None:
    repo = make(tmp_path / "ours", {number: (f"row {number}", number) for number in range(20)})
    repo.workspace.check_out_to(url)

    assert "ROWS 20 100" in run(PROGRAM, tmp_path, str(repo.path), url)

    result = repo.workspace.commit_from(f"{url}/points")
    counts = result.changes["points"]
    assert (counts.inserts, counts.updates, counts.deletes) == (1, 3, 1)
    assert result.notes == ()
    rows = read(repo)
    assert rows[2] == ("by Spark", 2) and rows[100] == ("new", 7) and 9 not in rows
    assert list(repo.fsck(full=True)) == []


@pytest.mark.spark
def test_spark_edits_a_workspace_in_a_bucket(tmp_path: Path, url: str) -> None:
    repo = make(tmp_path / "ours", {number: (f"row {number}", number) for number in range(20)})
    repo.switch("dev", create=True)
    write(repo, {1: ("dev", 1)})
    repo.switch("main")
    repo.config.set("havasu.workspace.path", url)
    repo.workspace.check_out()

    told = run(FOLLOWED, tmp_path, str(repo.path)).splitlines()

    assert told == [
        "SEEN 0 3 1",
        "REFUSED points has edits that are not committed",
        "DEV 1 dev",
        "AGAIN 1",
        "MAIN 19 merged {}",
    ]
    assert read(repo)[1] == ("by Spark", 1, "merged")
    assert list(repo.fsck(full=True)) == []


@pytest.mark.spark
@pytest.mark.slow
def test_what_spark_edits_in_a_plain_clone_without_data_is_committed(
    tmp_path: Path, url: str
) -> None:
    """The old version's data is in the bucket alone, and what the commit reads of it comes."""
    data = f"{url}-data"
    ours = make(tmp_path / "ours", {number: (f"row {number}", number) for number in range(20)})
    share(ours, bare(tmp_path / "server.git"), data=data)
    run_git("clone", "-q", "-b", "main", "server.git", "plain", cwd=tmp_path)
    plain = tmp_path / "plain"
    settings = {"data.url": data, "data.fetch": "on-demand", "workspace.path": url}
    for name, value in settings.items():
        run_git("config", f"havasu.{name}", value, cwd=plain)
    run(COMMAND, tmp_path, "-C", str(plain), "checkout")
    assert files(plain) == []
    assert "ROWS 20 100" in run(PROGRAM, tmp_path, str(plain), url)

    words = ["commit", "-m", "By Spark", "--engine", "spark"]
    run(COMMAND, tmp_path, "-C", str(plain), *words)

    repo = Repo.open(plain, settings=LOCAL)
    rows = read(repo)
    edited = {number: ("by Spark", number) for number in range(3)} | {100: ("new", 7)}
    assert rows == {n: (f"row {n}", n) for n in range(20) if n != 9} | edited
    assert "Nothing to commit" in run(COMMAND, tmp_path, "-C", str(plain), "status")
    assert list(repo.fsck(full=True)) == []
