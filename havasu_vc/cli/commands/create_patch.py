"""`havasu-vc create-patch`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
from click.core import ParameterSource

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, output_option, style_option
from havasu_vc.cli.output import opened_output
from havasu_vc.writers import JsonStyle, WriterOptions, writer_named

__all__ = ["command"]


@click.command("create-patch", cls=Command)
@click.argument("revision", metavar="[REV]", default="HEAD", shell_complete=complete_revisions)
@click.argument("filters", metavar="[FILTER...]", nargs=-1)
@output_option
@style_option
@click.option("--crs", metavar="CRS", help="Write geometries in this CRS.")
@engine_option
@click.pass_obj
def command(
    invocation: Invocation,
    revision: str,
    filters: tuple[str, ...],
    output: Path | None,
    json_style: str,
    crs: str | None,
) -> None:
    """Write a commit as a patch that `havasu-vc apply` takes.

    The patch is JSON in Kart's form and names the commit that it is made on.
    """
    source = click.get_current_context().get_parameter_source("revision")
    if is_called_kart() and source is ParameterSource.DEFAULT:
        raise click.UsageError("Missing argument 'COMMIT'.")
    repo = invocation.open_repo()
    commit, found = repo.create_patch(revision, filters)
    # A patch without a dataset that cannot be read would be another commit's.
    diffs = list(found)
    files = repo.file_changes(f"{revision}^?..{revision}", filters, contents=True)
    options = WriterOptions(json_style=JsonStyle(json_style), commit=commit, files=files)
    if crs is not None:
        from havasu_vc.looking import reprojection

        target, reproject = reprojection(crs)
        options = replace(options, reproject=reproject, crs_name=target.identifier)
    with opened_output(output) as out:
        writer_named("patch")(diffs, out, options)
