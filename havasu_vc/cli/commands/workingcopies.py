"""`havasu-vc create-workingcopy`, `spatial-filter` and `add-dataset`: the living working copy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import click

from havasu_vc.checkouts import require_place
from havasu_vc.cli.as_kart import is_called_kart, or_head, stop_while_merging
from havasu_vc.cli.commands.checkout import copy_object, limit, tell_karts
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.counts import counted
from havasu_vc.cli.editor import asked_as_in_kart
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import (
    Command,
    format_option,
    json_option,
    message_options,
    spatial_filter_option,
)
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.cli.results import tell_commit
from havasu_vc.errors import (
    InvalidArgumentError,
    InvalidFileError,
    StateError,
    UncommittedChangesError,
)
from havasu_vc.exchange.addresses import is_address
from havasu_vc.repo.results import CommitResult
from havasu_vc.upkeep import IndexRequest
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.cli.forms.kart import FeatureIndexForm, SpatialFilterForm
    from havasu_vc.library import Repo

__all__ = ["add_dataset", "create_workingcopy", "spatial_filter"]


@click.command("create-workingcopy", cls=Command)
@click.argument("location", required=False)
@click.option(
    "--delete-existing/--no-delete-existing",
    "delete",
    default=None,
    help="Whether a working copy that is there may be made anew.",
)
@click.option(
    "-f", "--force", "--discard-changes", "discard", is_flag=True, help="Drop edits in it."
)
@click.option(
    "--parts",
    type=click.Choice(("tabular", "file-system", "auto")),
    default="auto",
    help="Make the tables, or the files of datasets of tiles, of which there are none here.",
)
@spatial_filter_option
@json_option
@click.pass_obj
def create_workingcopy(
    invocation: Invocation,
    location: str | None,
    delete: bool | None,
    discard: bool,
    parts: str,
    spatial_filter: str | None,
) -> None:
    r"""Make the GeoPackage of all datasets that QGIS and others edit, or their tables in PostGIS.

    It is LOCATION, or where the repository has had it, or DIRECTORY.gpkg in the work tree.
    LOCATION is a file that ends in .gpkg, or postgresql://USER@HOST/DATABASE/SCHEMA.
    From then on it follows HEAD, `status` and `diff` tell what is edited in it, and `commit`
    commits that. One that is there is made anew, unless edits in it would be lost. In a
    repository of Kart's --delete-existing says so, and it is asked for on a terminal.

    \b
    havasu-vc create-workingcopy --spatial-filter "EPSG:4326;174.6,-41.4,174.9,-41.2"
    """
    repo = invocation.open_repo()
    stop_while_merging(repo.git)
    if location is not None and is_called_kart():
        location = repo.workspace.named_in(invocation.here, location) if location else None
    if parts == "file-system":
        _tell_files(invocation, repo)
        return
    if location is not None and is_called_kart() and repo.git.is_kart:
        _require_commit(repo)
        require_place(location, asked=True)
        _require_free(repo, location)
    delete = _may_go(repo, delete, location)
    if spatial_filter is not None:
        limit(invocation, repo, spatial_filter, discard=discard)
    before = repo.workspace.living if delete else None
    with _edits_told_as_karts(repo):
        result = repo.workspace.create_living(location, anew=delete, discard=discard)
    invocation.result("havasu.create-workingcopy/v1", copy_object(result))
    if is_called_kart() and repo.git.is_kart:
        if before is not None:
            invocation.say(f"Deleting existing working copy at {before.name}")
        tell_karts(invocation, repo, result)
        return
    invocation.say(f"Wrote {counted(result.rows, 'row')} to {result.path}")
    invocation.notes(result.notes)


def _tell_files(invocation: Invocation, repo: Repo) -> None:
    """Tell that the files of tiles are as they should be: without such datasets there are none."""
    _require_commit(repo)
    place = repo.git.work_tree or repo.path
    invocation.result("havasu.create-workingcopy/v1", {"path": str(place), "rows": 0, "notes": []})
    if is_called_kart():
        invocation.say(f"Creating file-system working copy in {place.name} folder")
    else:
        invocation.say("No dataset has files of tiles")


def _require_commit(repo: Repo) -> None:
    if repo.git.is_bare:
        raise StateError("a bare repository has no working copy")
    if repo.head().commit is None:
        raise StateError(
            "an empty repository has no working copy", hints=("import some data first",)
        )


def _require_free(repo: Repo, location: str) -> None:
    """Raise for a file that is there and is not the working copy: Kart writes over no other."""
    file = Path(repo.git.work_tree or "", location)
    if not is_address(location) and file.is_file() and not repo.workspace.is_living(file):
        raise InvalidFileError(
            location, "it cannot be used as a working copy: another file is there"
        )


@contextmanager
def _edits_told_as_karts(repo: Repo) -> Iterator[None]:
    """Have the error of edits say where they are, as Kart's does."""
    living = repo.workspace.living if is_called_kart() else None
    try:
        yield
    except UncommittedChangesError as error:
        if living is None:
            raise
        told = f"the working copy {living.name} has edits that are not committed"
        raise UncommittedChangesError(told, hints=error.hints) from error


def _may_go(repo: Repo, given: bool | None, location: str | None) -> bool:
    """Return whether a working copy that is there may go; in Kart's repositories, as Kart asks."""
    if not repo.git.is_kart or repo.git.is_bare:
        return given is not False
    _require_commit(repo)
    living = repo.workspace.living if given is None else None
    if living is None:
        return given is not False
    said = f"A tabular working copy is already configured at {living.name}"
    if location is not None and PurePath(location).name != living.name:
        said += f", not at {location}"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise InvalidArgumentError(
            said,
            hints=(
                "--delete-existing makes it anew",
                "--no-delete-existing leaves it where it is, and makes another",
            ),
        )
    click.echo(said, err=True)
    return click.confirm("Delete it before another is made?", default=True, err=True)


@click.group("spatial-filter")
def spatial_filter() -> None:
    """Look at spatial filters, the areas that working copies are limited to.

    `clone`, `checkout`, `create-workingcopy` and `init` set one, by --spatial-filter; `status`
    tells which one is in force.
    """


@spatial_filter.command("resolve", cls=Command)
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


@spatial_filter.command("index", cls=Command)
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
    request = replace(request, commits=[or_head(each) for each in request.commits])
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


@click.command("add-dataset", cls=Command)
@click.argument("tables", metavar="[TABLE...]", nargs=-1)
@click.option("--all-layers", "every", is_flag=True, help="All tables that are no dataset yet.")
@message_options
@json_option
@click.pass_obj
def add_dataset(
    invocation: Invocation,
    tables: tuple[str, ...],
    every: bool,
    message: str | None,
) -> None:
    """Commit tables that an editor made in the working copy as datasets of their names.

    `status` names the tables that are no dataset yet. From then on their edits are tracked as
    those of the others are.
    """
    if every == bool(tables):
        raise click.UsageError("name tables, or give --all-layers")
    if tables[1:] and is_called_kart():
        raise click.UsageError(f"Got unexpected extra argument ({' '.join(tables[1:])})")
    repo = invocation.open_repo()
    stop_while_merging(repo.git)
    living = repo.workspace.living if is_called_kart() else None
    if living is not None and set(tables) <= set(living.untracked()):
        message = asked_as_in_kart(repo, message)
    result = repo.add_datasets(tables, message=message)
    if is_called_kart():
        # As Kart tells it, which scripts read: the commit, with what is new.
        meta = {path: tuple(repo.get_meta(path)) for path in result.datasets}
        commit = CommitResult(result.commit, result.branch, result.datasets, result.notes, meta)
        tell_commit(invocation, repo, commit)
        return
    from havasu_vc.cli.commands.import_ import import_object, tell_import

    invocation.result("havasu.import/v1", import_object(result))
    tell_import(invocation, repo, result)
