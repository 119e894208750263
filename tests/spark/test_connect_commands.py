"""Commands with `--master sc://…`, typed on a machine that has no Java and shares no folder."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import invoke
from tests.remotes.sharing import files
from tests.repo.tables import write as write_file
from tests.spark.clusters import ROOT, Cluster, bucket_of, connect_server, put_table, shared

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with connect_server(tmp_path_factory.mktemp("connect")) as found:
        yield found


def table(start: int, count: int, name: str) -> pa.Table:
    keys = range(start, start + count)
    return pa.table({"id": pa.array(keys, pa.int64()), "name": [f"{name} {key}" for key in keys]})


def test_commands_run_on_the_server(server: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does, and what it does not, which one line tells with what to do."""
    repo = shared(server, "typed", monkeypatch)
    put_table(server, "typed/one.parquet", table(0, 2000, "one"))
    put_table(server, "typed/two.parquet", table(1000, 2000, "two"))
    near = write_file(server.folder / "driver" / "near.parquet", table(0, 9, "near"))
    there = ("--engine", "spark", "--master", server.master)

    def typed(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [Path(sys.executable).with_name("havasu-vc"), *words, *there],
            env=server.environment | {"JAVA_HOME": "/nowhere", "PYTHONPATH": str(ROOT)},
            cwd=repo.path,
            capture_output=True,
            text=True,
            check=False,
        )

    def works(*words: str | Path) -> str:
        done = typed(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr[-3000:])
        assert "the work is done here" not in done.stderr, (words, done.stderr)
        return done.stdout

    def refused(*words: str | Path) -> str:
        done = typed(*words)
        said = done.stderr
        assert done.returncode > 0 and said.count("Error: ") == 1 and "Hint: " in said, said
        assert "Traceback" not in said and "internal error" not in said.lower(), said
        return said

    source = "s3://cluster/typed"
    works("import", f"{source}/one.parquet", "t", "--primary-key", "id")
    repo.git.git("branch", "before")
    works("import", f"{source}/two.parquet", "t", "--replace")
    assert files(repo) == [], "no data file came here"
    assert "does not see" in refused("import", near, "near", "--primary-key", "id")
    assert "3000" not in works("diff", "HEAD^...HEAD", "--stat")
    query = "SELECT count(*) AS n, max(name) AS m FROM t"
    assert works("sql", query, "-o", "csv").splitlines()[-1] == "2000,two 2999"
    assert works("sql", query, "--ref", "before", "-o", "csv").splitlines()[-1] == "2000,one 999"
    assert works("validate", "t").strip() in ("", "All data is valid")
    works("fsck", "--full")
    for to in ("parquet-dataset", "delta", "iceberg-v3"):
        place = f"typed/as-{to}"
        works("export", "t", f"s3://cluster/{place}", "--to", to)
        inside = f"{place}/data" if to == "iceberg-v3" else place
        rows = pq.read_table(f"cluster/{inside}", filesystem=bucket_of(server))
        assert sorted(rows["id"].to_pylist()) == list(range(1000, 3000))
    works("optimize", "big")
    assert files(repo) == [], "no data file came here"

    repo.git.git("switch", "-q", "before")
    put_table(server, "typed/three.parquet", table(0, 2500, "one"))
    works("import", f"{source}/three.parquet", "t", "--replace")
    repo.git.git("switch", "-q", "-c", "one", "before~1")
    put_table(server, "typed/four.parquet", table(0, 2000, "one").slice(9))
    works("import", f"{source}/four.parquet", "t", "--replace")
    works("merge", "before")
    assert works("sql", query, "-o", "csv").splitlines()[-1] == "2491,one 999"

    edit = ("sql", "UPDATE t SET name = 'x' WHERE id < 100")
    assert "UPDATE edits the tables of a checkout" in refused(*edit)
    invoke(("-C", repo.path, "checkout"))
    assert "UPDATE edits the tables of a checkout" in refused(*edit)
    asked = typed("sql", query, "-o", "csv")
    assert asked.stdout.splitlines()[-1] == "2491,one 999"
    assert "no catalog of the checkout" in asked.stderr
