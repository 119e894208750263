"""A repository that is served to all tests of a module."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from havasu_vc import Repo, Settings
from havasu_vc.exchange.source import SourceOptions
from tests.serving.server import serving
from tests.support.templates import empty_repo

ROOT = Path(__file__).parents[2]
COUNT = 2_000
GEO = (
    b'{"version": "1.0.0", "primary_column": "geom", "columns":'
    b' {"geom": {"encoding": "WKB", "geometry_types": ["Point"]}}}'
)


def rows(ids: range, name: str = "n") -> pa.Table:
    points = shapely.to_wkb(shapely.points([(n / 7, -n / 11) for n in ids]))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "name": [f"{name}{n}" for n in ids],
            "geom": pa.array(points, pa.binary()),
        }
    )


@pytest.fixture(scope="session")
def engines() -> Path:
    """Return the Python that has DuckDB with its extensions, and Daft."""
    folder = ROOT / ".engines"
    if not (folder / ".ready").exists():
        pytest.skip("there are no engines: scripts/engines.sh .engines")
    return folder / "bin" / "python"


@pytest.fixture(scope="session")
def java_engines() -> Path:
    """Return the folder that has Flink, Trino and a Java for it."""
    folder = ROOT / ".engines" / "java"
    if not (folder / ".ready").exists():
        pytest.skip("there are no Flink and Trino: scripts/java-engines.sh .engines/java")
    return folder


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Repo:
    """A repository with a table of four commits, and one in folders."""
    folder = tmp_path_factory.mktemp("serving")
    repo = empty_repo(folder / "repo", settings=Settings(engine="local"))
    pq.write_table(rows(range(COUNT)).replace_schema_metadata({"geo": GEO}), folder / "in.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(folder / "in.parquet", "points", options=options)
    repo.import_(folder / "in.parquet", "a/b/deep", options=options)
    changed = pa.table({"id": [5, 6, COUNT], "name": ["five", None, "new"]})
    repo.create_tag("v1")
    repo.write("points", changed, message="Three rows")
    repo.create_branch("feature/x")
    repo.write("points", pa.table({"id": [7, 8, 9]}), mode="delete", message="Three less")
    return repo


@pytest.fixture(scope="module")
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path) as found:
        yield found
