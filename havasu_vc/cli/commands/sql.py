"""`havasu-vc sql`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option, output_option
from havasu_vc.cli.query_output import FORMATS, BatchedRows, write_rows
from havasu_vc.errors import StateError
from havasu_vc.library import Repo
from havasu_vc.querying import edited_by, split_statements, table_made_by, written_by

if TYPE_CHECKING:
    from havasu_vc.cli.query_output import QueryRows

__all__ = ["command"]


@click.command("sql", cls=Command)
@click.argument("query", required=False)
@click.option(
    "-f", "--file", "script", type=click.Path(path_type=Path), help="Run the statements of a file."
)
@click.option("--ref", metavar="REV", help="Ask the datasets of a revision, not the checkout.")
@format_option(*FORMATS)
@output_option
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=100,
    show_default=True,
    help="Rows that a table shows.",
)
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    help="What runs it: DuckDB, but Spark for what changes tables.",
)
@click.option("--no-jar", is_flag=True, help="Spark: do without Iceberg, on views.")
@click.option("--master", metavar="URL", help="Spark: where it runs; else as settings say.")
@click.pass_obj
def command(
    invocation: Invocation,
    query: str | None,
    script: Path | None,
    ref: str | None,
    output_format: str,
    output: Path | None,
    rows: int,
    engine: str | None,
    no_jar: bool,
    master: str | None,
) -> None:
    r"""Ask datasets with SQL.

    Each dataset is a table under its path, as the workspace or HEAD has it; nz/roads is
    also called nz_roads. A dataset at any revision is "DATASET@REV".

    DuckDB answers, with its SQL. What changes tables of the checkout is run by Spark, with
    Spark's SQL and Iceberg, and so is all with --engine spark. For - the query is read from
    standard input.

    \b
    havasu-vc sql "SELECT owner, count(*) FROM parcels GROUP BY owner"
    havasu-vc sql 'SELECT * FROM parcels EXCEPT SELECT * FROM "parcels@v1"'
    havasu-vc sql "SELECT * FROM parcels" --ref v1 -o parquet --output parcels.parquet
    havasu-vc sql "UPDATE parcels SET owner = 'Bea' WHERE id = 2"
    """
    text = _text(query, script)
    if output_format in ("parquet", "arrow") and output is None and sys.stdout.isatty():
        raise click.UsageError(f"{output_format} is no text: give --output FILE")
    repo = invocation.open_repo()
    statements = tuple(split_statements(text))
    if not statements:
        raise click.UsageError("there is no statement in it")
    if engine is None and (no_jar or master is not None):
        engine = "spark"

    def write(found: QueryRows) -> None:
        if write_rows(found, output_format, output, most=rows):
            invocation.note(f"only the first {rows} rows are shown; --rows shows more")

    if engine is None and not repo.workspace.has_tables:
        _require_no_edit(statements)
    if engine == "duckdb" or (engine is None and _is_for_duckdb(invocation, statements)):
        with repo.queries(text, ref) as queries:
            for statement in queries.statements:
                most = rows + 1 if output_format == "table" else None
                answer = queries.ask(statement, most)
                if answer is not None and output_format == "parquet":
                    answer = answer.as_geoparquet()
                if answer is not None:
                    write(BatchedRows(answer.schema, answer.batches))
        return
    _ask_spark(invocation, repo, statements, ref, no_jar, master, write)


def _require_no_edit(statements: tuple[str, ...]) -> None:
    """Raise where a statement edits tables, without a checkout that has some."""
    word = next(filter(None, map(edited_by, statements)), None)
    if word is not None:
        raise StateError(
            f"{word} edits the tables of a checkout, and there are none",
            hints=("`havasu-vc checkout` makes them, and `havasu-vc commit` takes what is edited",),
        )


def _require_only_reads(statements: tuple[str, ...]) -> None:
    """Raise where a statement edits tables, and datasets are views of what is committed."""
    word = next(filter(None, map(edited_by, statements)), None)
    if word is not None:
        raise StateError(
            f"{word} edits the tables of a checkout, and what Spark has here are views of commits",
            hints=(
                "`havasu-vc checkout` makes tables, and Spark of this machine edits them: leave "
                "--master, --ref and --no-jar out",
                "or write rows as a data frame, by `havasu_vc.spark.write`",
            ),
        )


def _is_for_duckdb(invocation: Invocation, statements: tuple[str, ...]) -> bool:
    from havasu_vc.exchange.duckdb import is_installed

    writing = next((word for each in statements if (word := written_by(each))), None)
    if writing is not None:
        invocation.note(f"{writing} changes tables, which Spark does; starting it takes a while")
        return False
    if not is_installed():
        invocation.note("DuckDB is not installed (pip install 'havasu-vc[duckdb]'); Spark answers")
        return False
    return True


def _ask_spark(
    invocation: Invocation,
    repo: Repo,
    statements: tuple[str, ...],
    ref: str | None,
    no_jar: bool,
    master: str | None,
    write: Callable[[QueryRows], None],
) -> None:
    from havasu_vc.engine.session import require_pyspark

    require_pyspark()
    from havasu_vc.spark.session import (
        CATALOG,
        SparkRows,
        open_query,
        run_statement,
        warehouse_of,
    )

    asked = open_query(repo, ref, jar=not no_jar, master=master, note=invocation.note)
    if not asked.catalog:
        _require_only_reads(statements)
    for statement in statements:
        frame = run_statement(asked.spark, statement)
        if frame.columns:
            write(SparkRows(frame))
        if (made := table_made_by(statement)) is not None and asked.catalog:
            path = made.removeprefix(f"{CATALOG}.").replace(".", "/")
            if path not in repo.datasets():
                place = f"iceberg:{warehouse_of(repo)}/{path}"
                invocation.note(
                    f"the table {path} is no dataset, and `commit` does not take it: `havasu-vc "
                    f"import {shlex.quote(place)} {shlex.quote(path)}` makes it one"
                )


def _text(query: str | None, script: Path | None) -> str:
    if (query is None) is (script is None):
        raise click.UsageError("give a query, - to read it from standard input, or a file with -f")
    if script is None:
        if query != "-":
            return query or ""
        script = Path("-")
    try:
        return sys.stdin.read() if str(script) == "-" else script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise click.UsageError(f"{script} cannot be read: {reason}") from error
