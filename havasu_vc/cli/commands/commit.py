"""`havasu-vc commit`."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO

import click

from havasu_vc.cli.arguments import join_message
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.counts import change_lines
from havasu_vc.cli.editor import can_edit, edit_message
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, format_option, message_options
from havasu_vc.cli.results import commit_json, tell_commit
from havasu_vc.errors import NotYetSupportedError

__all__ = ["command"]


@click.command("commit", cls=Command)
@click.option(
    "--from",
    "file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The file with the edits: a GeoPackage of `checkout --as`, or a Parquet copy.",
)
@click.option(
    "--dataset",
    metavar="DATASET",
    shell_complete=complete_datasets,
    help="The dataset that FILE is a copy of, where FILE does not know itself.",
)
@message_options
@click.option("-n", "--dry-run", is_flag=True, help="Tell what would be committed, and stop.")
@click.option("--allow-empty", is_flag=True, help="Commit even if nothing changed.")
@engine_option
@format_option("text", "json")
@click.pass_obj
def command(
    invocation: Invocation,
    file: Path | None,
    dataset: str | None,
    messages: tuple[str, ...],
    message_file: TextIO | None,
    dry_run: bool,
    allow_empty: bool,
    output_format: str,
) -> None:
    """Commit edits that were made in FILE.

    FILE is compared with the commit that it was written at, so only what was edited is
    committed. Without -m or -F git's editor asks for the message.
    """
    if file is None:
        raise NotYetSupportedError(
            "there is no working copy to commit",
            hints=(
                "`havasu-vc checkout --as FILE.gpkg` writes a copy to edit, and "
                "`havasu-vc commit --from FILE.gpkg` takes the edits back",
                "`havasu-vc apply` and `havasu-vc import --replace` commit changes too",
            ),
        )
    message = join_message(messages, message_file.read() if message_file else None)
    repo = invocation.open_repo()
    if message is None and not dry_run and can_edit():
        planned = repo.commit_from(file, dataset=dataset, dry_run=True, allow_empty=allow_empty)
        summary = [f"Changes from {file}:", *change_lines(planned.changes)]
        message = edit_message(repo.git, summary)
    result = repo.commit_from(
        file, dataset=dataset, message=message, dry_run=dry_run, allow_empty=allow_empty
    )
    if output_format == "json":
        info = None if result.commit is None else repo.commit_info(result.commit)
        click.echo(commit_json(result, info))
    tell_commit(invocation, repo, result, dry_run=dry_run)
