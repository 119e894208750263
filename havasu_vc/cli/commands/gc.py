"""`havasu-vc gc`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Removed

__all__ = ["command"]


@click.command("gc", cls=Command)
@click.option(
    "--grace-days",
    type=click.FloatRange(0),
    default=14.0,
    show_default=True,
    help="Keep files that are younger, even if nothing needs them.",
)
@click.option("--prune-now", is_flag=True, help="The same as --grace-days 0.")
@click.option("-n", "--dry-run", is_flag=True, help="Tell what would be removed, and stop.")
@json_option
@click.pass_obj
def command(invocation: Invocation, grace_days: float, prune_now: bool, dry_run: bool) -> None:
    """Remove data files that nothing needs any more, and pack git's objects anew.

    Needed is what a branch, tag, reflog, stash, index, work tree or unfinished merge
    reaches. Objects of a repository of Kart's are left to `git gc`.
    """
    repo = invocation.open_repo()
    result = repo.gc(grace_days=0.0 if prune_now else grace_days, dry_run=dry_run)
    value: Removed = {
        "files": result.files,
        "size": result.size,
        "keptYoung": result.kept_young,
        "packed": result.packed,
        "dryRun": dry_run,
    }
    invocation.result("havasu.gc/v1", value)
    verb = "Would remove" if dry_run else "Removed"
    invocation.say(f"{verb} {counted(result.files, 'file')}, {format_size(result.size)}")
    if result.packed > 0:
        invocation.say(f"Packed git's objects anew: {format_size(result.packed)} less")
    if result.kept_young:
        invocation.say(f"{counted(result.kept_young, 'file')} unneeded, kept for now: too young")
