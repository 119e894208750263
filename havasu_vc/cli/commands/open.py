"""`havasu-vc open`."""

from __future__ import annotations

import webbrowser

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command
from havasu_vc.errors import MissingProgramError
from havasu_vc.library import Repo

__all__ = ["command"]


@click.command("open", cls=Command)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="The port to listen on; one that is free by default.",
)
@click.option("--no-browser", is_flag=True, help="Print the address and open no browser.")
@click.pass_obj
def command(invocation: Invocation, port: int, no_browser: bool) -> None:
    """Show the repository on a page in the browser: branches, history and data.

    The page is for this machine alone and needs no network. Its address is good once:
    a browser that opened it stays let in, until this ends by Ctrl-C.
    """
    repo = invocation.open_repo()
    try:
        from havasu_vc.face.application import open_face
    except ImportError as error:
        raise MissingProgramError(
            "the page needs Starlette and uvicorn, which are not installed",
            hints=("`pip install 'havasu-vc[serve]'`",),
        ) from error

    def started(url: str) -> None:
        click.echo(url)
        if not no_browser:
            webbrowser.open(url)

    open_face(lambda: Repo.open(repo.path, settings=repo.settings), port, started=started)
