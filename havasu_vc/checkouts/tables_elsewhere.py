"""Tables of any revision anywhere: `checkout REV --to FOLDER`, or `--to s3://bucket/maps`.

They belong to no workspace: HEAD stays where it is and nothing follows it. What such a
table is of stands in the table itself, so checking out to the same place again moves
only what differs, and refuses to pass over what others wrote there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from havasu_vc.checkouts.checking_out import KEPT, changing_tables
from havasu_vc.checkouts.clustered_versions import CLUSTERED, clustered
from havasu_vc.checkouts.counterparts import can_be_table, no_table, table_view
from havasu_vc.checkouts.table_places import place_elsewhere
from havasu_vc.datasets.havasu.far import far_dataset
from havasu_vc.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    UncommittedChangesError,
)
from havasu_vc.formats.havasu.json_text import document_hash
from havasu_vc.formats.havasu.properties import PartitionSpec, format_partition
from havasu_vc.formats.iceberg.transforms import parse_spec
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import CheckoutResult
from havasu_vc.repo.soundness import defect
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.workspace.condition import Condition, condition_of
from havasu_vc.workspace.materialise import Checkout, materialise
from havasu_vc.workspace.places import TablePlace
from havasu_vc.workspace.state import TableState, read_state

__all__ = ["Elsewhere", "check_out_to", "chosen_datasets"]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where tables go, and how."""

    place: Path | str
    """The table's folder or URL, or that of all tables when no dataset is named."""
    revision: str = "HEAD"
    """The revision that they show."""
    dataset: str | None = None
    """The one dataset that is wanted."""
    flavour: Flavour | None = None
    """The engine that they are written for; None chooses for each."""
    copy: bool = False
    """Whether files are copied rather than linked."""
    discard: bool = False
    """Whether edits that are in the way are dropped."""
    clustered: bool = False
    """Whether rows are sorted anew."""
    partition_by: str | None = None
    """With `clustered`, a partition spec such as `days(at)`; None takes the dataset's own."""


def check_out_to(repo: OpenRepo, request: Elsewhere, *, upon: int | None = None) -> CheckoutResult:
    """Make datasets of a revision tables in a folder or a bucket.

    With `upon`, nothing is done to a table that has another version by now.
    """
    if request.partition_by is not None and not request.clustered:
        raise InvalidArgumentError("a partition spec goes with a clustered layout")
    found = repo.revision(request.revision)
    folders = repo.folders(found)
    root = request.place.rstrip("/") if isinstance(request.place, str) else request.place
    root = root if isinstance(root, str) else Path(os.path.realpath(root))
    _require_free(repo, root)
    chosen, notes = chosen_datasets(folders, request)
    changed = []
    with changing_tables(repo):
        for below, folder in list(chosen.items()):
            broken = defect(repo, folder, request.revision) if request.dataset is None else None
            if broken is not None:
                repo.tell(folder.path, broken.message)
                del chosen[below]
                continue
            location = _below(root, below)
            with place_elsewhere(repo, location) as place:
                if _make(repo, place, folder, found.commit or "", request, upon=upon):
                    changed.append(folder.path)
    paths = tuple(folder.path for folder in chosen.values())
    return CheckoutResult(root, found.commit, paths, tuple(changed), notes=notes)


def chosen_datasets(
    folders: Mapping[str, DatasetFolder], request: Elsewhere
) -> tuple[dict[str, DatasetFolder], tuple[str, ...]]:
    """Return the datasets that become tables, by where below the place, and notes on others."""
    if request.dataset is None:
        chosen = {path: folder for path, folder in folders.items() if can_be_table(folder)}
        return chosen, tuple(no_table(path) for path in folders if path not in chosen)
    path = request.dataset.strip("/")
    if path not in folders:
        raise DatasetNotFoundError(path, request.revision)
    if not can_be_table(folders[path]):
        raise InvalidArgumentError(no_table(path))
    return {"": folders[path]}, ()


def _below(root: Path | str, below: str) -> Path | str:
    return root / below if isinstance(root, Path) else f"{root}/{below}".rstrip("/")


def _require_free(repo: OpenRepo, root: Path | str) -> None:
    state = read_state(repo.git.git_directory)
    inside = state is not None and f"{root}/".startswith(f"{str(state.root).rstrip('/')}/")
    if inside:
        raise InvalidArgumentError(
            f"{root} is in the workspace, whose tables follow HEAD",
            hints=("choose another place",),
        )
    if isinstance(root, Path) and root.exists() and not root.is_dir():
        raise InvalidArgumentError(f"{root} is a file; tables need a folder")


def _make(
    repo: OpenRepo,
    place: TablePlace,
    folder: DatasetFolder,
    commit: str,
    request: Elsewhere,
    *,
    upon: int | None,
) -> bool:
    """Make one table; return whether it changed."""
    condition, known = condition_of(place, None)
    if condition is Condition.FOREIGN:
        raise InvalidArgumentError(
            f"something else is at {place.location}", hints=("choose another place",)
        )
    if condition is Condition.EDITED and not request.discard:
        raise UncommittedChangesError(
            f"the table at {place.location} was written to since it was checked out",
            hints=(
                f"`havasu-vc commit --from {place.location}` takes the edits in",
                "`--discard-changes` drops what was written",
            ),
        )
    view = table_view(repo, folder, request.revision, near=_near(repo, folder.path, known))
    view.check_guard()
    tree, spec = folder.internals, PartitionSpec()
    if request.clustered:
        by = request.partition_by
        spec = view.partition if by is None else parse_spec(by, view.schema)
        tree += f"{CLUSTERED}{document_hash(format_partition(spec))[:8] if spec.fields else ''}"
    if known is not None and known.tree == tree and request.flavour in (None, known.flavour):
        return False
    keep = max(repo.git.config.integer("havasu.workspace.keep", KEPT), 1)
    checkout = Checkout(commit, tree, request.flavour, request.copy, keep)
    if not request.clustered:
        fetcher = view.storage.fetcher if isinstance(request.place, str) else None
        url = fetcher.bucket() if fetcher is not None and view.storage.on_demand else None
        far = far_dataset(view, url)
        materialise(view, place, checkout, previous=known, upon=upon, far=far)
        return True
    with clustered(repo, view, place.folder, spec) as sorted_view:
        materialise(sorted_view, place, checkout, previous=known, upon=upon)
    return True


def _near(repo: OpenRepo, path: str, known: TableState | None) -> list[str]:
    """Return trees of versions whose rows are here as files already."""
    state = read_state(repo.git.git_directory)
    checked_out = None if state is None else state.tables.get(path)
    return [table.tree for table in (known, checked_out) if table is not None]
