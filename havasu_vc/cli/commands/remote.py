"""`havasu-vc remote`."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option
from havasu_vc.formats.repository_config import CONFIG_FILE
from havasu_vc.library import Repo

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Remote

__all__ = ["command"]


@click.command("remote", cls=Command)
@click.argument("arguments", metavar="[add NAME URL | remove NAME | ...]", nargs=-1)
@click.option("-v", "--verbose", is_flag=True, help="Also the URLs, without passwords.")
@click.option("--data", metavar="URL", help="With `add` and `set-url`: where the data files are.")
@json_option
@click.pass_obj
def command(
    invocation: Invocation, arguments: tuple[str, ...], verbose: bool, data: str | None
) -> None:
    """List, add and change remotes, as `git remote` does.

    The data files of a remote that is a folder lie beside its refs, those of others on
    its Git LFS server, unless `--data` names a folder or a bucket (file, sftp, s3, gs, abfs).
    Of the first remote, that is committed for all clones, as `havasu-vc data place` does.
    """
    from havasu_vc.remotes.urls import hidden_secrets

    repo = invocation.open_repo(rows=False)
    if data is not None and (len(arguments) < 2 or arguments[0] not in ("add", "set-url")):
        raise click.UsageError("--data goes with `add NAME URL` and `set-url NAME URL`")
    if data is not None:
        from havasu_vc.remotes.places import check_data_url

        check_data_url(data)
    if not arguments and invocation.json is None:
        for name, url, place in repo.remotes():
            shown = visible(name)
            click.echo(f"{shown}\t{visible(hidden_secrets(url))}" if verbose else shown)
            if verbose and place is not None:
                click.echo(f"{shown}\t{visible(hidden_secrets(place))} (data)")
        return
    text = repo.git.git("remote", *arguments).text if arguments else ""
    if data is not None:
        repo.git.config.set(f"remote.{arguments[1]}.havasuData", data)
        _tell_all(invocation, repo, arguments[1], data)
    for line in text.split("\n") if text else ():
        click.echo(visible(line), err=invocation.json is not None)
    listed: list[Remote] = [
        {
            "name": name,
            "url": hidden_secrets(url),
            "data": None if place is None else hidden_secrets(place),
        }
        for name, url, place in repo.remotes()
    ]
    invocation.result("havasu.remote/v1", listed)


def _tell_all(invocation: Invocation, repo: Repo, name: str, data: str) -> None:
    """Commit where the data of the only remote is, unless the commits say something already."""
    known = repo.stated_data_place(name)
    if known == data:
        return
    if known is None and len(repo.remotes()) == 1 and repo.git.work_tree is not None:
        if repo.set_data_place(data):
            invocation.say(f"Committed {CONFIG_FILE}: clones know where the data is")
        return
    invocation.note(f"`havasu-vc data place {shlex.quote(data)}` commits it, for all clones")
