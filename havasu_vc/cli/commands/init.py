"""`havasu-vc init`."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.checkouts import require_place
from havasu_vc.cli.arguments import parse_source
from havasu_vc.cli.as_kart import is_called_kart, stand_in
from havasu_vc.cli.commands.import_ import (
    import_object,
    key_option,
    make_karts_copy,
    tell_import,
    with_key,
)
from havasu_vc.cli.invocation import Invocation, require_no_file
from havasu_vc.cli.kart.imports import in_karts_order
from havasu_vc.cli.options import (
    Command,
    json_option,
    karts_import_options,
    spatial_filter_option,
)
from havasu_vc.errors import (
    HavasuError,
    NotYetSupportedError,
    SourceNotFoundError,
    StateError,
    StorageError,
)
from havasu_vc.library import Repo
from havasu_vc.transfer import ImportRequest

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Imported, Initialized
    from havasu_vc.repo.spatial_filters import SpatialFilter

__all__ = ["command"]


@click.command("init", cls=Command)
@click.argument("directory", type=click.Path(path_type=Path), required=False)
@click.option("--bare", is_flag=True, help="Make a repository without a work tree.")
@click.option("--kart", is_flag=True, help="Make a repository that Kart opens as its own.")
@click.option(
    "-b", "--initial-branch", "branch", metavar="NAME", help="Call the first branch NAME."
)
@click.option(
    "--import",
    "source",
    metavar="SOURCE",
    help="Also import all layers of SOURCE, as the first commit.",
)
@key_option
@click.option("-m", "--message", metavar="TEXT", help="The message of that commit.")
@click.option(
    "--workingcopy",
    "--workingcopy-location",
    "--workingcopy-path",
    "location",
    metavar="PLACE",
    help="With --kart, where what people edit is to be: a GeoPackage, or a schema of PostGIS.  "
    "[default: DIRECTORY.gpkg]",
)
@click.option(
    "--no-checkout/--checkout",
    help="With --kart, make no GeoPackage to edit; by default --import makes it.",
)
@karts_import_options
@spatial_filter_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    directory: Path | None,
    bare: bool,
    kart: bool,
    branch: str | None,
    source: str | None,
    primary_key: tuple[str, ...],
    message: str | None,
    location: str | None,
    no_checkout: bool,
    spatial_filter: str | None,
) -> None:
    """Make a repository in DIRECTORY, or prepare the git repository that is there.

    The repository is an ordinary one of git, and doing it again changes nothing.
    With --kart it is laid out as Kart does it, and datasets are stored as Kart's.
    """
    kart = kart or is_called_kart()
    if is_called_kart():
        source = source or None
    _check(location, message, primary_key, living=kart and not bare, imports=source is not None)
    limits = None if spatial_filter is None else _limits(spatial_filter, invocation.here)
    require_no_file(invocation.here, directory)
    place = invocation.here / (directory or "")
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"{place} cannot be made: {error.strerror}") from error
    if (is_called_kart() and any(place.iterdir())) or (place / ".kart").exists():
        shown = place.resolve() if is_called_kart() else place
        raise StateError(f'"{shown}" isn\'t empty')
    repo = Repo.init(place, bare=bare, branch=branch, kart=kart, settings=invocation.settings())
    if repo.git.is_kart or kart:
        stand_in()
    tell = partial(_tell_made, invocation, repo, bare=bare, empty=source is None)
    later = is_called_kart() and source is not None  # Kart looks for the source first
    if not later:
        tell()
    invocation.note_system()
    _plan(invocation, repo, location, limits)
    imported: Imported | None = None
    if source is not None:
        asked = ImportRequest(parse_source(source), all_layers=True, message=message)
        asked = with_key(asked, primary_key)
        imported = _import(invocation, repo, asked, place, tell if later else None)
        if not no_checkout:
            make_karts_copy(invocation, repo)
    value: Initialized = {
        "path": str(repo.path),
        "bare": repo.git.is_bare,
        "kind": "kart" if repo.git.is_kart else "havasu",
        "imported": imported,
    }
    invocation.result("havasu.init/v1", value)


def _check(
    location: str | None,
    message: str | None,
    primary_key: tuple[str, ...],
    *,
    living: bool,
    imports: bool,
) -> None:
    """Refuse options that do not go together; Kart takes some of them for nothing."""
    if location is not None and not living and not is_called_kart():
        raise click.UsageError("--workingcopy goes with --kart, and not with --bare")
    if message is not None and not imports and not is_called_kart():
        raise click.UsageError("-m is the message of --import, which is not given")
    if primary_key and not imports:
        raise click.UsageError("--primary-key is of --import, which is not given")
    if location is not None:
        require_place(location, asked=is_called_kart())


def _plan(
    invocation: Invocation, repo: Repo, location: str | None, limits: SpatialFilter | None
) -> None:
    """Note where the working copy is to be, and of which area."""
    if location is not None:
        if is_called_kart():
            location = repo.workspace.named_in(invocation.here, location)
        repo.workspace.plan_living(location)
    if limits is not None:
        repo.workspace.set_spatial_filter(limits)


def _tell_made(invocation: Invocation, repo: Repo, *, bare: bool, empty: bool) -> None:
    kind = "bare repository" if bare else "repository"
    invocation.say(f"Initialized {kind} in {repo.path}")
    if is_called_kart() and empty:
        invocation.say(
            f"Created an empty repository at {repo.path} — import some data with `kart import`"
        )


def _limits(text: str, folder: Path) -> SpatialFilter:
    """Return the spatial filter that is asked for."""
    from havasu_vc.repo.spatial_filters import parse_spatial_filter

    limits = parse_spatial_filter(text, folder)
    if limits.reference is not None:
        raise NotYetSupportedError(
            f"a new repository takes no spatial filter by its name, {text}",
            hints=("give it as CRS;POLYGON((...)) or @FILE",),
        )
    return limits


def _import(
    invocation: Invocation,
    repo: Repo,
    asked: ImportRequest,
    place: Path,
    tell_made: Callable[[], None] | None,
) -> Imported:
    """Take all layers of a source into a repository that was just made, of which it may tell."""
    source = str(asked.location)
    begin = time.monotonic()
    try:
        result = in_karts_order(repo.import_.by(asked), asked)
    except SourceNotFoundError:
        if is_called_kart():
            _take_back(repo, place)
        raise
    except HavasuError:
        if tell_made is not None:
            tell_made()
        raise
    if tell_made is not None:
        tell_made()
    tell_import(invocation, repo, result, source, seconds=time.monotonic() - begin)
    return import_object(result)


def _take_back(repo: Repo, place: Path) -> None:
    """Leave a folder as empty as it was before a repository was made in it."""
    shutil.rmtree(repo.git.git_directory)
    for name in (".git", "KART_README.txt"):
        (place / name).unlink(missing_ok=True)
