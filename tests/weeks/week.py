"""A user with a folder: commands they type, files they edit, and what they know to be true."""

import json
import sqlite3
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from click.testing import Result

from tests.cli.conftest import invoke

Row = dict[str, Any]
Rows = dict[Any, Row]


class User:
    """Somebody at work in one repository."""

    def __init__(self, repo: Path, key: str = "id") -> None:
        self.repo = repo
        self.key = key

    def does(self, *arguments: str | Path) -> Result:
        """Run a command that must succeed."""
        done = invoke(["-C", self.repo, *arguments])
        assert done.exit_code == 0, f"{arguments}: {done.output}"
        return done

    def may_not(self, code: int, *arguments: str | Path) -> str:
        """Run a command that must be refused, in one line and a hint; return what it says."""
        done = invoke(["-C", self.repo, *arguments])
        assert done.exit_code == code, f"{arguments}: {done.exit_code} {done.output}"
        assert "Traceback" not in done.output
        return done.output

    def rows(self, dataset: str, revision: str = "HEAD") -> Rows:
        """Return the rows of a dataset, as `cat` prints them."""
        said = self.does("cat", f"{dataset}@{revision}", "-o", "json-lines").stdout
        found = [json.loads(line) for line in said.splitlines()]
        rows = {row[self.key]: row for row in found}
        assert len(rows) == len(found)
        return rows

    def changed(self, dataset: str, spec: str) -> tuple[set[Any], set[Any], set[Any]]:
        """Return the keys that `diff` says were inserted, updated and deleted."""
        said = json.loads(self.does("diff", spec, dataset, "-o", "json").stdout)
        changes = said["kart.diff/v1+hexwkb"].get(dataset, {}).get("feature", [])
        new = {each["+"][self.key] for each in changes if "+" in each}
        old = {each["-"][self.key] for each in changes if "-" in each}
        return new - old, new & old, old - new

    def agrees(self, dataset: str, model: Mapping[Any, Row], revision: str = "HEAD") -> None:
        """Hold a dataset against the plain model: every row, and what `count` says."""
        rows = self.rows(dataset, revision)
        assert rows == dict(model)
        told = self.does("count", f"{dataset}@{revision}").stdout
        assert int(told.split()[-1].replace(",", "")) == len(model)


def compared(before: Mapping[Any, Row], after: Mapping[Any, Row]) -> tuple[set[Any], ...]:
    """Return the keys that came, changed and went between two models."""
    both = before.keys() & after.keys()
    return (
        set(after) - set(before),
        {key for key in both if before[key] != after[key]},
        set(before) - set(after),
    )


def edit(file: Path, *statements: str) -> None:
    """Edit a GeoPackage as QGIS would, by SQL."""
    with sqlite3.connect(file) as layer:
        for name in ("IsEmpty", "MinX", "MaxX", "MinY", "MaxY"):
            layer.create_function(f"ST_{name}", 1, lambda shape: None)
        for statement in statements:
            layer.execute(statement)
    layer.close()


def made_by_kart(shared_data: Path, name: str, folder: Path) -> Path:
    """Return a repository that Kart made of real data, unpacked below a folder."""
    folder.mkdir(parents=True)
    archive = shared_data / "kart" / f"{name}.tgz"
    subprocess.run(["tar", "--no-same-owner", "-xzf", archive, "-C", folder], check=True)
    (inside,) = folder.iterdir()
    return inside


def census(shared_data: Path, folder: Path) -> Rows:
    """Return the counties of the census of 2000, of a repository that Kart made."""
    rows = User(made_by_kart(shared_data, "table", folder), "OBJECTID").rows("countiestbl")
    return {
        key: {
            "id": key,
            "name": row["NAME"],
            "state": row["STATE_NAME"],
            "area": row["AREA"],
            "people": row["POP2000"],
        }
        for key, row in rows.items()
    }
