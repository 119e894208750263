"""`havasu-vc tag`."""

from __future__ import annotations

import json
import re
import sys

import click

from havasu_vc.cli.completing import complete_tags
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option, join_message
from havasu_vc.cli.passthrough import run_git_here, show_git
from havasu_vc.writers.commits import ABBREVIATED

__all__ = ["command"]

_EDITING = re.compile("-[a-z]*[aseu]|--(annotate|sign|local-user|edit)")
"""Options with which git may open an editor, or ask for a passphrase."""


@click.command("tag", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument(
    "arguments",
    metavar="[NAME [REV]]",
    nargs=-1,
    type=click.UNPROCESSED,
    shell_complete=complete_tags,
)
@click.option("-d", "--delete", is_flag=True, help="Delete tags.")
@click.option(
    "-m",
    "--message",
    "messages",
    metavar="TEXT",
    multiple=True,
    help="Give the tag a message, author and time of its own.",
)
@format_option("text", "json")
@click.pass_context
def command(
    context: click.Context,
    arguments: tuple[str, ...],
    delete: bool,
    messages: tuple[str, ...],
    output_format: str,
) -> int:
    """List tags, make the tag NAME at REV or HEAD, or delete tags.

    Any other option of `git tag` is handed to git.
    """
    invocation: Invocation = context.obj
    repo = invocation.open_repo(rows=False)
    if any(argument.startswith("-") for argument in arguments):
        options = [*["--delete"] * delete, *(f"--message={text}" for text in messages)]
        line = ["tag", *options, *arguments]
        if any(map(_EDITING.match, arguments)):
            return run_git_here(line, repo.git, color=invocation.colored(sys.stdout))
        return show_git(line, repo.git, color=False, pager=invocation.pager)
    if delete:
        if not arguments:
            raise click.UsageError("name the tags to delete")
        for name in arguments:
            was = next((each.commit for each in repo.tags() if each.name == name), None)
            repo.delete_tag(name)
            of = "" if was is None else f" (was {was[:ABBREVIATED]})"
            invocation.say(f"Deleted tag '{name}'{of}")
    elif arguments:
        if len(arguments) > 2:
            raise click.UsageError("a new tag has one name and one revision")
        repo.create_tag(*arguments, message=join_message(messages))
        invocation.say(f"Made tag '{arguments[0]}'")
    elif output_format == "json":
        tags = {
            tag.name: {"commit": tag.commit, "abbrevCommit": tag.commit[:7], "message": tag.message}
            for tag in repo.tags()
        }
        click.echo(json.dumps({"havasu.tag/v1": tags}, indent=2))
    else:
        for tag in repo.tags():
            click.echo(visible(tag.name))
    return 0
