"""A checked-out table that Spark edits, beside a plain model that is edited alike."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import shapely

from havasu_vc import Repo
from havasu_vc.checkouts.edited_tables import EditedTable, draft_view, read_table_edits
from havasu_vc.checkouts.edits import diff_workspace, workspace_changes
from havasu_vc.looking.tables import Table
from havasu_vc.model.changes import count_changes
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.workspace.state import read_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = dict[str, Any]
Model = dict[int, Row]


def edits_of(repo: Repo, path: str) -> EditedTable | None:
    """Return what was edited in one table."""
    state = read_state(repo.git.git_directory)
    assert state is not None
    return read_table_edits(repo.opened, state, state.tables[path])


def rows_of(repo: Repo, path: str) -> list[Row]:
    """Return the rows that a table holds, as a commit would have them."""
    found = edits_of(repo, path)
    view = repo.dataset(path) if found is None else draft_view(repo.opened, found)
    return in_order(Table(view, repo.settings).to_arrow().to_pylist())


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.get("id") or 0, repr(row)))


def counts_of(repo: Repo, path: str) -> ChangeCounts:
    """Return the counts that status gives, after checking them against the diff."""
    status = workspace_changes(repo.opened)
    assert status is not None and status.problems == ()
    found = status.tables.get(path)
    rows = ChangeCounts() if found is None else found.rows
    diffs = {diff.path: count_changes(diff.changes) for diff in diff_workspace(repo.opened)}
    assert diffs.get(path, ChangeCounts()) == rows
    return rows


def compared(old: Model, new: Model) -> ChangeCounts:
    """Return how many rows differ between two models, in the columns that both have."""
    both = old.keys() & new.keys()
    updates = sum(
        any(value != new[key][name] for name, value in old[key].items() if name in new[key])
        or any(value is not None for name, value in new[key].items() if name not in old[key])
        for key in both
    )
    return ChangeCounts(len(new.keys() - both), updates, len(old.keys() - both))


def literal(value: Any) -> str:
    """Return a value as Spark SQL writes it."""
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case _:
            return str(value)


@dataclass
class Sheet:
    """A table and its model; every operation is done to both."""

    spark: "SparkSession"
    catalog: str
    """The catalog of the workspace."""
    dataset: str
    """The dataset's path."""
    rows: Model
    """The rows by id, as they must be now."""
    draw: random.Random = field(default_factory=lambda: random.Random(1))

    @property
    def table(self) -> str:
        return f"{self.catalog}.{self.dataset.replace('/', '.')}"

    @property
    def columns(self) -> list[str]:
        return list(next(iter(self.rows.values()))) if self.rows else []

    def sql(self, text: str) -> None:
        self.spark.sql(text.replace("TABLE_", self.table).replace("CATALOG_", self.catalog))

    def values(self, rows: list[Row]) -> str:
        return ", ".join(f"({', '.join(map(literal, row.values()))})" for row in rows)

    def new_rows(self, count: int) -> list[Row]:
        first = max(self.rows, default=0) + self.draw.randrange(1, 5)
        return [self.row(first + number) for number in range(count)]

    def row(self, key: int) -> Row:
        made = {
            "id": key,
            "geom": shapely.to_wkb(shapely.Point(key % 180, self.draw.randrange(80))),
            "name": self.draw.choice([None, f"it's {key}", "ünïcode"]),
            "number": self.draw.choice([None, self.draw.randrange(1000)]),
        }
        return {name: made.get(name) for name in self.columns or made}

    # Operations

    def insert(self) -> None:
        rows = self.new_rows(self.draw.randrange(1, 20))
        self.sql(f"INSERT INTO TABLE_ VALUES {self.values(rows)}")
        self.rows |= {row["id"]: row for row in rows}

    def append(self) -> None:
        rows = self.new_rows(5)
        schema = self.spark.table(self.table).schema
        frame = self.spark.createDataFrame([tuple(row.values()) for row in rows], schema)
        frame.writeTo(self.table).append()
        self.rows |= {row["id"]: row for row in rows}

    def update(self) -> None:
        by, rest = self.draw.randrange(2, 9), self.draw.randrange(2)
        value = self.draw.choice(["same", "other", None])
        name = "name" if "name" in self.columns else "title"
        self.sql(f"UPDATE TABLE_ SET {name} = {literal(value)} WHERE id % {by} = {rest}")
        for key, row in self.rows.items():
            if key % by == rest:
                self.rows[key] = row | {name: value}

    def delete(self) -> None:
        by = self.draw.randrange(5, 15)
        self.sql(f"DELETE FROM TABLE_ WHERE id % {by} = 0")
        self.rows = {key: row for key, row in self.rows.items() if key % by}

    def merge(self) -> None:
        mine = self.draw.sample(sorted(self.rows), min(6, len(self.rows)))
        source = [self.row(key) for key in mine] + self.new_rows(3)
        names = ", ".join(self.columns)
        self.sql(
            "MERGE INTO TABLE_ t "
            f"USING (SELECT * FROM VALUES {self.values(source)} AS s({names})) s "
            "ON t.id = s.id WHEN MATCHED AND t.id % 3 = 0 THEN DELETE "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        for row in source:
            if row["id"] in self.rows and row["id"] % 3 == 0:
                del self.rows[row["id"]]
            else:
                self.rows[row["id"]] = row

    def set_mode(self, mode: str) -> None:
        parts = ", ".join(f"'write.{what}.mode'='{mode}'" for what in ("delete", "update", "merge"))
        self.sql(f"ALTER TABLE TABLE_ SET TBLPROPERTIES ({parts})")

    def other_mode(self) -> None:
        self.set_mode(self.draw.choice(["copy-on-write", "merge-on-read"]))

    def rewrite(self) -> None:
        self.sql(
            "CALL CATALOG_.system.rewrite_data_files("
            f"table => '{self.table.partition('.')[2]}', options => map('rewrite-all', 'true'))"
        )

    def rewrite_manifests(self) -> None:
        self.sql(f"CALL CATALOG_.system.rewrite_manifests('{self.table.partition('.')[2]}')")

    def rewrite_deletes(self) -> None:
        name = self.table.partition(".")[2]
        self.sql(f"CALL CATALOG_.system.rewrite_position_delete_files('{name}')")

    def add_column(self) -> None:
        name = f"extra{len(self.columns)}"
        self.sql(f"ALTER TABLE TABLE_ ADD COLUMN {name} string")
        self.rows = {key: row | {name: None} for key, row in self.rows.items()}

    def rename_column(self) -> None:
        old, new = ("name", "title") if "name" in self.columns else ("title", "name")
        self.sql(f"ALTER TABLE TABLE_ RENAME COLUMN {old} TO {new}")
        self.rows = {
            key: {new if name == old else name: value for name, value in row.items()}
            for key, row in self.rows.items()
        }

    def everything(self) -> Iterator[str]:
        """Yield names of operations that keep the columns, in random order, without end."""
        names = ["insert", "append", "update", "delete", "merge", "other_mode", "rewrite"]
        names += ["rewrite_manifests", "rewrite_deletes", "update", "merge"]
        while True:
            yield self.draw.choice(names)
