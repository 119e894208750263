"""DuckDB: tables that it keeps and changes come in, and it reads what goes out, by value."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given

from tests.conformance import ours
from tests.conformance.comparing import same_rows
from tests.conformance.drawing import KINDS, Abilities, histories
from tests.conformance.ours import BY_KEY, NAME, agrees, folder, made
from tests.conformance.tables import (
    KEY,
    AddColumn,
    Append,
    Delete,
    DropColumn,
    History,
    RenameColumn,
    State,
    Step,
    Update,
    Widen,
    arrow,
)
from tests.conformance.tally import Tally
from tests.support.examples import examples
from tests.support.templates import LOCAL, empty_repo

PROGRAM = "DuckDB"
# Bytes of one length are bytes of any there.
HELD = KINDS - {"fixed"}
STEPS = (Append, Update, Delete, AddColumn, DropColumn, RenameColumn, Widen)
WRITES = Abilities(kinds=HELD, steps=STEPS)
ROWS = Abilities(kinds=HELD, steps=(Append, Update, Delete))

tried = examples(20, suppress_health_check=list(HealthCheck))


class Kept:
    """A table in a database of DuckDB's, changed by SQL."""

    def __init__(self, first: State) -> None:
        self.database = duckdb.connect()
        self.database.execute("SET TimeZone = 'UTC'")
        self.database.register("given", arrow([], first.schema))
        self.database.execute("CREATE TABLE kept AS SELECT * FROM given")

    def apply(self, step: Step, before: State) -> None:
        match step:
            case Update(rows) | Append(rows):
                if isinstance(step, Update):
                    self._delete(tuple(row[KEY] for row in rows))
                self.database.register("given", arrow(list(rows), before.schema))
                self.database.execute("INSERT INTO kept BY NAME SELECT * FROM given")
            case Delete(keys):
                self._delete(keys)
            case AddColumn(column, parent):
                path = f'"{column.name}"' if parent is None else f'"{parent}"."{column.name}"'
                after = step.applied(before)
                place = self._type(after, column.name, parent)
                self.database.execute(f"ALTER TABLE kept ADD COLUMN {path} {place}")
            case DropColumn(name):
                self.database.execute(f'ALTER TABLE kept DROP COLUMN "{name}"')
            case RenameColumn(old, new):
                self.database.execute(f'ALTER TABLE kept RENAME COLUMN "{old}" TO "{new}"')
            case Widen(name):
                type_ = self._type(step.applied(before), name, None)
                self.database.execute(f'ALTER TABLE kept ALTER "{name}" TYPE {type_}')

    def _delete(self, keys: tuple[int, ...]) -> None:
        if keys:
            self.database.execute(f"DELETE FROM kept WHERE {KEY} IN ({', '.join(map(str, keys))})")

    def _type(self, state: State, name: str, parent: str | None) -> str:
        """Return the type of a column as DuckDB spells it."""
        if parent is None:
            type_ = state.column(name).type
        else:
            type_ = state.column(parent).type.field(name).type
        self.database.register("asked", arrow([], pa.schema([("x", type_)])))
        ((found,),) = self.database.execute("SELECT column_type FROM (DESCRIBE asked)").fetchall()
        return str(found)

    def copied(self, file: Path) -> Path:
        self.database.execute(f"COPY kept TO '{file}' (FORMAT parquet)")
        return file


@pytest.mark.thorough
@given(history=histories(WRITES))
@tried
def test_import_and_each_release(history: History, tally: Tally) -> None:
    with folder() as place:
        kept = Kept(history.first)
        repo = empty_repo(place / "repo", settings=LOCAL)
        for step, before in zip(history.steps, history.states, strict=False):
            kept.apply(step, before)
            file = kept.copied(place / "t.parquet")
            there = NAME in repo.datasets()
            repo.import_(file, NAME, options=BY_KEY, replace=there)
            direction = "import --replace" if there else "import"
            count = agrees(repo, step.applied(before), direction, in_order=not there)
            tally.case(PROGRAM, direction, count)


@given(history=histories(ROWS))
@tried
def test_commit_of_edited_rows(history: History, tally: Tally) -> None:
    with folder() as place:
        kept = Kept(history.first)
        first = History(history.first, history.steps[:1])
        kept.apply(history.steps[0], history.first)
        repo = made(place, first)
        for step, before in zip(history.steps[1:], history.states[1:], strict=False):
            kept.apply(step, before)
            after = step.applied(before)
            repo.commit_from(kept.copied(place / "t.parquet"), dataset=NAME, allow_empty=True)
            tally.case(PROGRAM, "commit --from", agrees(repo, after, "commit"))


@pytest.mark.thorough
@given(history=histories(ours.ABLE))
@tried
def test_export(history: History, tally: Tally) -> None:
    with folder() as place:
        repo = made(place, history)
        file = place / "out.parquet"
        repo.export(NAME, file)
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'; SET enable_geoparquet_conversion = false")
            # Without it a UUID would be a text.
            database.execute("SET arrow_lossless_conversion = true")
            found = database.sql(f"SELECT * FROM '{file}'").to_arrow_table()
            said = database.execute(
                "SELECT path_in_schema, num_values, stats_null_count, stats_min_value,"
                f" stats_max_value FROM parquet_metadata('{file}')"
            ).fetchall()
        assert found.column_names == [column.name for column in history.last.columns]
        check_statistics(said, history.last)
        tally.case(PROGRAM, "export", same_rows(found.to_pylist(), history.last, PROGRAM))


def check_statistics(said: list[tuple[str, int, int, str, str]], wanted: State) -> None:
    """Check what DuckDB finds in the footer of a file against the rows."""
    whole = (pa.int32(), pa.int64())
    for column in wanted.columns:
        for path, count, nulls, least, most in said:
            if path != column.name or pa.types.is_nested(column.type):
                continue
            values = [row[column.name] for row in wanted.rows.values()]
            present = [value for value in values if value is not None]
            assert count == len(values), column
            assert nulls in (None, len(values) - len(present)), column
            if column.type in whole and least is not None:
                assert (int(least), int(most)) == (min(present), max(present)), column
