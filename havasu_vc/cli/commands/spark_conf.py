"""`havasu-vc spark-conf`."""

from __future__ import annotations

import json
import shlex

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command

__all__ = ["command"]


@click.command("spark-conf", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@click.option("--arguments", is_flag=True, help="Write arguments for pyspark or spark-submit.")
@click.option("--no-jar", is_flag=True, help="Leave Iceberg and its catalog out.")
@click.option(
    "--tables",
    metavar="URL",
    help="Have the catalog over the tables below URL, which `checkout --to` made.",
)
@click.pass_obj
def command(
    invocation: Invocation, as_json: bool, arguments: bool, no_jar: bool, tables: str | None
) -> None:
    """Print the settings with which Spark sees the checkout as catalog `havasu`.

    By default as lines of spark-defaults.conf.
    """
    if no_jar and tables is not None:
        raise click.UsageError("--tables needs the jar, which --no-jar leaves out")
    if as_json and arguments:
        raise click.UsageError("--json and --arguments exclude each other")
    repo = invocation.open_repo(rows=False)
    from havasu_vc.engine.session import require_spark

    require_spark()
    from havasu_vc.spark.session import session_settings

    found = session_settings(repo, jar=not no_jar, tables=tables)
    settings = dict(sorted(found.items()))
    if as_json:
        click.echo(json.dumps(settings, indent=2))
    elif arguments:
        click.echo(" ".join(shlex.join(["--conf", f"{n}={v}"]) for n, v in settings.items()))
    else:
        for name, value in settings.items():
            click.echo(f"{name} {value}")
