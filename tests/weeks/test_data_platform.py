"""A data platform without Spark: PyIceberg writes counties, DuckDB asks, branches are merged."""

import json
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import invoke
from tests.serving.server import catalog, serving
from tests.weeks.week import Rows, User, census, compared

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("state", pa.string()),
        pa.field("area", pa.float64()),
        pa.field("people", pa.float64()),
    ]
)


def table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), COLUMNS)


@pytest.mark.thorough
def test_a_week(tmp_path: Path, shared_data: Path) -> None:
    warnings.filterwarnings("ignore", "Merge on read")
    warnings.filterwarnings("ignore", "Delete operation did not match")
    model = census(shared_data, tmp_path / "kart")
    pq.write_table(table(model), tmp_path / "counties.parquet")

    # Monday: the table goes in, and is asked.
    assert invoke(["init", tmp_path / "lake"]).exit_code == 0
    user = User(tmp_path / "lake")
    user.does("import", tmp_path / "counties.parquet", "--primary-key", "id", "-m", "Census")
    user.does("tag", "monday")
    user.does("branch", "load/tuesday")
    user.agrees("counties", model)
    monday = {key: dict(row) for key, row in model.items()}

    def asked(statement: str) -> list[dict[str, object]]:
        return list(json.loads(user.does("sql", statement, "-o", "json").stdout))

    (total,) = asked("SELECT count(*) AS n, sum(area) AS area FROM counties")
    assert total["n"] == len(model) == 3_141
    assert total["area"] == pytest.approx(sum(row["area"] for row in model.values()))
    (most,) = asked("SELECT state FROM counties GROUP BY state ORDER BY count(*) DESC LIMIT 1")
    assert most == {"state": "Texas"}

    with serving(user.repo, "--write", "load/*") as url:
        # Tuesday: a pipeline upserts and deletes on a branch; main stays as it is.
        load = catalog(url, "load/tuesday").load_table("tables.counties")
        new: Rows = {
            n: {"id": n, "name": "new", "state": "Alaska", "area": 1.0, "people": 7.0}
            for n in range(3_130, 3_160)
        }
        load.upsert(table(new))
        load.delete("id < 10")
        user.agrees("counties", model)
        tuesday = {key: row for key, row in (model | new).items() if key >= 10}
        user.agrees("counties", tuesday, "load/tuesday")
        assert user.changed("counties", "main...load/tuesday") == compared(model, tuesday)

        # Wednesday: meanwhile main is corrected by a file; then the load is merged.
        model[100]["name"] = "corrected"
        pq.write_table(table(model), tmp_path / "counties.parquet")
        user.does(
            "import", tmp_path / "counties.parquet", "counties", "--replace", "-m", "Corrected"
        )
        user.does("merge", "load/tuesday", "-m", "Tuesday's load")
        model = {key: row for key, row in (model | new).items() if key >= 10}
        user.agrees("counties", model)
        user.agrees("counties", monday, "monday")

        # Thursday: a column, by the catalog; what main has keeps to the commands.
        user.does("branch", "load/thursday")
        more = catalog(url, "load/thursday").load_table("tables.counties")
        from pyiceberg.types import StringType

        with more.update_schema() as update:
            update.add_column("note", StringType())
        more.refresh()
        seen = {**model[20], "people": None, "note": "seen"}
        one = pa.Table.from_pylist(
            [seen],
            COLUMNS.append(pa.field("note", pa.string())),
        )
        more.upsert(one)
        user.may_not(43, "switch", "nowhere")
        user.does("merge", "load/thursday")
        model = {key: {**row, "note": None} for key, row in model.items()}
        model[20] = seen
        user.agrees("counties", model)

        # Friday: every reader sees one truth.
        read = catalog(url).load_table("tables.counties").scan().to_arrow()
        assert {row["id"]: row for row in read.to_pylist()} == model
    sums = asked(
        "SELECT change, count(*) AS n FROM changes('monday...HEAD', 'counties')"
        " GROUP BY 1 ORDER BY 1"
    )
    bare = {key: {k: v for k, v in row.items() if k != "note"} for key, row in model.items()}
    came, changed, went = compared(monday, bare)
    assert sums == [
        {"change": "delete", "n": len(went)},
        {"change": "insert", "n": len(came)},
        {"change": "update", "n": len(changed)},
    ]
    (blamed,) = asked("SELECT message FROM blame('counties') WHERE id = 100")
    assert str(blamed["message"]).startswith("Corrected")
    user.does("optimize")
    user.agrees("counties", model)
    user.does("validate")
    user.does("fsck", "--full")
