"""`havasu-vc shell`."""

from __future__ import annotations

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command

__all__ = ["command"]


@click.command("shell", cls=Command)
@click.option("--ref", metavar="REV", help="Ask the datasets of a revision, not the checkout.")
@click.option("--no-jar", is_flag=True, help="Do without Iceberg: views instead of tables.")
@click.option("--master", metavar="URL", help="Where Spark runs; else as settings say.")
@click.pass_obj
def command(invocation: Invocation, ref: str | None, no_jar: bool, master: str | None) -> None:
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
    from havasu_vc.spark.querying import open_query

    asked = open_query(repo, ref, jar=not no_jar, master=master, note=invocation.note)
    names = {name: getattr(ours, name) for name in ("read", "changes", "history", "write")}
    kind = "tables of the checkout" if asked.catalog else "views"
    banner = f"Spark {asked.spark.version}; {kind}: {', '.join(asked.tables) or 'none'}"
    if invocation.quiet:
        banner = ""
    given = {"spark": asked.spark, "repo": repo, "functions": functions, **names}
    code.interact(banner, local=given, exitmsg="")
