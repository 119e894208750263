"""Parquet and CSV files in a bucket are imported where they are, by threads and by Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow.fs import FileSelector, S3FileSystem

from havasu_vc import Repo, Settings
from havasu_vc.datasets.kinds import require_files
from havasu_vc.engine import spark as spark_engine
from havasu_vc.engine.choose import EngineSettings
from havasu_vc.errors import HavasuError, InvalidFileError, SourceNotFoundError
from havasu_vc.exchange import parquet
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.exchange.sources import open_sources
from havasu_vc.tables.bucket import folder_of_copies
from tests.conftest import lacking
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.sharing import bare, clone, files, share
from tests.repo.points import make
from tests.repo.points import write as edit
from tests.repo.tables import BY_ID, points, rows, write
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto
from tests.support.templates import empty_repo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = Settings(engine="local")


@pytest.fixture(scope="module")
def bucket() -> Iterator[S3FileSystem]:
    """The bucket `sources`, which the environment knows how to reach."""
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    with moto() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
            patch.setenv(name, value)
        system = S3FileSystem(
            endpoint_override=endpoint.removeprefix("http://"),
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        system.create_dir("sources")
        yield system


@pytest.fixture(autouse=True)
def by_its_own_shuffle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Spark deal rows out as on a cluster, whose machines share no folder."""
    monkeypatch.setattr(spark_engine, "DEALS_IN_FOLDERS", False)


def put(system: S3FileSystem, name: str, file: Path) -> None:
    with system.open_output_stream(f"sources/{name}") as stream:
        stream.write(file.read_bytes())


def parts(system: S3FileSystem, folder: Path, name: str) -> pa.Table:
    """Put a table into three folders of a bucket, beside what no table is made of."""
    folder.mkdir(exist_ok=True)
    table = points(900)
    for number, region in enumerate(("north", "a south", "no=where")):
        file = write(folder / f"part-{number}.parquet", table.slice(number * 300, 300))
        put(system, f"{name}/region={region}/part-{number}.parquet", file)
    for other in (
        "_SUCCESS",
        "_temporary/part-9.parquet",
        "region=north/.hidden.parquet",
        "read.me",
    ):
        put(system, f"{name}/{other}", file)
    regions = ["north"] * 300 + ["a south"] * 300 + ["no=where"] * 300
    return table.append_column("region", pa.array(regions))


def by_id(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def imported(folder: Path, location: str, settings: Settings, **more: Any) -> Repo:
    repo = empty_repo(folder, settings=settings)
    repo.import_(location, options=BY_ID, **more)
    return repo


@pytest.mark.thorough
def test_a_folder_a_file_and_a_pattern(bucket: S3FileSystem, tmp_path: Path) -> None:
    table = parts(bucket, tmp_path / "files", "parcels")
    repo = imported(tmp_path / "folder", "s3://sources/parcels/", LOCAL)
    assert repo.datasets() == ("parcels",)
    assert by_id(pa.Table.from_pylist(rows(repo, "parcels"))) == by_id(table)
    schema = repo.dataset("parcels").schema
    assert [field.name for field in schema.geometries] == ["geom"]
    assert list(repo.fsck(full=True)) == []

    one = imported(tmp_path / "one", "s3://sources/parcels/region=north/part-0.parquet", LOCAL)
    assert one.datasets() == ("part-0",)
    assert by_id(pa.Table.from_pylist(rows(one, "part-0"))) == by_id(points(300))

    some = imported(tmp_path / "some", "s3://sources/parcels/*/part-[01].parquet", LOCAL)
    assert [row["id"] for row in rows(some, "parcels")] == list(range(600))
    deep = imported(tmp_path / "deep", "s3://sources/**/part-2.parquet", LOCAL)
    assert [row["id"] for row in rows(deep, "part-2")] == list(range(600, 900))


def test_a_release_in_the_bucket_commits_what_differs(bucket: S3FileSystem, tmp_path: Path) -> None:
    put(bucket, "wells.parquet", write(tmp_path / "wells.parquet", points(500)))
    repo = imported(tmp_path / "repo", "s3://sources/wells.parquet", LOCAL)
    changed = pa.concat_tables([points(5, name="new"), points(490, start=5)])
    put(bucket, "wells.parquet", write(tmp_path / "wells.parquet", changed))
    result = repo.import_("s3://sources/wells.parquet", replace=True)
    counts = result.datasets["wells"]
    assert (counts.inserts, counts.updates, counts.deletes) == (0, 5, 5)
    assert rows(repo, "wells") == by_id(changed)
    assert repo.import_("s3://sources/wells.parquet", replace=True).commit is None


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("location", "kind", "said"),
    [
        ("s3://sources/nothing/", SourceNotFoundError, "no Parquet file at s3://sources/nothing/"),
        ("s3://sources/nothing.parquet", SourceNotFoundError, "no Parquet file"),
        ("s3://sources/no*.parquet", SourceNotFoundError, "no Parquet file"),
        ("s3://no-such-bucket/x.parquet", SourceNotFoundError, "no Parquet file"),
        ("s3://sources/broken/text.parquet", InvalidFileError, "not a Parquet file"),
        ("s3://sources/broken/cut.parquet", InvalidFileError, "cut short"),
        ("s3://sources/broken/empty.parquet", InvalidFileError, "is empty"),
        ("s3://sources/broken/a.gpkg", InvalidFileError, "type .gpkg are not read in a bucket"),
        ("s3://sources/broken/ragged.csv", InvalidFileError, "line 3 has 3 values where the"),
        ("s3://sources/broken/open.csv", InvalidFileError, "it ends inside a quoted value"),
        ("s3://sources/broken/empty.csv", InvalidFileError, "the file is empty"),
        ("s3://sources/nothing.csv", SourceNotFoundError, "no Parquet file"),
        ("s3://sources/broken/*.csv", SourceNotFoundError, "no Parquet file"),
        ("s4://sources/x.parquet", SourceNotFoundError, "there is no file s4://"),
        ("s3://sources/mixed/", InvalidFileError, "its columns differ"),
        ("s3://sources/delta/", InvalidFileError, "s3://sources/delta is a table of Delta, whose"),
        ("s3://sources/ice/", InvalidFileError, "s3://sources/ice/roads is a table of Iceberg"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(
    bucket: S3FileSystem, tmp_path: Path, location: str, kind: type[HavasuError], said: str
) -> None:
    whole = write(tmp_path / "whole.parquet", points(100))
    broken = {
        "text.parquet": b"this is no table, but it is long enough to be asked for its end",
        "cut.parquet": whole.read_bytes()[:-100],
        "empty.parquet": b"",
        "a.gpkg": b"no matter what",
        "ragged.csv": b"id,name\n1,one\n2,two,three\n",
        "open.csv": b'id,name\n1,"one\n',
        "empty.csv": b"",
    }
    for name, data in broken.items():
        with bucket.open_output_stream(f"sources/broken/{name}") as stream:
            stream.write(data)
    put(bucket, "mixed/one.parquet", whole)
    pq.write_table(pa.table({"id": [1]}), tmp_path / "other.parquet")
    put(bucket, "mixed/two.parquet", tmp_path / "other.parquet")
    # Files that such tables no longer need are there as well.
    put(bucket, "delta/part-0.parquet", whole)
    put(bucket, "delta/_delta_log/00000000000000000000.json", whole)
    put(bucket, "ice/roads/data/part-0.parquet", whole)
    put(bucket, "ice/roads/metadata/v1.metadata.json", whole)
    repo = empty_repo(tmp_path / "repo", settings=LOCAL)
    with pytest.raises(kind) as caught:
        repo.import_(location, options=BY_ID)
    assert said in caught.value.message and "\n" not in caught.value.message
    assert "endpoint_override" not in caught.value.message, "where the server is, the user knows"
    assert repo.opened.head().commit is None


def test_executors_read_a_source_in_a_bucket_and_write_to_another(
    bucket: S3FileSystem,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver, whose clone has no data, opens no file of rows of either."""
    table = parts(bucket, tmp_path / "files", "roads")
    monkeypatch.setattr(spark.sparkContext, "environment", dict(S3_ENVIRONMENT))
    ours = make(tmp_path / "ours", {1: ("one", 1)})
    bucket.create_dir("data")
    share(ours, bare(tmp_path / "server.git"), data="s3://data/files")
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    far = clone(
        tmp_path / "server.git", tmp_path / "far", data_url="s3://data/files", on_demand=True
    ).with_settings(there)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "_read", refusing)
        result = far.import_("s3://sources/roads", options=BY_ID)
    assert result.commit is not None
    assert files(far) == []
    far.push()
    here = clone(tmp_path / "server.git", tmp_path / "here", data_url="s3://data/files")
    assert rows(here, "roads") == by_id(table)
    alone = imported(tmp_path / "alone", "s3://sources/roads", LOCAL)
    digests = [require_files(r.dataset("roads")).snapshot.digests for r in (here, alone)]
    assert digests[0] == digests[1]


@pytest.mark.parametrize("kind", ["csv", "parquet", "delta"])
def test_executors_find_the_key_of_a_source_in_a_bucket(
    bucket: S3FileSystem,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
) -> None:
    """The driver looks at no row; the key that they find is the one that threads find."""
    monkeypatch.setattr(spark.sparkContext, "environment", dict(S3_ENVIRONMENT))
    monkeypatch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", 4000)
    monkeypatch.setattr(parquet, "TASK_BYTES", 1)
    numbers = list(range(2000))
    table = pa.table(
        {
            "height": [*numbers[:-1], 7],
            "iso": [*(f"c{number}" for number in numbers[:-1]), None],
            "plot_nr": [f"p{number}" for number in reversed(numbers)],
            "size": numbers,
        }
    )
    place = f"trees-{kind}"
    match kind:
        case "csv":
            file = tmp_path / "trees.csv"
            file.write_text("\n".join([",".join(table.column_names), *lines_of(table)]) + "\n")
            put(bucket, place := f"{place}.csv", file)
        case "parquet":
            pq.write_table(table, tmp_path / "trees.parquet", row_group_size=300)
            put(bucket, place := f"{place}.parquet", tmp_path / "trees.parquet")
        case _:
            write_deltalake(str(tmp_path / "delta"), table)
            for file in sorted((tmp_path / "delta").rglob("*")):
                if file.is_file():
                    put(bucket, f"{place}/{file.relative_to(tmp_path / 'delta')}", file)
    location = f"{'delta:' if kind == 'delta' else ''}s3://sources/{place}"
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    found = []
    for name, settings in (("threads", LOCAL), ("executors", there)):
        repo = empty_repo(tmp_path / name, settings=settings)
        with monkeypatch.context() as patch:
            if settings is there:
                patch.setattr("havasu_vc.transfer.possible_keys.run_task", refusing)
            result = repo.import_(location, "trees", find_key=True)
            proposed = repo.import_(location, "loose").understood["loose"].possible_keys
        taken = result.understood["trees"]
        assert (taken.key, taken.key_from) == (("plot_nr",), "found")
        assert proposed == ("plot_nr", "size")
        found.append(require_files(repo.dataset("trees")).snapshot.digests)
    assert found[0] == found[1]


def lines_of(table: pa.Table) -> Iterator[str]:
    for row in zip(*table.to_pydict().values(), strict=True):
        yield ",".join("" if value is None else str(value) for value in row)


LINES = "id;name;lon;lat\n" + "".join(f'{n};"name {n}\n";{n / 10};{n / 20}\n' for n in range(500))


@pytest.mark.parametrize(("encoding", "tasks"), [("utf-16", 1), ("utf-8", 7)])
def test_a_csv_file_in_a_bucket_is_read_where_it_is(
    bucket: S3FileSystem,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
    tasks: int,
) -> None:
    """By many tasks, if it can be cut where rows end."""
    file = tmp_path / "wells.csv"
    file.write_bytes(LINES.encode(encoding))
    put(bucket, "wells.csv", file)
    options = SourceOptions(primary_key=("id",), csv_encoding=encoding)
    monkeypatch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", 2000)
    monkeypatch.setattr(spark.sparkContext, "environment", dict(S3_ENVIRONMENT))
    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    far = "s3://sources/wells.csv"
    (source,) = open_sources(far, options=options)
    assert len(source.tasks()) == tasks
    cases: list[tuple[str | Path, Settings]] = [(file, LOCAL), (far, LOCAL), (far, there)]
    found = []
    for number, (place, settings) in enumerate(cases):
        repo = empty_repo(tmp_path / f"repo-{number}", settings=settings)
        repo.import_(place, options=options)
        view = require_files(repo.dataset("wells"))
        found.append((view.schema, view.snapshot.digests, rows(repo, "wells")))
    assert found[1] == found[0]
    assert found[2] == found[0]
    assert found[0][2][7]["name"] == "name 7\n"


def refusing(*_: object) -> None:
    raise AssertionError("the driver reads no rows")


@pytest.mark.spark
def test_tables_of_iceberg_and_delta_are_brought_by_executors(
    bucket: S3FileSystem,
    spark: "SparkSession",
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """File by file, with what deletes from it, for as long as a task runs; the driver has none."""
    monkeypatch.setattr(spark.sparkContext, "environment", dict(S3_ENVIRONMENT))
    model: dict[int, tuple[str | None, int | None]]
    model = {number: (f"row {number}", number) for number in range(400)}
    ours = make(tmp_path / "ours", model)
    with tiny_thresholds(most_deltas=9):
        model = {k: v for k, v in model.items() if k % 7} | {3: ("three", 3), 900: ("new", None)}
        edit(ours, model)
    ours.workspace.check_out_to("s3://sources/ice-tables")
    write_deltalake(str(tmp_path / "delta"), points(300), partition_by=["number"])
    DeltaTable(str(tmp_path / "delta")).delete("id < 20")
    for file in sorted((tmp_path / "delta").rglob("*")):
        if file.is_file():
            put(bucket, f"delta-table/{file.relative_to(tmp_path / 'delta').as_posix()}", file)

    there = Settings(engine="spark", engine_settings=EngineSettings(session=spark))
    iceberg, delta = "s3://sources/ice-tables/points", "s3://sources/delta-table"
    repo = imported(tmp_path / "iceberg", f"iceberg:{iceberg}", there)
    assert {row["id"]: (row["name"], row["height"]) for row in rows(repo, "points")} == model
    other = imported(tmp_path / "other", f"delta:{delta}", there)
    assert [row["id"] for row in rows(other, "delta-table")] == list(range(20, 300))
    assert {row["number"] for row in rows(other, "delta-table")} == set(range(7))
    for url in (iceberg, delta):
        copies = {path.suffix for path in folder_of_copies(url).rglob("*") if path.is_file()}
        # Of a Delta table that says nothing of geometries one file is looked at.
        assert ".parquet" not in copies or url == delta
    kept = list(folder_of_copies(delta).rglob("*.parquet"))
    assert len([path for path in kept if "_delta_log" not in path.parts]) <= 1

    bucket.delete_file(next(name for name in names_of(bucket, "ice-tables") if "/data/" in name))
    with pytest.raises(HavasuError, match="is missing, and the table needs it"):
        imported(tmp_path / "lost", f"iceberg:{iceberg}", there)


def names_of(system: S3FileSystem, folder: str) -> list[str]:
    found = system.get_file_info(FileSelector(f"sources/{folder}", recursive=True))
    return [info.path for info in found if info.is_file and info.path.endswith(".parquet")]
