"""`havasu-vc commit-files`."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import click

from havasu_vc.cli.arguments import parse_assignment
from havasu_vc.cli.commands.meta import read_value
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option, message_options
from havasu_vc.cli.results import tell_commit

__all__ = ["command"]


@click.command("commit-files", cls=Command)
@click.argument("assignments", metavar="PATH=TEXT...", nargs=-1, required=True)
@message_options
@click.option("--ref", metavar="REF", default="HEAD", help="The branch that gets the commit.")
@click.option("--amend", is_flag=True, help="Commit in the place of HEAD's commit.")
@click.option("--remove-empty-files", is_flag=True, help="Remove files that are given no content.")
@click.option("--allow-empty", is_flag=True, help="Commit even if nothing differs.")
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    assignments: tuple[str, ...],
    message: str | None,
    ref: str,
    amend: bool,
    remove_empty_files: bool,
    allow_empty: bool,
) -> None:
    """Commit files beside the datasets of a Kart repository, which has no index to add them to.

    PATH=@FILE takes the content from a file.
    """
    if message is None and not amend:
        raise click.UsageError("the commit has no message: -m gives one")
    if amend and ref != "HEAD":
        raise click.UsageError("--amend is of HEAD's commit, so --ref does not go with it")
    files: dict[str, bytes | None] = {}
    for assignment in assignments:
        path, text = parse_assignment(assignment)
        data = read_value(Path(text[1:])) if text.startswith("@") else text.encode()
        files[path] = None if remove_empty_files and not data else data
    repo = invocation.open_repo()
    with repo.amending() if amend else nullcontext() as amended:
        text = message or (amended.message if amended is not None else "")
        result = repo.commit_files(files, text, ref=ref, allow_empty=allow_empty)
    tell_commit(invocation, repo, result)
