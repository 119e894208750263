"""`havasu-vc spatial-filter`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option, json_option
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.upkeep import IndexRequest
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.cli.forms.kart import FeatureIndexForm, SpatialFilterForm

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
@click.option("--all", "every", is_flag=True, help="Commits of all refs; so without COMMIT.")
@click.argument("commits", metavar="[COMMIT...]", nargs=-1, shell_complete=complete_revisions)
@takes(IndexRequest, anew=Spelt("--clear-existing"), without=("commits",))
@json_option
@click.pass_obj
def index(invocation: Invocation, /, request: IndexRequest, every: bool) -> None:
    """Note where the rows of Kart datasets are, in Kart's index for clones of an area.

    Kart's own git, where it is installed on a server, sends by feature_envelopes.db only the rows
    of the area that a clone asks for. The index goes on from where it was brought last.
    """
    if every and request.commits:
        raise click.UsageError("--all and COMMIT contradict each other")
    repo = invocation.open_repo()
    done = repo.index_features.by(request)
    value: FeatureIndexForm = {
        "known": list(done.known),
        "commits": list(done.commits),
        "features": done.features,
        "dryRun": request.dry_run,
    }
    invocation.result("havasu.spatial-filter-index/v1", value)
    if not done.commits:
        invocation.say("Nothing to do: index already up to date.")
        return
    known, new = (
        " ".join(each[:ABBREVIATED] for each in ids) for ids in (done.known, done.commits)
    )
    invocation.say(f"Indexing from {known or 'the very start'} up to {new} ...")
    if request.dry_run:
        invocation.say("(Not performing the indexing due to --dry-run.)")
        return
    invocation.say(f"Indexed {done.features:,} features in {done.seconds:.1f}s")
    invocation.notes(done.notes)
