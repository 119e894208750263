"""`havasu-vc fsck`."""

from __future__ import annotations

import json

import click

from havasu_vc.cli.counts import counted
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, format_option

__all__ = ["command"]


@click.command("fsck", cls=Command)
@click.option("--full", is_flag=True, help="Also read every data file of HEAD and all branches.")
@engine_option
@format_option("text", "json")
@click.pass_obj
def command(invocation: Invocation, full: bool, output_format: str) -> int:
    """Check that everything stored is sound.

    Each problem is one line on stdout; the exit code is 1 if there is one.
    """
    repo = invocation.open_repo()
    if output_format == "json":
        problems = [
            {"where": problem.where, "message": problem.message, "hint": problem.hint}
            for problem in repo.fsck(full=full)
        ]
        click.echo(json.dumps({"havasu.fsck/v1": problems}, indent=2))
        return 1 if problems else 0
    count = 0
    for problem in repo.fsck(full=full):
        count += 1
        click.echo(f"{visible(problem.where)}: {visible(problem.message)}")
        if problem.hint:
            click.echo(f"  {visible(problem.hint)}")
    invocation.say(f"{counted(count, 'problem')} found" if count else "Everything is sound")
    return 1 if count else 0
