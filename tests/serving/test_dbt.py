"""A project of dbt builds a model on a branch, through the catalog: tested, reviewed, merged.

The project is that of the guide. What it writes is compared with a plain sum of the rows.
"""

import os
import shlex
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from havasu_vc.exchange.source import SourceOptions
from tests.serving.server import serving
from tests.support.git import run_git
from tests.support.templates import empty_repo
from tests.test_docs import Reader, blocks, reader

__all__ = ["reader"]

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
PROJECT = ROOT / "fixtures" / "dbt"


def parcels(areas: dict[int, int]) -> pa.Table:
    """Return a table of parcels, of three owners in turn."""
    ids = pa.array(areas, pa.int64())
    owners = [f"owner {number % 3}" for number in areas]
    return pa.table({"id": ids, "owner": owners, "area": pa.array(areas.values(), pa.int64())})


def sums(areas: dict[int, int]) -> list[dict[str, object]]:
    """Return what the model holds, by owner."""
    found: dict[str, list[int]] = {}
    for number, area in areas.items():
        found.setdefault(f"owner {number % 3}", []).append(area)
    return [
        {"owner": owner, "parcels": len(each), "area": sum(each)}
        for owner, each in sorted(found.items())
    ]


def owners(repo: Repo, revision: str) -> list[dict[str, object]]:
    """Return the rows of the model."""
    rows = repo.table("marts/owners", revision).to_arrow().sort_by("owner").to_pylist()
    return [{**row, "area": int(row["area"])} for row in rows]


@pytest.fixture
def home(tmp_path: Path, engines: Path) -> Path:
    """Return a home folder in which DuckDB finds its extensions without a network."""
    (packages,) = engines.parents[1].glob("lib/python3*/site-packages")
    for file in packages.glob("duckdb_extension_*/extensions/*/*.duckdb_extension"):
        asked = "import duckdb; print(*duckdb.sql('PRAGMA platform').fetchone())"
        platform = subprocess.check_output([engines, "-c", asked], text=True).strip()
        folder = tmp_path / "home" / ".duckdb" / "extensions" / file.parent.name / platform
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, folder)
    return tmp_path / "home"


def build(project: Path, engines: Path, home: Path, url: str, branch: str) -> None:
    """Let dbt build and test the project."""
    told = {"SURVEY_CATALOG": url, "SURVEY_BRANCH": branch, "DBT_PROFILES_DIR": str(project)}
    quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DBT_USE_COLORS": "false"}
    done = subprocess.run(
        [engines.with_name("dbt"), "build"],
        cwd=project,
        env={**os.environ, **told, **quiet, "HOME": str(home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "PASS=3 WARN=0 ERROR=0" in done.stdout


def test_the_guide_shows_this_project() -> None:
    guide = (ROOT / "docs" / "guides" / "dbt.md").read_text()
    files = [path for path in PROJECT.rglob("*") if path.is_file()]
    assert len(files) == 5
    assert [path.name for path in files if path.read_text() not in guide] == []


def test_the_guide_can_be_followed(
    tmp_path: Path, engines: Path, home: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command of the page, in turn: what serves goes on beside the others."""
    guide = ROOT / "docs" / "guides" / "dbt.md"
    shutil.copytree(PROJECT, reader.folder / "report")
    (reader.commands / "dbt").symlink_to(engines.with_name("dbt"))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("DBT_SEND_ANONYMOUS_USAGE_STATS", "false")
    typed = []
    with ExitStack() as ended:
        for block in blocks(guide.read_text()):
            if block.language == "python":
                reader.follow(block, guide)
            for command, _ in block.commands if block.language == "console" else ():
                typed.append(command)
                match shlex.split(command):
                    case ["havasu-vc", "serve", *options]:
                        url = ended.enter_context(serving(reader.folder, *options))
                    case ["export", *variables]:
                        for each in variables:
                            name, _, value = each.partition("=")
                            monkeypatch.setenv(name, value)
                        # The port of the page may be somebody else's here.
                        monkeypatch.setenv("SURVEY_CATALOG", url)
                    case ["pip", "install", *_]:
                        pass
                    case _:
                        said = reader.run(command, str(guide))
    assert "dbt build" in typed
    assert sorted(said.split()) == ["Ann,2,40", "Ben,1,20", "owner,parcels,area"]


def test_a_model_is_built_on_a_branch_and_merged(tmp_path: Path, engines: Path, home: Path) -> None:
    project = shutil.copytree(PROJECT, tmp_path / "project")
    repo = empty_repo(tmp_path / "repo")
    areas = {number: number * 10 for number in range(30)}
    pq.write_table(parcels(areas), tmp_path / "parcels.parquet")
    options = SourceOptions(primary_key=("id",))
    repo.import_(tmp_path / "parcels.parquet", options=options)
    repo.create_branch("reports/owners")
    with serving(repo.path, "--write", "reports/*") as url:
        build(project, engines, home, url, "reports/owners")
        first = repo.resolve("reports/owners").commit
        assert owners(repo, "reports/owners") == sums(areas)

        build(project, engines, home, url, "reports/owners")
        assert repo.resolve("reports/owners").commit == first, "what is the same is no commit"

        repo.merge("reports/owners")
        assert owners(repo, "main") == sums(areas)

        areas[4] = 999
        repo.write("parcels", parcels({4: 999}))
        run_git("branch", "-f", "reports/owners", "main", cwd=repo.path)
        build(project, engines, home, url, "reports/owners")
        assert owners(repo, "reports/owners") == sums(areas)
        found = {
            each.path: sum(len(batch.data) for batch in each.changes)
            for each in repo.diff("main...reports/owners")
        }
        assert found == {"marts/owners": 2}, "the owner's old sum goes, and the new one comes"
        repo.merge("reports/owners")
        assert owners(repo, "main") == sums(areas)
