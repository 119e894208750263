"""`havasu-vc remote`."""

from __future__ import annotations

import click

from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command

__all__ = ["command"]


@click.command("remote", cls=Command)
@click.argument("arguments", metavar="[add NAME URL | remove NAME | ...]", nargs=-1)
@click.option("-v", "--verbose", is_flag=True, help="Also the URLs, without passwords.")
@click.option("--data", metavar="URL", help="With `add` and `set-url`: where the data files are.")
@click.pass_obj
def command(
    invocation: Invocation, arguments: tuple[str, ...], verbose: bool, data: str | None
) -> None:
    """List, add and change remotes, as `git remote` does.

    The data files of a remote that is a folder lie beside its refs, those of others on
    its Git LFS server, unless `--data` names a folder or a bucket (file, s3, gs, abfs).
    """
    from havasu_vc.remotes.urls import hidden_secrets

    repo = invocation.open_repo(rows=False)
    if data is not None and (len(arguments) < 2 or arguments[0] not in ("add", "set-url")):
        raise click.UsageError("--data goes with `add NAME URL` and `set-url NAME URL`")
    if data is not None:
        from havasu_vc.remotes.object_store import check_data_url

        check_data_url(data)
    if not arguments:
        for name, url, place in repo.remotes():
            shown = visible(name)
            click.echo(f"{shown}\t{visible(hidden_secrets(url))}" if verbose else shown)
            if verbose and place is not None:
                click.echo(f"{shown}\t{visible(hidden_secrets(place))} (data)")
        return
    text = repo.git.git("remote", *arguments).text
    if data is not None:
        repo.git.config.set(f"remote.{arguments[1]}.havasuData", data)
    for line in text.split("\n") if text else ():
        click.echo(visible(line))
