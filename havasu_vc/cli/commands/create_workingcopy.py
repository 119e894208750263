"""`havasu-vc create-workingcopy`."""

from __future__ import annotations

import click

from havasu_vc.cli.commands.checkout import copy_object, limit
from havasu_vc.cli.counts import counted
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option, spatial_filter_option

__all__ = ["command"]


@click.command("create-workingcopy", cls=Command)
@click.argument("location", required=False)
@click.option(
    "--delete-existing/--no-delete-existing",
    "delete",
    default=True,
    help="Whether a working copy that is there may be made anew.",
)
@click.option("--discard-changes", "discard", is_flag=True, help="Drop edits in it.")
@spatial_filter_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    location: str | None,
    delete: bool,
    discard: bool,
    spatial_filter: str | None,
) -> None:
    r"""Make the GeoPackage of all datasets that QGIS and others edit, or their tables in PostGIS.

    It is LOCATION, or where the repository has had it, or DIRECTORY.gpkg in the work tree.
    LOCATION is a file that ends in .gpkg, or postgresql://USER@HOST/DATABASE/SCHEMA.
    From then on it follows HEAD, `status` and `diff` tell what is edited in it, and `commit`
    commits that. One that is there is made anew, unless edits in it would be lost.

    \b
    havasu-vc create-workingcopy --spatial-filter "EPSG:4326;174.6,-41.4,174.9,-41.2"
    """
    repo = invocation.open_repo()
    if spatial_filter is not None:
        limit(invocation, repo, spatial_filter, discard=discard)
    result = repo.workspace.create_living(location, anew=delete, discard=discard)
    invocation.result("havasu.create-workingcopy/v1", copy_object(result))
    invocation.say(f"Wrote {counted(result.rows, 'row')} to {result.path}")
    invocation.notes(result.notes)
