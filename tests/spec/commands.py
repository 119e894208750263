"""A repository that tests of rules work on by commands alone, and what is checked out of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from havasu_vc import Repo
from tests.cli.conftest import invoke, succeed


class Commands:
    """The command line in a repository of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        succeed(invoke(["init", path]))

    def __call__(self, *arguments: str | Path) -> str:
        return succeed(invoke(["-C", self.path, *arguments])).output

    def take(self, table: pa.Table, *arguments: str | Path) -> None:
        """Import a table as the dataset `t`."""
        file = self.path.with_name("t.parquet")
        pq.write_table(table, file)
        self("import", file, "t", "--primary-key", "id", *arguments)

    def write(self, **columns: Sequence[Any]) -> None:
        """Commit other values of some columns."""
        Repo.open(self.path).write("t", pa.table(columns))

    def columns(self) -> list[dict[str, Any]]:
        found = json.loads(self("meta", "get", "t", "-o", "json"))
        return list(found["t"]["schema.json"])

    def set_columns(self, columns: list[dict[str, Any]]) -> None:
        self("meta", "set", "t", f"schema.json={json.dumps(columns)}")

    @property
    def table(self) -> Path:
        """The folder of the checked-out table."""
        return self.path / "tables" / "t"

    @property
    def metadata(self) -> dict[str, Any]:
        """The newest metadata of the checked-out table."""
        folder = self.table / "metadata"
        version = (folder / "version-hint.text").read_text().strip()
        found: dict[str, Any] = json.loads((folder / f"v{version}.metadata.json").read_text())
        return found
