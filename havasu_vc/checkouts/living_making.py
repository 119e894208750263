"""A living working copy is made, or limited to another spatial filter than it has.

Its tables are written anew for another filter, in the transaction that says so, so a file is of
one filter as it is of one tree; edits must be committed or dropped first. The settings are written
before: where that was cut off, `status` tells, and `checkout` goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from havasu_vc.checkouts.living_area import is_as_wanted
from havasu_vc.checkouts.living_copy import LivingCopy
from havasu_vc.checkouts.living_edits import (
    LayerEdits,
    base_of,
    base_views,
    in_full,
    layer_of,
    read_layer,
)
from havasu_vc.checkouts.living_following import date_table, holding, make_table, uncommitted
from havasu_vc.checkouts.living_place import (
    LivingPlace,
    default_location,
    leave_out,
    living_place,
    place_at,
    require_no_secret,
    setting,
)
from havasu_vc.datasets.tile_sets import is_tile_set
from havasu_vc.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    NoWorkingCopyError,
    StateError,
    nearest,
)
from havasu_vc.history.partners import partners
from havasu_vc.model import compute as pc
from havasu_vc.model.names import TABLES
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import ExportResult
from havasu_vc.repo.spatial_filters import (
    SpatialFilter,
    read_spatial_filter,
    rows_inside,
    write_spatial_filter,
)
from havasu_vc.store.trees import DatasetFolder

__all__ = [
    "choose_datasets",
    "create_living",
    "limit_living",
    "make_table_anew",
    "require_datasets",
    "set_spatial_filter",
    "unnoticed",
]


def create_living(
    repo: OpenRepo, location: str | None = None, *, anew: bool = True, discard: bool = False
) -> ExportResult:
    """Make the working copy of a repository, at `location` or where it has it."""
    git = repo.git
    if git.is_bare:
        raise StateError("a bare repository has no working copy")
    place = place_at(git, location or git.config.get(setting(git)) or default_location(git))
    if location is not None:
        require_no_secret(place)
    if place.path is not None and place.path.suffix.lower() != ".gpkg":
        raise InvalidArgumentError(
            f"{location} is not the name of a GeoPackage", hints=("end it in .gpkg",)
        )
    if not anew and place.exists:
        raise InvalidArgumentError(f"{place.where} is there already")
    before = living_place(repo)
    moved = git.is_kart and before is not None and before.exists and before.path != place.path
    if not moved or before is None or before.path is None:
        return LivingCopy(repo, place).create(discard=discard)
    # As in Kart there is one, so the one that was elsewhere goes, unless it is to be left.
    if not discard:
        LivingCopy(repo, before).require_clean()
    made = LivingCopy(repo, place).create(discard=discard)
    if anew:
        before.path.unlink(missing_ok=True)
    return made


def make_table_anew(repo: OpenRepo, path: str) -> None:
    """Give a dataset's table in the working copy all its rows again; edits in it go."""
    from havasu_vc.merging import require_calm

    require_calm(repo)
    place = living_place(repo)
    if place is None or not place.exists:
        raise NoWorkingCopyError("there is no working copy with a table to make anew")
    with holding(repo, place) as held:
        base = base_of(repo, held.file)
        if path not in base.views:
            raise DatasetNotFoundError(path)
        view = base.views[path]
        layer = layer_of(held.file, view)
        held.file.drop(layer)
        make_table(repo, held.file, layer, view)
        date_table(repo, held.file, view, base.revision)


def unnoticed(repo: OpenRepo) -> Iterator[tuple[str, int]]:
    """Yield the datasets in whose tables rows differ that nothing tracked, and how many do.

    All rows are compared, so it takes the time of the table.
    """
    place = living_place(repo)
    if place is None or not place.exists:
        return
    with place.home().open() as file:
        for path, view in base_of(repo, file).views.items():
            edits = read_layer(repo, file, view)
            count = _unnoticed(edits, in_full(repo, file, edits))
            if count:
                yield path, count


def _unnoticed(edits: LayerEdits, found: LayerEdits) -> int:
    if edits.is_dropped or not edits.base.key:
        return 0
    there = partners(found.row_keys, edits.row_keys)
    return int(pc.sum(pc.is_null(there)).as_py() or 0)


def set_spatial_filter(repo: OpenRepo, asked: SpatialFilter, *, discard: bool = False) -> bool:
    """Have a repository keep a spatial filter, and its working copy the rows inside of it.

    Returns whether there is a working copy, and it had another filter. Raises
    `UncommittedChangesError` where the working copy has edits, unless these may go.
    """
    from havasu_vc.merging import require_calm

    git = repo.git
    if git.is_bare:
        raise StateError("a bare repository has no working copy that could have a spatial filter")
    require_calm(repo)
    found = asked.resolved(git)
    head = repo.head()
    for view in base_views(repo, head).values() if head.commit else ():
        rows_inside(found.area, view.header)  # raises where its system cannot be had
    before, place = read_spatial_filter(git), living_place(repo)
    if place is None or not place.exists:
        write_spatial_filter(git, found)
        return False
    with holding(repo, place, discard=discard) as held:
        if found.area != before.area and not discard:
            LivingCopy(repo, place).require_clean()
        write_spatial_filter(git, found)
        if not is_as_wanted(repo, held.file):
            held.limited_anew = True
        return held.limited_anew


def limit_living(repo: OpenRepo, place: LivingPlace, *, discard: bool = False) -> None:
    """Give a working copy the rows of the spatial filter that the settings have, if it has not.

    Raises `UncommittedChangesError` where it has edits then, unless these may go.
    """
    with holding(repo, place, discard=discard) as held:
        if is_as_wanted(repo, held.file):
            return
        repo.settings.note(
            "The spatial filter has been updated in the config and no longer matches the working "
            "copy."
        )
        if not discard:
            LivingCopy(repo, place).require_clean()
        held.limited_anew = True


def require_datasets(
    repo: OpenRepo, revision: str, take: Sequence[str], leave: Sequence[str]
) -> dict[str, DatasetFolder]:
    """Return the datasets of a revision; raise where it lacks one that is chosen or left out."""
    known = repo.folders(repo.head() if revision == "HEAD" else repo.resolve(revision))
    for path in (*take, *leave):
        if path not in known or not (known[path].marker in TABLES or is_tile_set(known[path])):
            what = "" if path in take else " to leave out"
            raise InvalidArgumentError(
                f"No dataset {path}{what} at {revision}",
                hints=(*nearest(path, known), "`havasu-vc data ls` lists the datasets"),
            )
    return known


def choose_datasets(
    repo: OpenRepo, take: Sequence[str], leave: Sequence[str], *, discard: bool = False
) -> None:
    """Have some datasets of HEAD in the working copy, and others not.

    Raises `UncommittedChangesError` where one that goes has edits, unless these may go.
    """
    from havasu_vc.merging import require_calm

    git, known = repo.git, require_datasets(repo, "HEAD", take, leave)
    if both := set(take) & set(leave):
        raise InvalidArgumentError(f"{min(both)} is to be checked out, and not to be")
    require_calm(repo)
    place = living_place(repo)
    if place is not None and place.exists:
        with holding(repo, place) as held:
            base = base_of(repo, held.file)
            gone = [base.views[path] for path in leave if path in base.views]
            edited = (
                [] if discard else [v for v in gone if not read_layer(repo, held.file, v).is_empty]
            )
            if edited:
                raise uncommitted([view.path for view in edited])
            # Said before its table goes, so that this is never taken for a dropped dataset.
            leave_out(git, leave)
            for path in leave:
                if not is_tile_set(known[path]):
                    held.file.set_state(path, "checkout", "false")
            for view in gone:
                held.file.drop(layer_of(held.file, view))
            folders = repo.folders(base.revision)
            for path in take:
                if is_tile_set(known[path]):
                    continue
                held.file.set_state(path, "checkout", None)
                if path in base.views or path not in folders:
                    continue
                view = repo.view(folders[path], base.revision.name)
                make_table(repo, held.file, layer_of(held.file, view), view)
                date_table(repo, held.file, view, base.revision)
    else:
        leave_out(git, leave)
    leave_out(git, take, out=False)
