"""Checkouts by one partition spec after another: what others make of all specs of a table."""

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import Result
from pyiceberg.expressions import EqualTo
from pyiceberg.table import StaticTable

from havasu_vc.checkouts import clustered_versions
from tests.cli.conftest import invoke, succeed
from tests.conformance.duckdb_iceberg import Reader, reading
from tests.serving.conftest import engines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["engines"]

Catalog = Callable[[Path | str], str]
Run = Callable[..., Result]

ROWS: list[dict[str, Any]] = [{"id": n, "n": n % 3, "name": f"row {n}"} for n in range(12)]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run commands on a repository of the dataset `things`: `run("status")`."""
    types = pa.schema([("id", pa.int64()), ("n", pa.int32()), ("name", pa.string())])
    return repository(tmp_path, pa.Table.from_pylist(ROWS, types))


def repository(folder: Path, rows: pa.Table) -> Run:
    pq.write_table(rows, folder / "things.parquet")
    succeed(invoke(["init", folder / "repo"]))

    def run_here(*arguments: str | Path) -> Result:
        return succeed(invoke(["-C", folder / "repo", *arguments]))

    run_here("import", folder / "things.parquet", "--primary-key", "id", "-m", "First")
    return run_here


@pytest.fixture(scope="module")
def duckdb(engines: Path) -> Iterator[Reader]:
    with reading(engines) as found:
        yield found


def part(run: Run, spec: str) -> None:
    said = run("checkout", "--layout", "clustered", "--dataset", "things", "--partition-by", spec)
    assert said.stderr.startswith("Checked out 1 table at ")


def table_of(folder: Path) -> Path:
    return folder / "repo" / "tables" / "things"


def newest(table: Path) -> Path:
    number = (table / "metadata" / "version-hint.text").read_text()
    return table / "metadata" / f"v{number}.metadata.json"


def fields(table: Path) -> list[list[tuple[int, str, str]]]:
    """Return the fields of each spec of a table."""
    return [
        [(field["field-id"], field["name"], field["transform"]) for field in spec["fields"]]
        for spec in json.loads(newest(table).read_text())["partition-specs"]
    ]


def rename(run: Run, old: str, new: str) -> None:
    columns = json.loads(run("meta", "get", "things", "schema.json", "-o", "json").stdout)
    (columns,) = columns.values()
    columns = columns["schema.json"]
    for column in columns:
        if column["name"] == old:
            column["name"] = new
    run("meta", "set", "things", f"schema.json={json.dumps(columns)}", "-m", f"Call it {new}")


def check_readers(table: Path, rows: list[dict[str, Any]], duckdb: Reader) -> None:
    """Check all rows, and those that a condition on a partition's column keeps."""
    wanted = sorted(rows, key=lambda row: row["id"])
    held = StaticTable.from_metadata(str(table))
    assert sorted(held.scan().to_arrow().to_pylist(), key=lambda row: row["id"]) == wanted
    assert sorted(duckdb.read(table).to_pylist(), key=lambda row: row["id"]) == wanted
    some = held.scan(row_filter="id = 2").to_arrow().to_pylist()
    assert some == [row for row in wanted if row["id"] == 2]


def check_spark(spark: "SparkSession", name: str, rows: list[dict[str, Any]]) -> None:
    """Check what Iceberg's own library finds, and that it takes the specs for one type."""
    wanted = sorted(rows, key=lambda row: row["id"])
    assert spark.sql(f"SELECT * FROM {name} ORDER BY id").toArrow().to_pylist() == wanted
    assert spark.sql(f"SELECT _partition FROM {name}").count() == len(rows)
    counts = "sum(record_count) - sum(position_delete_record_count)"
    assert spark.sql(f"SELECT {counts} FROM {name}.partitions").collect()[0][0] == len(rows)


SPECS = ("n", "bucket(2, id)", "n, truncate(2, name)", "bucket(4, id)", "bucket(2, id), n")


def test_specs_one_after_another(run: Run, tmp_path: Path, duckdb: Reader) -> None:
    table = table_of(tmp_path)
    for spec in SPECS:
        part(run, spec)
        check_readers(table, ROWS, duckdb)

    id_bucket = (1001, "id_bucket", "bucket[2]")
    n = (1000, "n", "identity")
    assert fields(table) == [
        [n],
        [id_bucket],
        [n, (1002, "name_trunc", "truncate[2]")],
        [(1003, "id_bucket_4", "bucket[4]")],
        [id_bucket, n],
    ]
    assert json.loads(newest(table).read_text())["last-partition-id"] == 1003
    part(run, "n")
    assert len(fields(table)) == len(SPECS)
    check_readers(table, ROWS, duckdb)


@pytest.mark.spark
def test_spark_opens_tables_of_many_specs(
    run: Run, spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    name = f"{iceberg(tmp_path / 'repo' / 'tables')}.things"
    rows = [dict(row) for row in ROWS]
    for step, spec in enumerate(SPECS):
        part(run, spec)
        check_spark(spark, name, rows)
        spark.sql(f"UPDATE {name} SET name = 'step {step}' WHERE id % 4 = {step % 4}")
        for row in rows:
            if row["id"] % 4 == step % 4:
                row["name"] = f"step {step}"
        assert "3 updates\n" in run("status").stdout
        run("commit", "-m", f"Step {step}")
        check_spark(spark, name, rows)
    assert "Nothing to commit" in run("status").stdout


def test_a_table_of_before_is_made_anew(run: Run, tmp_path: Path, duckdb: Reader) -> None:
    # Versions before this one gave the fields of every spec the same numbers.
    table = table_of(tmp_path)
    part(run, "n")
    part(run, "bucket(2, id)")
    document = json.loads(newest(table).read_text())
    assert document["partition-specs"][1]["fields"][0]["field-id"] == 1001
    document["partition-specs"][1]["fields"][0]["field-id"] = 1000
    document["last-partition-id"] = 1000
    newest(table).write_text(json.dumps(document))

    assert run("checkout").stderr.startswith("Checked out 1 table at ")
    assert fields(table) == [[(1001, "id_bucket", "bucket[2]")]]
    assert len(json.loads(newest(table).read_text())["snapshots"]) == 1
    check_readers(table, ROWS, duckdb)
    assert run("checkout").stderr.startswith("Nothing to do: ")
    assert "Nothing to commit" in run("status").stdout


def test_a_table_of_before_follows_a_commit(run: Run, tmp_path: Path, duckdb: Reader) -> None:
    table = table_of(tmp_path)
    part(run, "n")
    part(run, "bucket(2, id)")
    text = newest(table).read_text().replace('"field-id":1001', '"field-id":1000')
    newest(table).write_text(text.replace('"field-id": 1001', '"field-id": 1000'))
    assert (
        json.loads(text)["partition-specs"]
        != json.loads(newest(table).read_text())["partition-specs"]
    )
    run("meta", "set", "things", "title=Things", "-m", "A title")

    check_readers(table, ROWS, duckdb)
    assert fields(table) == [[(1002, "id_bucket", "bucket[2]")]]


def test_a_name_that_a_column_has(tmp_path: Path, duckdb: Reader) -> None:
    types = pa.schema([("id", pa.int64()), ("ID_bucket", pa.int64()), ("id_bucket_2", pa.int64())])
    rows = [{"id": n, "ID_bucket": n % 2, "id_bucket_2": -n} for n in range(12)]
    run = repository(tmp_path, pa.Table.from_pylist(rows, types))
    table = table_of(tmp_path)
    for spec in ("bucket(2, id)", "ID_bucket", "bucket(3, id)"):
        part(run, spec)
        check_readers(table, rows, duckdb)
    assert fields(table) == [
        [(1000, "id_bucket_3", "bucket[2]")],
        [(1001, "ID_bucket", "identity")],
        [(1002, "id_bucket_4", "bucket[3]")],
    ]
    part(run, "bucket(4, id), ID_bucket")
    check_readers(table, rows, duckdb)
    assert fields(table)[-1] == [
        (1003, "id_bucket_5", "bucket[4]"),
        (1001, "ID_bucket", "identity"),
    ]


@pytest.mark.parametrize("spec", ["bucket(2, n), n_bucket", "n_bucket, bucket(2, n)"])
def test_a_column_beside_a_field_of_its_name(tmp_path: Path, duckdb: Reader, spec: str) -> None:
    rows = [{"id": n, "n": n % 5, "n_bucket": -n % 2} for n in range(12)]
    run = repository(tmp_path, pa.Table.from_pylist(rows))
    part(run, spec)
    check_readers(table_of(tmp_path), rows, duckdb)
    names = {transform: name for _, name, transform in fields(table_of(tmp_path))[0]}
    assert names == {"identity": "n_bucket", "bucket[2]": "n_bucket_2"}


@pytest.mark.parametrize("brought", [False, True])
def test_columns_that_come_to_names_of_fields(
    run: Run, tmp_path: Path, duckdb: Reader, monkeypatch: pytest.MonkeyPatch, brought: bool
) -> None:
    if brought:  # as in large tables, whose files and manifests stay
        monkeypatch.setattr(clustered_versions, "SMALL", 0)
    table = table_of(tmp_path)
    part(run, "truncate(2, name)")
    part(run, "bucket(2, id)")
    for names, calls in RENAMED.items():
        rename(run, *names)
        check_readers(table, called(ROWS, names[1]), duckdb)
        assert [[name for _, name, _ in spec] for spec in fields(table)] == calls
        assert [[number for number, _, _ in spec] for spec in fields(table)] == [[1000], [1001]]


RENAMED = {
    ("n", "id_bucket"): [["name_trunc"], ["id_bucket_2"]],
    ("id_bucket", "name_trunc"): [["name_trunc_2"], ["id_bucket_2"]],
    ("name_trunc", "id_bucket_2"): [["name_trunc_2"], ["id_bucket"]],
}
"""Renamings of the column `n`, and what the fields of both specs are called then."""


def called(rows: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    """Return rows whose column `n` is called otherwise."""
    return [{name if key == "n" else key: value for key, value in row.items()} for row in rows]


@pytest.mark.spark
@pytest.mark.parametrize("brought", [False, True])
def test_spark_opens_tables_whose_fields_gave_way(
    run: Run,
    spark: "SparkSession",
    iceberg: Catalog,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    brought: bool,
) -> None:
    if brought:
        monkeypatch.setattr(clustered_versions, "SMALL", 0)
    name = f"{iceberg(tmp_path / 'repo' / 'tables')}.things"
    rows = [dict(row) for row in ROWS]
    part(run, "truncate(2, name)")
    part(run, "n, bucket(2, id)")
    for step, (old, new) in enumerate(RENAMED):
        rename(run, old, new)
        check_spark(spark, name, called(rows, new))
        spark.sql(f"UPDATE {name} SET name = 'step {step}' WHERE id % 4 = {step}")
        for row in rows:
            if row["id"] % 4 == step:
                row["name"] = f"step {step}"
        run("commit", "-m", f"Step {step}")
        check_spark(spark, name, called(rows, new))
    assert "Nothing to commit" in run("status").stdout


EXACT = pa.schema(
    [("id", pa.int64())]
    + [(f"d{n}", pa.decimal128(9, 2)) for n in range(3)]
    + [(f"f{n}", pa.binary(4)) for n in range(2)]
    + [(f"u{n}", pa.uuid()) for n in range(2)]
)
ALIKE: list[dict[str, Any]] = [
    {
        "id": n,
        **{f"d{k}": Decimal(n % (k + 2)) / 4 - k for k in range(3)},
        **{f"f{k}": bytes([n % (k + 2)] * 4) for k in range(2)},
        **{f"u{k}": bytes([n % (k + 2)] * 16) for k in range(2)},
    }
    for n in range(12)
]
BY_ALIKE = "d0, truncate(10, d1), d2, f0, f1, u0, u1"


def test_values_of_one_type(tmp_path: Path, duckdb: Reader) -> None:
    run = repository(tmp_path, pa.Table.from_pylist(ALIKE, EXACT))
    table = table_of(tmp_path)
    part(run, BY_ALIKE)
    held = StaticTable.from_metadata(str(table))
    for rows in (held.scan().to_arrow(), duckdb.read(table)):
        found = sorted(rows.to_pylist(), key=lambda row: row["id"])
        assert [plain(row) for row in found] == ALIKE
    equal: Any = EqualTo
    for name, value in (("d2", Decimal("-1.75")), ("f1", b"\2\2\2\2")):
        wanted = [row["id"] for row in ALIKE if row[name] == value]
        some = held.scan(row_filter=equal(name, value), selected_fields=("id",)).to_arrow()
        assert sorted(some["id"].to_pylist()) == wanted != []


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row whose UUIDs are bytes."""
    return {name: getattr(value, "bytes", value) for name, value in row.items()}


@pytest.mark.spark
def test_spark_reads_and_edits_values_of_one_type(
    spark: "SparkSession", iceberg: Catalog, tmp_path: Path
) -> None:
    run = repository(tmp_path, pa.Table.from_pylist(ALIKE, EXACT))
    name = f"{iceberg(tmp_path / 'repo' / 'tables')}.things"
    # Iceberg's own library (1.12) takes bytes of one length to begin with their length.
    part(run, BY_ALIKE.replace("f0, f1, ", ""))
    rows = [dict(row) for row in ALIKE]
    for step in range(2):
        spark.sql(f"UPDATE {name} SET d1 = 7.{step} WHERE d2 < -1.7 AND id % 2 = {step}")
        for row in rows:
            if row["d2"] < Decimal("-1.7") and row["id"] % 2 == step:
                row["d1"] = Decimal(f"7.{step}0")
        run("commit", "-m", f"Step {step}")
        found = spark.sql(f"SELECT * FROM {name} ORDER BY id").toArrow().to_pylist()
        assert [{**row, "u0": None, "u1": None} for row in rows] == [
            {**row, "u0": None, "u1": None} for row in found
        ]
    assert [row["d1"] for row in rows] != [row["d1"] for row in ALIKE]


def test_a_decimal_that_is_rounded_beyond_its_type(tmp_path: Path, duckdb: Reader) -> None:
    types = pa.schema([("id", pa.int64()), ("d", pa.decimal128(3, 2))])
    rows = [{"id": n, "d": Decimal(each)} for n, each in enumerate(("-9.99", "9.99", "0.05"))]
    run = repository(tmp_path, pa.Table.from_pylist(rows, types))
    options = ["checkout", "--layout", "clustered", "--dataset", "things", "--partition-by"]

    refused = invoke(["-C", tmp_path / "repo", *options, "truncate(10, d)"])
    assert refused.exit_code == 2
    assert refused.stderr.splitlines() == [
        "Error: the table of things stays as it is: d cannot be partitioned by truncate[10]: "
        "-9.99 is rounded down to -10.00, which is beyond decimal(3, 2)",
        "Hint: partition by the column itself, by bucket(16, …) or by another width",
    ]
    assert not table_of(tmp_path).exists()
    for spec in ("truncate(3, d)", "d", "bucket(2, d)"):
        part(run, spec)
        check_readers(table_of(tmp_path), rows, duckdb)


def test_files_that_went_with_the_column_they_were_parted_by(
    run: Run, tmp_path: Path, duckdb: Reader
) -> None:
    table = table_of(tmp_path)
    part(run, "truncate(2, n)")
    shown = json.loads(run("meta", "get", "things", "schema.json", "-o", "json").stdout)
    columns = [c for c in shown["things"]["schema.json"] if c["name"] != "n"]
    run("meta", "set", "things", f"schema.json={json.dumps(columns)}", "-m", "Drop n")
    run("checkout", "--layout", "linked")

    rows = [{"id": row["id"], "name": row["name"]} for row in ROWS]
    held = StaticTable.from_metadata(str(table)).scan().to_arrow().to_pylist()
    assert sorted(held, key=lambda row: row["id"]) == rows
    # DuckDB 1.5 also fails by any condition where a spec has a column that is gone.
    assert sorted(duckdb.read(table).to_pylist(), key=lambda row: row["id"]) == rows
