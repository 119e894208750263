"""Flink reads refs, writes commits and follows a branch through the catalog."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from havasu_vc import Repo, Settings
from havasu_vc.serving.client_config import CatalogAddress, settings_for
from tests.serving.server import catalog, serving
from tests.serving.test_feeds import Model, in_order, new_model
from tests.serving.test_reading import expected
from tests.serving.test_writes_spark import held

pytestmark = pytest.mark.thorough

PROGRAM = Path(__file__).with_name("Flink.java")
OPENED = "--add-opens=java.base/java.util=ALL-UNNAMED"
UPSERT = "/*+ OPTIONS('upsert-enabled'='true') */"
FOLLOW = "/*+ OPTIONS('streaming'='true', 'monitor-interval'='100ms', {}) */"


class Flink:
    """A process of Flink that runs statements."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def begin(self, statement: str) -> None:
        """Have a statement run; the word `tables` is one of Flink's own."""
        assert self._process.stdin is not None
        line = statement.replace("\n", " ").replace(".tables.", ".`tables`.").rstrip(";")
        print(line, file=self._process.stdin, flush=True)

    def answer(self) -> Any:
        """Return the rows of the statement that was begun first, or the text of an error."""
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def ask(self, statement: str) -> Any:
        """Return the rows of a statement, or the text of an error."""
        self.begin(statement)
        return self.answer()

    def attach(self, url: str, ref: str, name: str, more: str = "") -> None:
        """Give a ref a name, by the settings that we print."""
        said = settings_for("flink", CatalogAddress(url, ref)).replace("\n);", more + "\n);")
        assert self.ask(said.replace("havasu", name)) == [["OK"]]


@pytest.fixture(scope="module")
def flink(java_engines: Path) -> Iterator[Flink]:
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlog4j.rootLogger=OFF"]
    command = ["java", OPENED, *quick, "-cp", f"{java_engines / 'flink'}/*", str(PROGRAM)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-3, text=True) as process:
        try:
            yield Flink(process)
        finally:
            process.kill()


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return new_model(tmp_path)


@pytest.fixture
def written(model: Model) -> Iterator[str]:
    with serving(model.repo.path, "--write", "main") as found:
        yield found


def test_refs_and_versions_are_read(repo: Repo, url: str, flink: Flink) -> None:
    for name, ref in {"head": "main", "released": "v1", "every_ref": "*"}.items():
        flink.attach(url, ref, name)
    flink.attach(url, "main", "inside", ",\n  'base-namespace' = 'a'")
    rows = [
        [row["id"], row["name"], row["geom"] and row["geom"].hex()]
        for row in expected(repo, "points")
    ]
    assert flink.ask("SELECT id, name, geom FROM head.tables.points ORDER BY id") == rows
    assert flink.ask("SELECT count(*) FROM released.tables.points") == [[2000]]
    assert flink.ask("SELECT count(*) FROM head.tables.`points@feature/x`") == [[2001]]
    assert flink.ask("SELECT count(*) FROM inside.b.deep") == [[2000]]
    joined = "every_ref.main.points JOIN every_ref.`feature/x`.points f ON points.id = f.id"
    assert flink.ask(f"SELECT count(*) FROM {joined}") == [[1998]]
    for each in catalog(url, "main").load_table("tables.points").snapshots():
        before = expected(repo, "points", each.summary["havasu-vc.commit"])
        at = f"points /*+ OPTIONS('snapshot-id'='{each.snapshot_id}') */"
        found = flink.ask(f"SELECT id, name FROM head.tables.{at} ORDER BY id")
        assert found == [[row["id"], row["name"]] for row in before]


def test_statements_are_commits(model: Model, written: str, flink: Flink) -> None:
    repo = model.repo
    repo.create_tag("v1")
    flink.attach(written, "main", "served")
    flink.attach(written, "v1", "tagged")
    rows, first = held(repo), len(list(repo.log()))
    insert = "INSERT INTO served.tables.points {} VALUES {}"
    assert flink.ask(insert.format("", "(200, 'a'), (201, 'b')")) == []
    assert flink.ask(insert.format(UPSERT, "(201, 'c'), (202, CAST(NULL AS STRING))")) == []
    rows |= {200: "a", 201: "c", 202: None}
    assert held(repo) == rows
    assert "two rows have the key id = 200" in flink.ask(insert.format("", "(200, 'again')"))
    query = "SELECT id, name FROM served.tables.points"
    made = f"CREATE TABLE served.tables.made WITH ('havasu.key' = 'id') AS {query}"
    assert flink.ask(made) == []
    assert held(repo, "made") == rows
    assert repo.dataset("made").schema.key.names == ("id",)
    flink.ask(f"INSERT OVERWRITE served.tables.made {query} WHERE id > 200")
    assert held(repo, "made") == {201: "c", 202: None}
    for statement in (
        "CREATE TABLE served.a.fresh (id BIGINT NOT NULL, PRIMARY KEY (id) NOT ENFORCED)",
        "ALTER TABLE served.a.fresh ADD more DOUBLE",
        "ALTER TABLE served.a.fresh RENAME TO renamed",
        "DROP TABLE served.tables.made",
    ):
        assert flink.ask(statement) == [["OK"]]
    assert repo.datasets() == ("a/others", "a/renamed", "points")
    assert repo.dataset("a/renamed").schema.names == ("id", "more")
    assert repo.dataset("a/renamed").schema.key.names == ("id",)
    subjects = [info.message.partition(" (")[0] for info in repo.log()][:-first]
    assert subjects[::-1] == [
        "append points",
        "overwrite points",
        "create made",
        "append made",
        "overwrite made",
        "create a/fresh",
        "alter a/fresh",
        "rename a/fresh to a/renamed",
        "drop made",
    ]
    into = "INSERT INTO tagged.tables.points VALUES (900, 'x')"
    assert "does not support endpoint" in flink.ask(into)
    assert held(repo) == rows
    assert list(Repo.open(repo.path, settings=Settings(engine="local")).fsck(full=True)) == []


def test_a_stream_follows_a_branch(model: Model, written: str, flink: Flink) -> None:
    flink.attach(written, "main", "followed")
    before = len(model.done)
    start = FOLLOW.format("'starting-strategy'='TABLE_SCAN_THEN_INCREMENTAL'")
    query = "SELECT _commit_id, _change_type, id, name FROM followed.tables.points__changes"
    flink.begin(f"STREAM {before + 7} {query} {start}")
    for change in (
        lambda: model.write((1, "one"), (9, "nine")),
        lambda: model.delete(2),
        model.repo.optimize,
        lambda: model.write((9, None), (10, "ten")),
    ):
        time.sleep(2)
        change()
    assert len(model.done) == before + 7
    found = [(commit, kind, {"id": n, "name": name}) for commit, kind, n, name in flink.answer()]
    assert in_order(found) == in_order(model.done)

    # Another one goes on after a commit that a first one has seen.
    feed = catalog(written).load_table("tables.points__changes")
    seen = feed.current_snapshot().snapshot_id
    on = FOLLOW.format(
        f"'starting-strategy'='INCREMENTAL_FROM_SNAPSHOT_ID', 'start-snapshot-id'='{seen}'"
    )
    newest = sum(each[0] == model.repo.head().commit for each in model.done)
    model.delete(10)
    flink.begin(f"STREAM {newest + 1} {query} {on}")
    found = [(commit, kind, {"id": n, "name": name}) for commit, kind, n, name in flink.answer()]
    assert in_order(found) == in_order(model.done[-newest - 1 :])
