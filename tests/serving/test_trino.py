"""Trino reads refs and writes commits through the catalog, by the settings that we print for it."""

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from shapely import from_wkb

from havasu_vc import Repo, Settings
from havasu_vc.serving.client_config import CatalogAddress, settings_for
from tests.serving.server import serving
from tests.serving.test_reading import expected
from tests.serving.test_writes_spark import Model, held

pytestmark = pytest.mark.thorough

STATEMENTS: tuple[tuple[str, Callable[[Model], Model]], ...] = (
    (
        "INSERT INTO {t} (id, name) VALUES (5200, 'a'), (5201, NULL)",
        lambda m: m | {5200: "a", 5201: None},
    ),
    (
        "UPDATE {t} SET name = 'updated' WHERE id < 5",
        lambda m: {k: "updated" if k < 5 else v for k, v in m.items()},
    ),
    ("DELETE FROM {t} WHERE id = 10", lambda m: {k: v for k, v in m.items() if k != 10}),
    (
        "MERGE INTO {t} t USING (VALUES (BIGINT '8', 'm'), (5300, 'n')) s (id, name) "
        "ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name "
        "WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, s.name)",
        lambda m: m | {8: "m", 5300: "n"},
    ),
)
Sql = Callable[..., list[list[Any]]]


@pytest.fixture(scope="module")
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path, "--write", "main") as found:
        yield found


@pytest.fixture(scope="module")
def sql(java_engines: Path, url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sql]:
    """Run a statement in a server of Trino, and return its rows."""
    folder = tmp_path_factory.mktemp("trino")
    (folder / "catalog").mkdir()
    for name, ref in {"main": "main", "old": "v1", "every": "*"}.items():
        said = settings_for("trino", CatalogAddress(url, ref))
        (folder / "catalog" / f"{name}.properties").write_text(said)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": port,
        "discovery.uri": f"http://127.0.0.1:{port}",
        "plugin.dir": java_engines / "trino" / "plugin",
        "catalog.config-dir": folder / "catalog",
    }
    lines = "".join(f"{name}={value}\n" for name, value in config.items())
    (folder / "config.properties").write_text(lines)
    node = {"environment": "test", "id": "one", "data-dir": folder, "internal-address": "127.0.0.1"}
    command = [
        str(java_engines / "java" / "bin" / "java"), "-Xmx1500m", "-XX:TieredStopAtLevel=1",
        "-Djdk.attach.allowAttachSelf=true", *(f"-Dnode.{k}={v}" for k, v in node.items()),
        f"-Dconfig={folder / 'config.properties'}",
        "-cp", f"{java_engines / 'trino' / 'lib'}/*", "io.trino.server.TrinoServer",
    ]  # fmt: skip
    start = f"http://127.0.0.1:{port}/v1"
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=folder) as it,
    ):
        try:
            _wait(start, it, folder / "log")
            yield lambda text, catalog="main": _ask(start, text, catalog)
        finally:
            it.terminate()


def _wait(start: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + 300
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            with urlopen(f"{start}/info") as answer:
                starting = json.load(answer)["starting"]
            # It has started before it knows of the one node, which is itself.
            if not starting and _has_node(start):
                return
        except URLError:
            pass
        time.sleep(0.5)
    raise AssertionError(log.read_text()[-2000:])


def _has_node(start: str) -> bool:
    try:
        return (
            _ask(start, "SELECT 1 FROM system.runtime.nodes WHERE state = 'active'", "system") != []
        )
    except AssertionError:
        return False


def _ask(start: str, text: str, catalog: str) -> list[list[Any]]:
    headers = {"X-Trino-User": "ana", "X-Trino-Catalog": catalog, "X-Trino-Schema": "tables"}
    request = Request(f"{start}/statement", text.encode(), headers)
    rows: list[list[Any]] = []
    while True:
        with urlopen(request) as answer:
            found = json.load(answer)
        rows += found.get("data") or []
        if "error" in found:
            raise AssertionError(found["error"]["message"])
        if "nextUri" not in found:
            return rows
        request = Request(found["nextUri"], headers={"X-Trino-User": "ana"})


def test_refs_and_versions_are_read(repo: Repo, sql: Sql) -> None:
    query = "SELECT id, name, to_hex(geom) FROM points{} ORDER BY id"
    for catalog, ref in (("main", "HEAD"), ("old", "v1")):
        rows = [
            [row["id"], row["name"], row["geom"] and row["geom"].hex().upper()]
            for row in expected(repo, "points", ref)
        ]
        assert sql(query.format(""), catalog) == rows
    joined = 'SELECT count(*) FROM every.main.points JOIN every."feature/x".points USING (id)'
    assert sql(joined) == [[1998]]
    assert sql('SELECT count(*) FROM "a.b".deep') == [[2000]]
    x = repo.table("points").to_arrow().filter(pc.field("id") == 5)["geom"][0].as_py()
    assert sql("SELECT ST_X(ST_GeomFromBinary(geom)) FROM points WHERE id = 5") == [[from_wkb(x).x]]

    snapshots = sql("""SELECT snapshot_id, summary['havasu-vc.commit'] FROM "points$snapshots" """)
    assert len(snapshots) == 3
    for number, commit in snapshots:
        rows = [[row["id"], row["name"]] for row in expected(repo, "points", commit)]
        at = f" FOR VERSION AS OF {number}"
        assert sql(query.replace(", to_hex(geom)", "").format(at)) == rows

    changed = sql("SELECT count(*) FROM points__changes WHERE _change_type = 'DELETE'")
    assert changed == [[3]]


def test_statements_are_commits(repo: Repo, sql: Sql) -> None:
    repo.write("a/b/deep", pa.table({"id": [77]}), mode="delete", message="One less")
    model, first = held(repo, "a/b/deep"), len(list(repo.log()))
    for number, (statement, change) in enumerate(STATEMENTS, 1):
        sql(statement.format(t='"a.b".deep'))
        model = change(model)
        assert held(repo, "a/b/deep") == model, statement
        assert len(list(repo.log())) == first + number
    assert next(iter(repo.log())).message.startswith("overwrite a/b/deep (trino")
    sql('DELETE FROM "a.b".deep WHERE id = -1')
    sql('ALTER TABLE "a.b".deep EXECUTE optimize')
    assert len(list(repo.log())) == first + len(STATEMENTS)
    with pytest.raises(AssertionError, match="two rows have the key id = 5200"):
        sql("""INSERT INTO "a.b".deep (id, name) VALUES (5200, 'again')""")
    with pytest.raises(AssertionError, match="GC is disabled"):
        sql("""ALTER TABLE "a.b".deep EXECUTE expire_snapshots(retention_threshold => '7d')""")
    with pytest.raises(AssertionError, match="does not support endpoint: POST"):
        sql("DELETE FROM points WHERE id = 1", "old")
    assert held(repo, "a/b/deep") == model
    assert list(Repo.open(repo.path, settings=Settings(engine="local")).fsck(full=True)) == []


def test_tables_are_made_changed_and_dropped(repo: Repo, sql: Sql) -> None:
    key = "WITH (extra_properties = MAP(ARRAY['havasu.key'], ARRAY['id']))"
    sql(f"CREATE TABLE made {key} AS SELECT id, name FROM points WHERE id < 50")
    model = {row["id"]: row["name"] for row in expected(repo, "points") if row["id"] < 50}
    assert held(repo, "made") == model
    assert repo.dataset("made").schema.key.names == ("id",)
    sql("CREATE OR REPLACE TABLE made AS SELECT BIGINT '9' AS id, 'r' AS name")
    assert held(repo, "made") == {9: "r"}
    assert repo.dataset("made").schema.key.names == ("id",)
    sql("ALTER TABLE made ADD COLUMN more varchar")
    sql("ALTER TABLE made RENAME COLUMN more TO other")
    sql("UPDATE made SET other = 'x'")
    sql("COMMENT ON TABLE made IS 'A title'")
    assert repo.table("made").to_arrow().to_pylist() == [{"id": 9, "name": "r", "other": "x"}]
    assert sql("SHOW CREATE TABLE made")[0][0].count("COMMENT 'A title'") == 1
    sql("ALTER TABLE made DROP COLUMN other")
    sql('CREATE SCHEMA "new"')
    sql("ALTER TABLE made RENAME TO new.moved")
    assert set(repo.datasets()) == {"a/b/deep", "new/moved", "points"}
    sql("TRUNCATE TABLE new.moved")
    assert held(repo, "new/moved") == {}
    sql("DROP TABLE new.moved")
    assert set(repo.datasets()) == {"a/b/deep", "points"}
