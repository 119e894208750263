"""`havasu-vc status`."""

from __future__ import annotations

import json
import sys

import click

from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option
from havasu_vc.repo import RepoStatus
from havasu_vc.writers.status import RepositoryStatus, Upstream, format_status, status_object

__all__ = ["command"]


@click.command("status", cls=Command)
@format_option("text", "json")
@click.pass_obj
def command(invocation: Invocation, output_format: str) -> None:
    """Show where HEAD is and what stands in the way."""
    status = invocation.open_repo(rows=False).status()
    printed = _printed(status)
    if output_format == "json":
        click.echo(json.dumps(_json(status, printed), indent=2))
        return
    click.echo(format_status(printed, color=invocation.colored(sys.stdout)), nl=False)
    if status.state != "clean" and status.waiting is None:
        click.echo(f"\nA git {status.state} is not finished; `git status` tells more.")
        if status.state not in ("bisect", "am"):
            click.echo("`havasu-vc merge --continue` merges the rows and concludes it.")
    if status.problems:
        click.echo("\nProblems:")
        for problem in status.problems:
            click.echo(f"  {visible(problem)}")


def _printed(status: RepoStatus) -> RepositoryStatus:
    upstream = None
    if status.upstream is not None:
        upstream = Upstream(status.upstream, status.ahead, status.behind)
    waiting = status.waiting
    if waiting is None:
        return RepositoryStatus(status.commit, status.branch, upstream)
    return RepositoryStatus(
        status.commit,
        status.branch,
        upstream,
        merging=waiting.context,
        conflicts=waiting.conflicts,
    )


def _json(status: RepoStatus, printed: RepositoryStatus) -> dict[str, object]:
    value: dict[str, object] = dict(status_object(printed))
    # Kart's readers pass over what they do not know.
    if status.state != "clean" or status.problems:
        value["havasu.status/v1"] = {"state": status.state, "problems": list(status.problems)}
    return value
