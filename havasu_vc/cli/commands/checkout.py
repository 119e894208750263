"""`havasu-vc checkout`."""

from __future__ import annotations

from pathlib import Path

import click

from havasu_vc.cli.commands.switch import tell_head
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.counts import counted
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option

__all__ = ["command"]


@click.command("checkout", cls=Command)
@click.argument("names", metavar="[REV | DATASET...]", nargs=-1, shell_complete=complete_revisions)
@click.option(
    "--as",
    "file",
    metavar="FILE.gpkg",
    type=click.Path(path_type=Path),
    help="Write datasets to a GeoPackage to edit; `commit --from` takes the edits back.",
)
@click.option("--ref", metavar="REV", help="With --as, the revision to write.  [default: HEAD]")
@click.option("--overwrite", is_flag=True, help="With --as, replace the file if it is there.")
@click.option("-b", "branch", metavar="NAME", help="Make a branch and switch to it.")
@click.option(
    "-f", "--force", "--discard-changes", "discard", is_flag=True, help="Drop edits in the way."
)
@engine_option
@click.pass_obj
def command(
    invocation: Invocation,
    names: tuple[str, ...],
    file: Path | None,
    ref: str | None,
    overwrite: bool,
    branch: str | None,
    discard: bool,
) -> None:
    """Switch to a revision, or write datasets to a file to edit.

    `checkout REV` puts HEAD on a branch, or on a commit by itself. `checkout --as
    FILE.gpkg [DATASET...]` leaves HEAD alone and writes datasets (all, if none is named)
    to a GeoPackage that QGIS can edit and that remembers the commit it is of.
    """
    if file is not None:
        if branch is not None or discard:
            raise click.UsageError("--as goes with none of -b and --force")
        repo = invocation.open_repo()
        result = repo.checkout_as(file, names, revision=ref or "HEAD", overwrite=overwrite)
        invocation.say(f"Wrote {counted(result.rows, 'row')} to {result.path}")
        invocation.notes(result.notes)
        invocation.say(f"Edit it, then `havasu-vc commit --from {result.path}`")
        return
    if ref is not None or overwrite:
        raise click.UsageError("--ref and --overwrite go with --as")
    if len(names) > 1:
        raise click.UsageError(f"one revision can be checked out, not {len(names)}")
    if not names and branch is None:
        raise click.UsageError("name a revision to check out, or a file with --as")
    repo = invocation.open_repo(rows=False)
    if branch is not None:
        start = names[0] if names else None
        repo.switch(branch, create=True, start=start, discard=discard)
        tell_head(invocation, repo, created=True)
    else:
        repo.switch(names[0], discard=discard)
        tell_head(invocation, repo)
