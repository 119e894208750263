"""`havasu-vc apply`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import BinaryIO

import click

from havasu_vc.cli.arguments import parse_size
from havasu_vc.cli.as_kart import is_called_kart, results_on_stdout
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, join_message, json_option
from havasu_vc.cli.results import tell_commit
from havasu_vc.errors import NoWorkingCopyError

__all__ = ["command"]


@click.command("apply", cls=Command)
@click.argument("patch", type=click.File("rb"))
@click.option("--ref", metavar="BRANCH", help="Commit to this branch; HEAD stays where it is.")
@click.option(
    "--no-commit",
    is_flag=True,
    help="Try the patch, in the working copy if there is one; commit nothing.",
)
@click.option("--amend", is_flag=True, help="Commit in the place of HEAD's commit.")
@click.option("--allow-empty", is_flag=True, help="Commit even if the patch changes nothing.")
@click.option(
    "-m",
    "--message",
    "messages",
    metavar="TEXT",
    multiple=True,
    help="Use this message instead of the patch's.",
)
@click.option("--max-size", metavar="SIZE", help="Take patches up to this size, such as 1G.")
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    patch: BinaryIO,
    ref: str | None,
    no_commit: bool,
    amend: bool,
    allow_empty: bool,
    messages: tuple[str, ...],
    max_size: str | None,
) -> None:
    """Commit the changes of PATCH, a file that `havasu-vc create-patch` or Kart wrote.

    PATCH may be - for stdin. The commit has the author, time and message of the patch. Geometries
    of one that `create-patch --crs` wrote are brought into the dataset's system. With --amend
    the commit stands in the place of HEAD's, whose changes it holds as well.
    """
    if amend and no_commit:
        raise click.UsageError("--no-commit and --amend are incompatible")
    if amend and ref is not None:
        raise click.UsageError("--amend is of HEAD's commit, so --ref does not go with it")
    limit = None if max_size is None else parse_size(max_size)
    repo = invocation.open_repo()
    living = repo.workspace.living if is_called_kart() else None
    if is_called_kart() and no_commit and living is None:
        raise NoWorkingCopyError("--no-commit requires a working copy")
    with repo.amending() if amend else nullcontext():
        result = repo.apply_patch(
            patch,
            ref=ref,
            allow_empty=allow_empty,
            message=join_message(messages),
            commit=not no_commit,
            limit=limit,
        )
    if results_on_stdout() and result.commit is not None:
        invocation.say(f"Commit {result.commit}")
    if living is not None and ref is None:
        invocation.say(f"Updating {living.name} ...")
    if results_on_stdout() and result.commit is not None:
        invocation.notes(result.notes)
        return
    tell_commit(invocation, repo, result, dry_run=no_commit)
