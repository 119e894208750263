"""`havasu-vc serve` and `open`: the repository for programs, and on a page."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.errors import MissingProgramError, RepositoryNotFoundError
from havasu_vc.library import Repo

__all__ = ["open", "serve"]


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
    metavar="PATTERN",
    multiple=True,
    help="Let clients commit to branches like PATTERN (`main`, `feature/*`); may be repeated.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Ask for a token of FILE, whose lines are a token and who it belongs to.",
)
@click.option(
    "--author-header",
    metavar="NAME",
    help="Commit as whom this header names, which a proxy that is trusted sets (`Ann <a@b.org>`).",
)
@click.option(
    "--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="The certificate, for TLS."
)
@click.option(
    "--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="The certificate's key."
)
@click.option(
    "--client-config",
    type=click.Choice(["pyiceberg", "duckdb", "spark", "trino", "flink"]),
    help="Serve nothing; print what to tell a client so that it finds the catalog.",
)
@click.option(
    "--warehouse", metavar="REF", default="", help="With --client-config: what the client reads."
)
@click.pass_obj
def serve(
    invocation: Invocation,
    host: str,
    port: int,
    write: tuple[str, ...],
    token_file: Path | None,
    author_header: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    client_config: str | None,
    warehouse: str,
) -> None:
    """Serve the repository as an Iceberg REST catalog, which Spark, DuckDB and others read.

    A warehouse is a branch, a tag or any revision; none is the branch that HEAD is on.
    It listens to this machine alone and commits nothing, unless told otherwise.
    """
    if tls_key is not None and tls_cert is None:
        raise click.UsageError("--tls-key goes with --tls-cert")
    if client_config is not None:
        from havasu_vc.serving import CatalogAddress, settings_for

        scheme = "http" if tls_cert is None else "https"
        url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
        address = CatalogAddress(url, warehouse, token_file is not None, bucket=_bucket(invocation))
        click.echo(settings_for(client_config, address))
        return
    repo = invocation.open_repo()
    try:
        from havasu_vc.serving.server import ServerAddress, serve
    except ImportError as error:
        if (error.name or "").startswith("havasu_vc"):  # it is not another's that lacks
            raise
        raise MissingProgramError(
            "the catalog needs Starlette and uvicorn, which are not installed",
            hints=("`pip install 'havasu-vc[serve]'`",),
        ) from error
    from havasu_vc.serving import ServeSettings

    def started(url: str) -> None:
        click.echo(url)

    if token_file is None and host not in ("127.0.0.1", "localhost", "::1"):
        invocation.note("everybody who reaches this machine may ask; --token-file asks for tokens")
    settings = ServeSettings(write, token_file, author_header)
    serve(repo.path, ServerAddress(host, port, tls_cert, tls_key), settings, started=started)


def _bucket(invocation: Invocation) -> str | None:
    """Return the bucket in which clients see the catalog of the repository here, if any."""
    try:
        return invocation.open_repo(rows=False).git.config.get("havasu.catalog.url")
    except RepositoryNotFoundError:
        return None


@click.command("open", cls=Command)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port to listen on; one that is free by default.",
)
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
@click.pass_obj
def open(invocation: Invocation, port: int, no_browser: bool) -> None:
    """Show the repository on a page in the browser: branches, history and data.

    The page is for this machine alone and needs no network. Its address is good once:
    a browser that opened it stays let in, until this ends by Ctrl-C.
    """
    repo = invocation.open_repo()
    try:
        from havasu_vc.face.application import open_face
    except ImportError as error:
        if (error.name or "").startswith("havasu_vc"):  # it is not another's that lacks
            raise
        raise MissingProgramError(
            "the page needs Starlette and uvicorn, which are not installed",
            hints=("`pip install 'havasu-vc[serve]'`",),
        ) from error

    def started(url: str) -> None:
        click.echo(url)
        if not no_browser:
            webbrowser.open(url)

    open_face(lambda: Repo.open(repo.path, settings=repo.settings), port, started=started)
