"""What PyIceberg writes through the catalog is a commit on the branch, whatever it wrote upon."""

import os
import random
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.exceptions import BadRequestError, ForbiddenError

from havasu_vc import Repo, Settings
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.tables.table import local_path
from tests.serving.server import ask, catalog, serving
from tests.support.git import run_git
from tests.support.templates import empty_repo

COUNT = 200
LOCAL = Settings(engine="local")
ROWS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
Model = dict[int, str | None]

pytestmark = pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")


def rows(model: Model) -> pa.Table:
    return pa.table({"id": list(model), "name": list(model.values())}, schema=ROWS)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A repository with a table of some rows, and a branch beside main."""
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    pq.write_table(rows(first()), tmp_path / "in.parquet")
    repo.import_(tmp_path / "in.parquet", "points", options=SourceOptions(primary_key=("id",)))
    repo.create_branch("feature/x")
    return repo


@pytest.fixture
def url(repo: Repo) -> Iterator[str]:
    with serving(repo.path, "--write", "main", "--write", "feature/*") as found:
        yield found


def first() -> Model:
    return {number: f"row {number}" for number in range(COUNT)}


def held(repo: Repo, revision: str) -> Model:
    found = repo.table("points", revision).to_arrow().to_pylist()
    return {row["id"]: row["name"] for row in found}


def subjects(repo: Repo, revision: str) -> list[str]:
    return [info.message.split("\n")[0] for info in repo.log(revision)]


def assert_sound(repo: Repo) -> None:
    assert list(Repo.open(repo.path, settings=LOCAL).fsck(full=True)) == []


@pytest.mark.parametrize("branch", ["main", "feature/x"])
@pytest.mark.thorough
def test_rows_are_those_of_a_model_after_any_statements(repo: Repo, url: str, branch: str) -> None:
    chance, model = random.Random(7), first()
    table = catalog(url, branch).load_table("tables.points")
    for step in range(12):
        some: Model = {chance.randrange(COUNT): f"step {step}" for _ in range(5)}
        low = chance.randrange(COUNT)
        match step % 4:
            case 0:
                new: Model = {COUNT + 10 * step + n: None for n in range(3)}
                table.append(rows(new))
                model |= new
            case 1:
                table.upsert(rows(some))
                model |= some
            case 2:
                table.delete(f"id in ({', '.join(map(str, some))})")
                model = {key: name for key, name in model.items() if key not in some}
            case 3:
                new = {low + n: f"over {n}" for n in range(0, 10, 3)}
                table.overwrite(rows(new), f"id >= {low} and id < {low + 10}")
                model = {key: name for key, name in model.items() if not low <= key < low + 10}
                model |= new
        read = table.scan().to_arrow().to_pylist()
        assert {row["id"]: row["name"] for row in read} == model
    assert held(repo, branch) == model
    assert len(subjects(repo, branch)) == 13
    assert len(subjects(repo, "main")) == (13 if branch == "main" else 1)
    assert_sound(repo)


@pytest.mark.thorough
def test_a_commit_says_what_the_client_does(repo: Repo, url: str) -> None:
    table = catalog(url, "feature/x").load_table("tables.points")
    table.append(rows({900: "a"}))
    table.append(rows({901: "b"}), snapshot_properties={"commit-message": "Two\n\nand why"})
    said = catalog(url, "feature/x", **{"header.X-Havasu-Message": "Of a header"})
    said.load_table("tables.points").append(rows({902: "c"}))
    assert subjects(repo, "feature/x")[:3] == [
        "Of a header",
        "Two",
        "append points (PyIceberg 0.12.0)",
    ]


@pytest.mark.thorough
def test_a_commit_is_by_whom_a_token_or_a_trusted_proxy_names(repo: Repo, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef Ann Miller <ann@example.org>\n")

    def append(url: str, key: int, **settings: str) -> tuple[str, str]:
        catalog(url, "main", **settings).load_table("tables.points").append(rows({key: "a"}))
        commit = next(iter(repo.log("main")))
        return commit.author_name, commit.author_email

    with serving(repo.path, "--write", "main", "--token-file", str(tokens)) as url:
        assert append(url, 900, token="0123456789abcdef") == ("Ann Miller", "ann@example.org")
    said = {"header.X-User": "Bob <bob@example.org>"}
    with serving(repo.path, "--write", "main", "--author-header", "X-User") as url:
        assert append(url, 901, **said) == ("Bob", "bob@example.org")
        assert append(url, 902, **{"header.X-User": "eve@example.org"})[1] == "eve@example.org"
        assert append(url, 903) == ("Test User", "test@example.com")
        with pytest.raises(BadRequestError, match="no name that a commit can have"):
            append(url, 904, **{"header.X-User": "<<>>"})
    with serving(repo.path, "--write", "main") as url:
        assert append(url, 905, **said) == ("Test User", "test@example.com")


@pytest.mark.thorough
def test_what_changes_nothing_makes_no_commit(repo: Repo, url: str) -> None:
    table = catalog(url).load_table("tables.points")
    table.overwrite(rows({5: "row 5"}), "id = 5")
    assert len(subjects(repo, "main")) == 1
    assert held(repo, "main") == first()


@pytest.mark.thorough
def test_only_branches_that_are_named_are_written_to(repo: Repo, url: str) -> None:
    repo.create_tag("v1")
    repo.create_branch("other")
    commit = str(repo.head().commit)
    for warehouse, why in {
        "v1": "not a branch",
        commit: "not a branch",
        "main~0": "not a branch",
        "other": "not written to",
    }.items():
        table = catalog(url, warehouse).load_table("tables.points")
        with pytest.raises(NotImplementedError):
            table.append(rows({900: "a"}))  # it believes the list of endpoints
        status, told = ask(url, warehouse, "POST", "namespaces/tables/tables/points", {})
        assert status == 403 and why in told["error"]["message"]
    with pytest.raises(ForbiddenError, match="not a branch"):
        catalog(url).load_table("tables.points@v1").append(rows({900: "a"}))
    assert len(subjects(repo, "main")) == 1
    assert repo.resolve("other").commit == commit


@pytest.mark.thorough
def test_what_was_written_upon_an_older_commit_is_merged_by_rows(repo: Repo, url: str) -> None:
    model = first()
    tables = [catalog(url).load_table("tables.points") for _ in range(4)]
    tables[0].append(rows({900: "a"}))
    tables[1].delete("id = 3")
    tables[2].upsert(rows({4: "four", 901: "b"}))
    tables[3].overwrite(rows({5: "five"}), "id = 5")
    model |= {900: "a", 901: "b", 4: "four", 5: "five"}
    del model[3]
    assert held(repo, "main") == model
    assert len(subjects(repo, "main")) == 5
    assert_sound(repo)


def test_two_values_of_one_cell_are_refused_by_name(repo: Repo, url: str) -> None:
    one, other = (catalog(url).load_table("tables.points") for _ in range(2))
    one.upsert(rows({7: "one"}))
    with pytest.raises(BadRequestError, match=r"points: .*1 conflict: id = 7, column name"):
        other.upsert(rows({7: "other", 8: "eight"}))
    assert held(repo, "main") == first() | {7: "one"}
    other.refresh()
    other.upsert(rows({7: "other"}))
    assert held(repo, "main") == first() | {7: "other"}


@pytest.mark.thorough
def test_a_key_that_is_there_is_refused_by_name(repo: Repo, url: str) -> None:
    table = catalog(url).load_table("tables.points")
    with pytest.raises(BadRequestError, match="points: two rows have the key id = 7"):
        table.append(rows({7: "again"}))
    one, other = (catalog(url).load_table("tables.points") for _ in range(2))
    one.append(rows({900: "one"}))
    with pytest.raises(BadRequestError, match=r"points: .*id = 900"):
        other.append(rows({900: "other"}))
    assert held(repo, "main") == first() | {900: "one"}
    assert_sound(repo)


@pytest.mark.thorough
def test_what_clients_wrote_goes_with_garbage_once_it_is_old(repo: Repo, url: str) -> None:
    table = catalog(url).load_table("tables.points")
    table.append(rows({900: "a"}))
    old = list(Path(local_path(table.location())).glob("*/*"))
    for path in old:
        os.utime(path, (0, 0))
    table.append(rows({901: "b"}))
    young = set(Path(local_path(table.location())).glob("*/*")) - set(old)
    repo.gc()
    assert old and young
    assert set(Path(local_path(table.location())).glob("*/*")) == young
    assert table.scan().to_arrow().num_rows == COUNT + 2
    table.delete("id = 900")
    assert held(repo, "main") == first() | {901: "b"}
    assert_sound(repo)


@pytest.mark.parametrize(
    ("writers", "appends"), [(8, 4), pytest.param(16, 20, marks=pytest.mark.slow)]
)
@pytest.mark.thorough
def test_none_of_many_writers_loses_a_commit(
    repo: Repo, url: str, writers: int, appends: int
) -> None:

    def write(number: int) -> None:
        table = catalog(url).load_table("tables.points")
        for step in range(appends):
            table.append(rows({1000 * (number + 1) + step: f"{number}"}))

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))

    new: Model = {1000 * (n + 1) + step: f"{n}" for n in range(writers) for step in range(appends)}
    assert held(repo, "main") == first() | new
    assert len(subjects(repo, "main")) == 1 + writers * appends
    assert_sound(repo)


@pytest.mark.thorough
def test_what_a_merge_brought_in_is_a_base_still(repo: Repo, url: str) -> None:
    """The branch was moved onto a merge, of which what a client loaded is the second parent."""
    mine: Model = {900: "mine"}
    added: Model = {901: "theirs"}
    late: Model = {902: "late"}
    catalog(url, "feature/x").load_table("tables.points").append(rows(mine))
    stale = catalog(url, "feature/x").load_table("tables.points")
    repo.write("points", rows(added), message="Theirs")
    repo.merge("feature/x", message="Both")
    run_git("branch", "--force", "feature/x", "main", cwd=repo.path)

    stale.append(rows(late))

    assert held(repo, "feature/x") == {**first(), **mine, **added, **late}
    assert held(repo, "main") == {**first(), **mine, **added}
    assert len(subjects(repo, "main..feature/x")) == 1
    assert_sound(repo)


@pytest.mark.thorough
def test_polars_appends_and_overwrites(repo: Repo, url: str) -> None:
    polars = pytest.importorskip("polars")
    table = catalog(url, "main").load_table("tables.points")
    new = polars.DataFrame({"id": [COUNT, 3], "name": ["new", "three"]})
    with pytest.raises(BadRequestError, match="id = 3"):
        new.write_iceberg(table, mode="append")
    new.head(1).write_iceberg(table, mode="append")
    assert held(repo, "main") == first() | {COUNT: "new"}
    table.refresh()
    polars.DataFrame({"id": [1, 2], "name": ["one", None]}).write_iceberg(table, mode="overwrite")
    assert held(repo, "main") == {1: "one", 2: None}
    assert len(subjects(repo, "main")) == 3
    assert_sound(repo)


_DAFT = """
import sys, warnings
warnings.simplefilter("ignore")
import daft
from pyiceberg.catalog import load_catalog
catalog = load_catalog("served", type="rest", uri=sys.argv[1], warehouse="main")
for mode, rows in (("append", {"id": [200], "name": ["new"]}),
                   ("overwrite", {"id": [1, 2], "name": ["one", None]})):
    table = catalog.load_table("tables.points")
    daft.from_pydict(rows).write_iceberg(table, mode=mode)
"""


@pytest.mark.thorough
def test_daft_appends_and_overwrites(repo: Repo, url: str, engines: Path) -> None:
    subprocess.run([engines, "-c", _DAFT, url], check=True, capture_output=True)
    assert held(repo, "main~1") == first() | {COUNT: "new"}
    assert held(repo, "main") == {1: "one", 2: None}
    assert len(subjects(repo, "main")) == 3
    assert_sound(repo)
