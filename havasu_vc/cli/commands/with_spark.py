"""`havasu-vc spark-conf` and `shell`: the checkout, as Spark sees it."""

from __future__ import annotations

import json
import shlex

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command

__all__ = ["shell", "spark_conf"]

_CATALOG = "spark.sql.catalog.havasu"


@click.command("spark-conf", cls=Command)
@click.option("--json", "as_json", is_flag=True, help="Write a JSON object.")
@click.option("--arguments", is_flag=True, help="Write arguments for pyspark or spark-submit.")
@click.option("--no-jar", is_flag=True, help="Leave Iceberg and its catalog out.")
@click.option(
    "--tables",
    metavar="URL",
    help="Have the catalog over the tables below URL, which `checkout --to` made.",
)
@click.option(
    "--catalog",
    type=click.Choice(["checkout", "rest"]),
    default="checkout",
    help="Have the catalog over the checkout, or over what `havasu-vc serve` serves.",
)
@click.option(
    "--uri",
    default="http://127.0.0.1:8181",
    show_default=True,
    help="With --catalog rest: where it is served.",
)
@click.option("--ref", metavar="REV", default="", help="With --catalog rest: what to read.")
@click.pass_obj
def spark_conf(
    invocation: Invocation,
    as_json: bool,
    arguments: bool,
    no_jar: bool,
    tables: str | None,
    catalog: str,
    uri: str,
    ref: str,
) -> None:
    """Print the settings with which Spark sees the checkout as catalog `havasu`.

    By default as lines of spark-defaults.conf.
    """
    if no_jar and tables is not None:
        raise click.UsageError("--tables needs the jar, which --no-jar leaves out")
    if catalog == "rest" and (no_jar or tables is not None):
        raise click.UsageError("--catalog rest needs the jar, and reads no --tables")
    if as_json and arguments:
        raise click.UsageError("--json and --arguments exclude each other")
    repo = invocation.open_repo(rows=False)
    from havasu_vc.engine.session import require_spark

    require_spark()
    from havasu_vc.spark.session import session_settings

    found = session_settings(repo, jar=not no_jar, tables=tables)
    if catalog == "rest":
        from havasu_vc.serving import CatalogAddress, spark_settings

        rest = spark_settings(
            CatalogAddress(uri, ref, bucket=repo.git.config.get("havasu.catalog.url"))
        )
        found = {name: value for name, value in found.items() if not name.startswith(_CATALOG)}
        found |= rest
    settings = dict(sorted(found.items()))
    if as_json:
        click.echo(json.dumps(settings, indent=2))
    elif arguments:
        click.echo(" ".join(shlex.join(["--conf", f"{n}={v}"]) for n, v in settings.items()))
    else:
        for name, value in settings.items():
            click.echo(f"{name} {value}")


@click.command("shell", cls=Command)
@click.option("--ref", metavar="REV", help="Ask the datasets of a revision, not the checkout.")
@click.option("--no-jar", is_flag=True, help="Do without Iceberg: views instead of tables.")
@click.option("--master", metavar="URL", help="Where Spark runs; else as settings say.")
@click.pass_obj
def shell(invocation: Invocation, ref: str | None, no_jar: bool, master: str | None) -> None:
    """Open a Python shell with Spark, the repository and its tables at hand.

    `spark` is the session and `repo` the repository; `read`, `changes`, `history`, `write`
    and `functions` are those of `havasu_vc.spark`.
    """
    repo = invocation.open_repo()
    from havasu_vc.engine.session import require_spark

    require_spark()
    import code

    import havasu_vc.spark as ours
    from havasu_vc.spark import functions
    from havasu_vc.spark.session import open_query

    asked = open_query(repo, ref, jar=not no_jar, master=master, note=invocation.note)
    names = {name: getattr(ours, name) for name in ("read", "changes", "history", "write")}
    kind = "tables of the checkout" if asked.catalog else "views"
    banner = f"Spark {asked.spark.version}; {kind}: {', '.join(asked.tables) or 'none'}"
    if invocation.quiet:
        banner = ""
    given = {"spark": asked.spark, "repo": repo, "functions": functions, **names}
    code.interact(banner, local=given, exitmsg="")
