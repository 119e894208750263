"""`havasu-vc spatial-filter`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option
from havasu_vc.errors import NotYetSupportedError

if TYPE_CHECKING:
    from havasu_vc.cli.forms.kart import SpatialFilterForm

__all__ = ["command"]


@click.group("spatial-filter")
def command() -> None:
    """Look at spatial filters, the areas that working copies are limited to.

    `clone`, `checkout`, `create-workingcopy` and `init` set one, by --spatial-filter; `status`
    tells which one is in force.
    """


@command.command("resolve", cls=Command)
@click.argument("reference")
@click.option("--envelope", is_flag=True, help="Print its WEST,SOUTH,EAST,NORTH in WGS 84.")
@format_option("text", "json")
@click.pass_obj
def resolve(invocation: Invocation, reference: str, envelope: bool, output_format: str) -> None:
    """Print the filter of an object of the repository, by its id or a ref.

    The ref of a NAME without slashes is refs/filters/NAME.
    """
    from havasu_vc.repo.spatial_filters import SpatialFilter

    repo = invocation.open_repo(rows=False)
    found = SpatialFilter(None, reference).resolved(repo.git)
    assert found.area is not None
    if envelope:
        box = found.area.degrees
        click.echo(json.dumps(box) if output_format == "json" else ",".join(map(str, box)))
    elif output_format == "json":
        value: SpatialFilterForm = {
            "reference": found.reference,
            "objectId": found.object_id,
            "geometry": found.area.wkb.hex().upper(),
            "crs": found.area.crs,
        }
        click.echo(json.dumps(value, indent=2))
    else:
        click.echo(found.text)


@command.command("index", cls=Command)
@click.option("--clear-existing", is_flag=True, help="Nothing: see above.")
@click.option("--dry-run", is_flag=True, help="Nothing: see above.")
@click.argument("commits", nargs=-1)
@click.pass_obj
def index(
    invocation: Invocation, clear_existing: bool, dry_run: bool, commits: tuple[str, ...]
) -> None:
    """Refuse: Kart's own git alone sends the rows of an area, by an index that Kart makes."""
    raise NotYetSupportedError(
        "the index by which Kart's own git sends the rows of an area is made by Kart alone",
        hints=("clones by any other git bring all rows, and a filter limits the working copy",),
    )
