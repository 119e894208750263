"""`havasu-vc fetch`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.completing import complete_remotes
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option
from havasu_vc.cli.requests import Spelt, takes, without_it
from havasu_vc.sharing import FetchRequest, FetchResult

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Fetched

__all__ = ["command", "fetch_object", "tell_fetch"]


@click.command("fetch", cls=Command)
@click.argument("remote", required=False, shell_complete=complete_remotes)
@click.argument("refspecs", metavar="[REFSPEC...]", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Fetch from each remote in turn.")
@click.option("-p", "--prune", is_flag=True, help="Drop remote branches that are gone there.")
@click.option("-t", "--tags", is_flag=True, help="Bring all tags.")
@click.option("--depth", metavar="N", type=click.IntRange(1), help="Bring the newest N commits.")
@click.option("--unshallow", is_flag=True, help="Bring all commits that a shallow clone lacks.")
@takes(
    FetchRequest,
    data=Spelt("--no-data", parse=without_it, help="Bring git's part alone."),
    without=("remote", "refspecs", "options"),
)
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: FetchRequest,
    every: bool,
    prune: bool,
    tags: bool,
    depth: int | None,
    unshallow: bool,
) -> None:
    """Fetch what REMOTE has: its branches, then the data files that they name."""
    if depth is not None and unshallow:
        raise click.UsageError("--depth and --unshallow contradict each other")
    if every and request.remote is not None:
        raise click.UsageError("--all is for each remote; name none")
    options = [f"--depth={depth}"] if depth is not None else []
    options += ["--unshallow"] if unshallow else []
    options += [*(["--prune"] if prune else []), *(["--tags"] if tags else [])]
    repo = invocation.open_repo(rows=False)
    names = [name for name, _, _ in repo.remotes()] if every else [request.remote]
    results = []
    for name in names:
        results.append(repo.fetch.by(replace(request, remote=name, options=options)))
        tell_fetch(invocation, results[-1])
    invocation.result("havasu.fetch/v1", fetch_object(_together(results)))


def _together(results: Sequence[FetchResult]) -> FetchResult:
    """Return what came from several remotes as if it had come from one."""
    return FetchResult(
        ", ".join(each.remote for each in results),
        tuple(ref for each in results for ref in each.refs),
        sum(each.files for each in results),
        sum(each.size for each in results),
    )


def fetch_object(result: FetchResult) -> Fetched:
    """Return what came for programs."""
    return {
        "remote": result.remote,
        "refs": list(result.refs),
        "files": result.files,
        "size": result.size,
    }


def tell_fetch(invocation: Invocation, result: FetchResult) -> None:
    """Tell what came."""
    if result.refs:
        invocation.say(f"From {result.remote}")
    for line in result.refs:
        invocation.say(f"  {line}")
    if result.files:
        invocation.say(f"Fetched {counted(result.files, 'data file')}, {format_size(result.size)}")
