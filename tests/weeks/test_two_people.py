"""Two people: one writes SQL and PyIceberg through the catalog, one uses git; both are merged."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import invoke
from tests.serving.conftest import engines
from tests.serving.server import catalog, serving
from tests.serving.test_engines import attach, duckdb
from tests.support.git import run_git
from tests.weeks.week import Row, Rows, User, census, compared

__all__ = ["duckdb", "engines"]

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("state", pa.string()),
        pa.field("area", pa.float64()),
    ]
)
BRANCH = "week/sql"


def row(number: int, state: str = "Guam") -> Row:
    return {"id": number, "state": state, "area": number / 2}


def table(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist(list(rows.values()), COLUMNS)


@pytest.mark.thorough
def test_a_week(
    tmp_path: Path, shared_data: Path, duckdb: Callable[[list[str]], list[Any]]
) -> None:
    warnings.filterwarnings("ignore", "Merge on read")
    counties = list(census(shared_data, tmp_path / "kart").values())[:2_000]
    base: Rows = {
        n: {"id": n, "state": each["state"], "area": each["area"]}
        for n, each in enumerate(counties)
    }
    file = tmp_path / "counties.parquet"
    hub = tmp_path / "hub.git"

    # Monday: a table on a bare server, and a branch that the catalog may write.
    assert invoke(["init", tmp_path / "ben"]).exit_code == 0
    ben = User(tmp_path / "ben")
    run_git("init", "--quiet", "--bare", str(hub), cwd=tmp_path)
    pq.write_table(table(base), file)
    ben.does("import", file, "--primary-key", "id", "-m", "Counties")
    run_git("branch", BRANCH, cwd=ben.repo)
    ben.does("remote", "add", "origin", hub)
    ben.does("push", "origin", "main", BRANCH)

    def replaced(rows: Rows, message: str) -> None:
        pq.write_table(table(rows), file)
        ben.does("import", file, "counties", "--replace", "-m", message)

    def through(url: str, ref: str) -> Rows:
        found = catalog(url, ref).load_table("tables.counties").scan().to_arrow().to_pylist()
        assert len({each["id"] for each in found}) == len(found)
        return {each["id"]: each for each in found}

    def asked(url: str, *statements: str) -> list[Any]:
        answers = duckdb([attach(url, BRANCH), *statements])
        assert not [each for each in answers if isinstance(each, str)]
        return answers[1:]

    with serving(hub, "--write", BRANCH) as url:
        # Tuesday: Ann changes rows by SQL and by PyIceberg, Ben others by a file and git.
        asked(
            url,
            "UPDATE served.tables.counties SET state = 'Yukon' WHERE id < 50",
            "DELETE FROM served.tables.counties WHERE id BETWEEN 60 AND 69",
            "INSERT INTO served.tables.counties VALUES (5000, 'Puerto Rico', 2500)",
        )
        stale = catalog(url, BRANCH).load_table("tables.counties")
        catalog(url, BRANCH).load_table("tables.counties").upsert(table({5001: row(5001, "Samoa")}))
        ann = {key: each for key, each in base.items() if not 60 <= key < 70}
        ann |= {n: {**ann[n], "state": "Yukon"} for n in range(50)}
        ann |= {5000: row(5000, "Puerto Rico"), 5001: row(5001, "Samoa")}
        assert through(url, BRANCH) == ann

        bens = {key: each for key, each in base.items() if key != 1999}
        bens |= {n: {**bens[n], "area": -1.0} for n in range(1000, 1100)}
        bens |= {6000: row(6000)}
        replaced(bens, "Areas")
        ben.agrees("counties", bens)

        # Wednesday: git itself merges what both did; both see the same.
        ben.does("fetch", "origin")
        ben.agrees("counties", ann, f"origin/{BRANCH}")
        assert ben.changed("counties", f"HEAD^...origin/{BRANCH}") == compared(base, ann)
        run_git("merge", "-q", "-m", "Ann's rows", f"origin/{BRANCH}", cwd=ben.repo)
        both = {key: each for key, each in (base | ann | bens).items() if key != 1999}
        both = {key: each for key, each in both.items() if not 60 <= key < 70}
        both |= {n: ann[n] for n in range(50)}
        ben.agrees("counties", both)
        ben.does("push", "origin", "main", f"main:{BRANCH}")
        assert through(url, "main") == through(url, BRANCH) == both

        # Thursday: what Ann's program read on Tuesday is a base still; then both change one row.
        stale.append(table({5002: row(5002, "Palau")}))
        both |= {5002: row(5002, "Palau")}
        assert through(url, BRANCH) == both
        asked(url, "UPDATE served.tables.counties SET state = 'Ann' WHERE id IN (300, 301)")
        bens = {key: each for key, each in both.items() if key != 5002}
        bens |= {300: {**both[300], "state": "Ben"}, 302: {**both[302], "state": "Ben"}}
        replaced(bens, "States")
        ben.does("fetch", "origin")
        assert "counties:feature: 1 conflict" in ben.does("merge", f"origin/{BRANCH}").output
        told = ben.does("conflicts").stdout
        assert "300" in told
        assert "301" not in told
        ben.does("resolve", "--with", "theirs", "counties")
        ben.does("merge", "--continue")
        both |= {n: {**both[n], "state": "Ann"} for n in (300, 301)}
        both |= {302: {**both[302], "state": "Ben"}}
        ben.agrees("counties", both)

        # Friday: it is published; every reader has one truth, and history is what was done.
        ben.does("push", "origin", "main", f"main:{BRANCH}")
        assert through(url, "main") == both
        ((count, areas),) = asked(url, "SELECT count(*), sum(area) FROM served.tables.counties")[0]
        assert count == len(both)
        assert areas == pytest.approx(sum(each["area"] for each in both.values()))
    subjects = json.loads(ben.does("log", "-o", "json").stdout)
    assert len([each for each in subjects if len(each["parents"]) == 2]) == 2
    ben.does("fsck", "--full")
    assert invoke(["-C", hub, "fsck", "--full"]).exit_code == 0
