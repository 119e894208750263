"""`havasu-vc push`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.completing import complete_branches, complete_remotes
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option
from havasu_vc.cli.requests import DRY_RUN, takes
from havasu_vc.sharing import PushRequest

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Pushed, PushedRef

__all__ = ["command"]


@click.command("push", cls=Command)
@click.argument("remote", required=False, shell_complete=complete_remotes)
@click.argument("refspecs", metavar="[REFSPEC...]", nargs=-1, shell_complete=complete_branches)
@click.option("-u", "--set-upstream", is_flag=True, help="Follow the branch from now on.")
@click.option("-f", "--force", is_flag=True, help="Move branches whatever they have.")
@click.option("--force-with-lease", is_flag=True, help="The same, unless others moved them.")
@click.option("--tags", is_flag=True, help="Push all tags.")
@click.option("--all", "every", is_flag=True, help="Push all branches.")
@click.option(
    "--mirror", is_flag=True, help="Make the refs there what they are here; others there go."
)
@click.option("-d", "--delete", is_flag=True, help="Delete the refs there.")
@takes(PushRequest, dry_run=DRY_RUN, without=("remote", "refspecs", "options"))
@json_option
@click.pass_obj
def command(invocation: Invocation, /, request: PushRequest, **flags: bool) -> None:
    """Send commits to REMOTE: the data files that they name, then the branches.

    What to push where nothing is named, and how to get in, is as in `git push`. Branches with
    a broken dataset are refused.
    """
    flags["all"] = flags.pop("every")
    options = tuple(f"--{name.replace('_', '-')}" for name, given in flags.items() if given)
    repo = invocation.open_repo(rows=False)
    result = repo.push.by(replace(request, options=options))
    refs = [_ref(line) for line in result.refs]
    value: Pushed = {
        "remote": result.remote,
        "refs": refs,
        "files": result.files,
        "size": result.size,
        "dryRun": request.dry_run,
    }
    invocation.result("havasu.push/v1", value)
    if result.files:
        invocation.say(f"Sent {counted(result.files, 'data file')}, {format_size(result.size)}")
    if not result.refs:
        if result.files:
            invocation.say(f"Its commits were at {result.remote} already, without that data")
            return
        invocation.say(f"Everything is at {result.remote} already")
        return
    invocation.say(f"{'Would push to' if request.dry_run else 'To'} {result.remote}")
    for ref in refs:
        names = " -> ".join(ref[name].removeprefix("refs/heads/") for name in ("source", "target"))
        invocation.say(f"  {ref['flag'].strip()} {names}  {ref['summary']}".rstrip())


def _ref(line: str) -> PushedRef:
    """Return what git says of a ref in a line of `git push --porcelain`."""
    flag, refs, summary = line.split("\t")
    source, _, target = refs.partition(":")
    return {"flag": flag, "source": source, "target": target, "summary": summary}
