"""`havasu-vc optimize`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option, message_options
from havasu_vc.cli.requests import DRY_RUN, takes
from havasu_vc.cli.results import tell_commit
from havasu_vc.upkeep import OptimizeRequest

__all__ = ["command"]


@click.command("optimize", cls=Command)
@click.argument("datasets", nargs=-1, metavar="[DATASET...]", shell_complete=complete_datasets)
@takes(OptimizeRequest, dry_run=DRY_RUN, without=("datasets", "message"))
@message_options
@engine_option
@json_option
@click.pass_obj
def command(invocation: Invocation, /, request: OptimizeRequest) -> None:
    """Fold small and partly deleted files into a few clean ones.

    No row changes. It is a commit of its own, whose trailer names it; all datasets are
    meant where none is named.
    """
    repo = invocation.open_repo()
    tell_commit(invocation, repo, repo.optimize.by(request), dry_run=request.dry_run)
