"""`havasu-vc serve`."""

from __future__ import annotations

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.errors import MissingProgramError

__all__ = ["command"]


@click.command("serve", cls=Command)
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8181,
    show_default=True,
    help="The port to listen on; 0 takes one that is free.",
)
@click.option(
    "--write",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help="Branches that clients may commit to, such as 'main' or 'feature/*'; none unless given.",
)
@click.pass_obj
def command(invocation: Invocation, host: str, port: int, patterns: tuple[str, ...]) -> None:
    """Serve the repository as an Iceberg REST catalog, which Spark, DuckDB and others read.

    A warehouse is a branch, a tag or any revision; none is the branch that HEAD is on. What a
    client writes to a branch that --write names becomes a commit there.
    """
    repo = invocation.open_repo()
    try:
        from havasu_vc.serving.server import Address, serve
    except ImportError as error:
        raise MissingProgramError(
            "the catalog needs Starlette and uvicorn, which are not installed",
            hints=("`pip install 'havasu-vc[serve]'`",),
        ) from error
    from havasu_vc.serving import ServeSettings

    def started(url: str) -> None:
        click.echo(url)

    serve(repo.path, Address(host, port), ServeSettings(write=patterns), started=started)
