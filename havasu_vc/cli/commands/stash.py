"""`havasu-vc stash` and what is below it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.diffs import DiffOptions, diff_options, print_diff
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, join_message, json_option

if TYPE_CHECKING:
    from havasu_vc.checkouts import Stash
    from havasu_vc.cli.forms.results import StashEntry

__all__ = ["command"]

_name = click.argument("name", metavar="[N]", required=False)

_OF_GIT: Mapping[str, str] = MappingProxyType(
    {
        "branch": "`havasu-vc switch -c NAME REV` where it was made, then `havasu-vc stash pop`",
        "clear": "`havasu-vc stash drop N` forgets one",
        "save": "`havasu-vc stash push -m TEXT`",
    }
)
"""Words that git has below `stash`, with what to type; `stash push branch` means a dataset."""


class _StashGroup(click.Group):
    """The commands below; without one, edits are set aside."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `stash`, and `stash` with options or datasets, as `stash push`."""
        if args and (instead := _OF_GIT.get(args[0])) is not None:
            raise click.UsageError(f"there is no command 'stash {args[0]}'; {instead}", ctx)
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["push", *args]
        return super().parse_args(ctx, args)


@click.group("stash", cls=_StashGroup)
def command() -> None:
    """Set edits of the workspace aside, and bring them back.

    Without a command, as `push`. A stash is named by its number in the list, as 0 or
    stash@{0}; the newest is meant when none is named.
    """


@command.command("push", cls=Command, short_help="Set edits aside")
@click.argument("datasets", metavar="[DATASET...]", nargs=-1, shell_complete=complete_datasets)
@click.option("-m", "--message", "messages", metavar="TEXT", multiple=True, help="What it is.")
@engine_option
@json_option
@click.pass_obj
def push(invocation: Invocation, datasets: tuple[str, ...], messages: tuple[str, ...]) -> None:
    """Set edits aside, all or those of some datasets; the tables are at HEAD then."""
    repo = invocation.open_repo()
    stash = repo.workspace.stash(datasets, message=join_message(messages))
    invocation.result("havasu.stash-push/v1", _object(stash))
    invocation.say(f"Set aside as stash {stash.number}: {stash.message}")


@command.command("list", cls=Command, short_help="List what is set aside, newest first")
@json_option
@click.pass_obj
def list_(invocation: Invocation) -> None:
    """List what is set aside, newest first."""
    stashes = invocation.open_repo(rows=False).workspace.stashes()
    if invocation.json is not None:
        invocation.result("havasu.stash/v1", [_object(each) for each in stashes])
        return
    for each in stashes:
        click.echo(f"stash@{{{each.number}}}: {visible(each.message)}")


@command.command("show", cls=Command, short_help="Show what a stash changes")
@_name
@diff_options
@click.pass_obj
def show(invocation: Invocation, /, name: str | None, options: DiffOptions) -> int:
    """Show what a stash changes of the commit that it was made on."""
    repo = invocation.open_repo()
    _, diffs = repo.workspace.diff_stash(name)
    return print_diff(invocation, repo, diffs, options)


@command.command("apply", cls=Command, short_help="Bring a stash back into the tables, and keep it")
@_name
@json_option
@click.pass_obj
def apply(invocation: Invocation, name: str | None) -> None:
    """Bring a stash back into the tables, and keep it."""
    stash = invocation.open_repo().workspace.apply_stash(name)
    invocation.result("havasu.stash-apply/v1", _object(stash))
    invocation.say(f"Brought back: {stash.message}")


@command.command("pop", cls=Command, short_help="Bring a stash back into the tables, and forget it")
@_name
@json_option
@click.pass_obj
def pop(invocation: Invocation, name: str | None) -> None:
    """Bring a stash back into the tables, and forget it."""
    stash = invocation.open_repo().workspace.apply_stash(name, drop=True)
    invocation.result("havasu.stash-pop/v1", _object(stash))
    invocation.say(f"Brought back and forgotten: {stash.message}")


@command.command("drop", cls=Command, short_help="Forget a stash")
@_name
@json_option
@click.pass_obj
def drop(invocation: Invocation, name: str | None) -> None:
    """Forget a stash."""
    stash = invocation.open_repo(rows=False).workspace.drop_stash(name)
    invocation.result("havasu.stash-drop/v1", _object(stash))
    invocation.say(f"Dropped stash {stash.number} ({stash.commit[:10]}): {stash.message}")


def _object(stash: Stash) -> StashEntry:
    return {"number": stash.number, "commit": stash.commit, "message": stash.message}
