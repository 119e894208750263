"""A data platform without Spark: PyIceberg writes, DuckDB asks, branches are merged."""

import json
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import invoke
from tests.serving.server import catalog, serving
from tests.weeks.week import Rows, User, compared

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("owner", pa.string()),
        pa.field("area", pa.float64()),
        pa.field("day", pa.date32()),
    ]
)


def table(rows: Rows) -> pa.Table:
    import datetime

    made = [{**row, "day": datetime.date.fromisoformat(row["day"])} for row in rows.values()]
    return pa.Table.from_pylist(made, COLUMNS)


@pytest.mark.thorough
def test_a_week(tmp_path: Path) -> None:
    warnings.filterwarnings("ignore", "Merge on read")
    warnings.filterwarnings("ignore", "Delete operation did not match")
    model: Rows = {
        n: {"id": n, "owner": f"o{n % 97}", "area": n / 4, "day": f"2026-08-{n % 28 + 1:02}"}
        for n in range(5_000)
    }
    pq.write_table(table(model), tmp_path / "parcels.parquet")

    # Monday: the table goes in, and is asked.
    assert invoke(["init", tmp_path / "lake"]).exit_code == 0
    user = User(tmp_path / "lake")
    user.does("import", tmp_path / "parcels.parquet", "--primary-key", "id", "-m", "August")
    user.does("tag", "monday")
    user.does("branch", "load/tuesday")
    user.agrees("parcels", model)
    monday = {key: dict(row) for key, row in model.items()}

    def asked(statement: str) -> list[dict[str, object]]:
        return list(json.loads(user.does("sql", statement, "-o", "json").stdout))

    (total,) = asked("SELECT count(*) AS n, sum(area) AS area FROM parcels")
    assert total == {"n": len(model), "area": sum(row["area"] for row in model.values())}

    with serving(user.repo, "--write", "load/*") as url:
        # Tuesday: a pipeline upserts and deletes on a branch; main stays as it is.
        load = catalog(url, "load/tuesday").load_table("tables.parcels")
        new: Rows = {
            n: {"id": n, "owner": "new", "area": 1.0, "day": "2026-09-01"}
            for n in range(4_990, 5_020)
        }
        load.upsert(table(new))
        load.delete("id < 10")
        user.agrees("parcels", model)
        tuesday = {key: row for key, row in (model | new).items() if key >= 10}
        user.agrees("parcels", tuesday, "load/tuesday")
        assert user.changed("parcels", "main...load/tuesday") == compared(model, tuesday)

        # Wednesday: meanwhile main is corrected by a file; then the load is merged.
        model[100]["owner"] = "corrected"
        pq.write_table(table(model), tmp_path / "parcels.parquet")
        user.does("import", tmp_path / "parcels.parquet", "parcels", "--replace", "-m", "Corrected")
        user.does("merge", "load/tuesday", "-m", "Tuesday's load")
        model = {key: row for key, row in (model | new).items() if key >= 10}
        user.agrees("parcels", model)
        user.agrees("parcels", monday, "monday")

        # Thursday: a column, by the catalog; what main has keeps to the commands.
        user.does("branch", "load/thursday")
        more = catalog(url, "load/thursday").load_table("tables.parcels")
        from pyiceberg.types import StringType

        with more.update_schema() as update:
            update.add_column("note", StringType())
        more.refresh()
        one = pa.Table.from_pylist(
            [{"id": 20, "owner": "x", "area": 2.0, "day": None, "note": "seen"}],
            COLUMNS.append(pa.field("note", pa.string())),
        )
        more.upsert(one)
        user.may_not(43, "switch", "nowhere")
        user.does("merge", "load/thursday")
        model = {key: {**row, "note": None} for key, row in model.items()}
        model[20] = {"id": 20, "owner": "x", "area": 2.0, "day": None, "note": "seen"}
        user.agrees("parcels", model)

        # Friday: every reader sees one truth.
        read = catalog(url).load_table("tables.parcels").scan().to_arrow()
        found = {
            row["id"]: {**row, "day": None if row["day"] is None else row["day"].isoformat()}
            for row in read.to_pylist()
        }
        assert found == model
    sums = asked(
        "SELECT change, count(*) AS n FROM changes('monday...HEAD', 'parcels')"
        " GROUP BY 1 ORDER BY 1"
    )
    bare = {key: {k: v for k, v in row.items() if k != "note"} for key, row in model.items()}
    came, changed, went = compared(monday, bare)
    assert sums == [
        {"change": "delete", "n": len(went)},
        {"change": "insert", "n": len(came)},
        {"change": "update", "n": len(changed)},
    ]
    (blamed,) = asked("SELECT message FROM blame('parcels') WHERE id = 100")
    assert str(blamed["message"]).startswith("Corrected")
    user.does("optimize")
    user.agrees("parcels", model)
    user.does("validate")
    user.does("fsck", "--full")
