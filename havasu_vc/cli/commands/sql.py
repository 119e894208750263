"""`havasu-vc sql`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, output_option
from havasu_vc.cli.query_output import (
    QUERY_FORMATS,
    write_arrow,
    write_csv,
    write_json,
    write_table,
)

if TYPE_CHECKING:
    from havasu_vc.spark.querying import Frame

__all__ = ["command"]


@click.command("sql", cls=Command)
@click.argument("query", required=False)
@click.option(
    "-f", "--file", "script", type=click.Path(path_type=Path), help="Run the statements of a file."
)
@click.option("--ref", metavar="REV", help="Ask the datasets of a revision, not the checkout.")
@click.option(
    "--output-format",
    type=click.Choice(QUERY_FORMATS),
    default="text",
    show_default=True,
    help="What to write: JSON has an object on each line, Arrow is an IPC stream.",
)
@output_option
@click.option(
    "--rows", type=click.IntRange(1), default=100, show_default=True, help="Rows that text shows."
)
@click.option("--no-jar", is_flag=True, help="Do without Iceberg: views instead of tables.")
@click.option("--master", metavar="URL", help="Where Spark runs; else as settings say.")
@click.pass_obj
def command(
    invocation: Invocation,
    query: str | None,
    script: Path | None,
    ref: str | None,
    output_format: str,
    output: Path | None,
    rows: int,
    no_jar: bool,
    master: str | None,
) -> None:
    r"""Run a query of Spark SQL.

    Where a workspace is checked out and Iceberg can be had, it is about the tables of the
    checkout, and may change them. Else, and with --ref, each dataset is a view: nz/roads is
    called nz_roads.

    \b
    havasu-vc sql "SELECT owner, count(*) FROM parcels GROUP BY owner"
    havasu-vc sql "UPDATE parcels SET owner = 'Bea' WHERE id = 2"
    havasu-vc sql "SELECT * FROM parcels" --ref v1 --output-format csv --output parcels.csv
    """
    text = _text(query, script)
    repo = invocation.open_repo()
    from havasu_vc.engine.session import require_spark

    require_spark()
    from havasu_vc.spark.querying import open_query, run_statement, split_statements

    statements = list(split_statements(text))
    if not statements:
        raise click.UsageError("there is no statement in it")
    asked = open_query(repo, ref, jar=not no_jar, master=master, note=invocation.note)
    for statement in statements:
        frame = run_statement(asked.spark, statement)
        if frame.columns and _write(frame, output_format, output, rows):
            invocation.note(f"only the first {rows} rows are shown; --rows shows more")


def _text(query: str | None, script: Path | None) -> str:
    if (query is None) is (script is None):
        raise click.UsageError("give a query, or a file with -f")
    if script is None:
        return query or ""
    try:
        return sys.stdin.read() if str(script) == "-" else script.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise click.UsageError(f"{script} cannot be read: {reason}") from error


def _write(frame: Frame, form: str, output: Path | None, most: int) -> bool:
    """Write the rows of a frame; return whether some were left out."""
    from havasu_vc.spark.querying import arrow_schema_of, rows_of

    if form == "arrow":
        target = nullcontext(sys.stdout.buffer) if output is None else output.open("wb")
        with target as out:
            write_arrow(arrow_schema_of(frame), rows_of(frame), out)
        return False
    place = nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8")
    with place as text:
        if form == "csv":
            write_csv(frame.columns, rows_of(frame), text)
        elif form == "json":
            write_json(frame.columns, rows_of(frame), text)
        else:
            return write_table(frame.columns, rows_of(frame.limit(most + 1)), text, most=most)
    return False
