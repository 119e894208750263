"""Values that rows lost when git brought a dropped column back.

A drop removes the file of a column and rewrites no row, so `git revert` of it, or a merge in
which it comes back, gives the rows that stand in old files their values again. A row that was
written meanwhile stands in a file without the column: it has none, and the sums still count the
value of the row that it replaced. No document of the dataset tells that from a row without a
value; only the sum of the column over all rows does. So where commits changed columns, and a
delete file that knows nothing of a column takes rows out of a data file that has it, the column
is read. `havasu-vc revert` and `havasu-vc merge` give such rows their values.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from havasu_vc.errors import CorruptDatasetError, DataFileNotFoundError, HavasuError, NotFoundError
from havasu_vc.formats.havasu.properties import DATASET
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.revisions import Revision

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import DatasetInFiles

__all__ = ["lost_values"]

_COLUMNS, _DOCUMENT = f"/{HAVASU_MARKER}/columns/", f"/{HAVASU_MARKER}/{DATASET}"


def lost_values(
    repo: OpenRepo, revisions: Sequence[Revision], known: Sequence[str]
) -> Iterator[tuple[str, HavasuError]]:
    """Yield the datasets of some revisions whose rows lost values, each with what is wrong.

    Looked at are those whose columns changed in commits that others, `known` as git's `rev-list`
    takes them, do not reach. Where their data is not here, that is noted.
    """
    for revision in revisions:
        paths = _with_columns_changed(repo, revision, known)
        folders = repo.folders(revision) if paths else {}
        for path in sorted(paths & folders.keys()):
            view = repo.view(folders[path], revision.name).in_files
            if view is None:
                continue
            try:
                view.check_guard()
                lost = _lost(repo, view)
            except NotFoundError:
                repo.tell(
                    path,
                    f"{path} at {revision.name}: a dropped column came back, and the data that "
                    "tells whether rows lost their values is not here",
                )
                continue
            except HavasuError:
                continue  # it is broken, which is told elsewhere
            if lost:
                yield path, _error(f"{path} at {revision.name}", path, lost)


def _with_columns_changed(repo: OpenRepo, revision: Revision, known: Sequence[str]) -> set[str]:
    """Return the datasets of which a commit, or a merge upon one of its parents, did so."""
    if revision.commit is None:
        return set()
    command = ("log", "-m", "--full-history", "--sparse", "--format=%x01", "--name-status", "-z")
    paths = (f":(glob)**{_COLUMNS}**", f":(glob)**{_DOCUMENT}")
    chosen = (revision.commit, "--not", *known, "--", *paths)
    shapes = {"GIT_LITERAL_PATHSPECS": "0"}
    found: set[str] = set()
    for changes in repo.git.git(*command, *chosen, environment=shapes).text.split("\x01"):
        words = changes.strip("\0\n").split("\0")
        each = list(zip(words[::2], words[1::2], strict=False))
        made = {name.removesuffix(_DOCUMENT) for letter, name in each if letter == "A"}
        found |= {name.partition(_COLUMNS)[0] for _, name in each if _COLUMNS in name} - made
    return found


def _lost(repo: OpenRepo, view: DatasetInFiles) -> tuple[str, ...]:
    """Return the columns that have another sum than the rows."""
    suspected = _suspected(view)
    if not suspected:
        return ()
    from havasu_vc.history.summing import add_up

    # A value is hashed with the key of its row.
    columns = tuple(dict.fromkeys((*view.key.names, *suspected))) if view.key else view.schema.names
    schema, files = view.schema.select(columns), repo.storage.files
    for entry in view.stored_entries.values():
        if entry.location is None and not files.has(entry.file):
            raise DataFileNotFoundError(entry.file)
    with repo.settings.open_engine(view.size) as engine:
        what, here = f"Reading {view.path}", not view.storage.on_demand
        _, sums = add_up(view.scan(columns), schema, engine, description=what, anywhere=here)
    expected = view.snapshot.digests
    ids = {name: view.schema.by_name[name].id for name in suspected}
    return tuple(name for name, number in ids.items() if sums[number] != expected[number])


def _suspected(view: DatasetInFiles) -> list[str]:
    """Return the columns of which rows were deleted by who knew nothing of them."""
    stored, ids = view.stored_entries, {field.id for field in view.schema.fields}
    held = {name: ids & view.past_schema(name).ids for name in {e.schema for e in stored.values()}}
    found: set[int] = set()
    for entry in view.delete_entries:
        for target in entry.targets:
            if target in stored:
                found |= held[stored[target].schema] - held[entry.schema]
    return [field.name for field in view.schema.fields if field.id in found]


def _error(where: str, path: str, columns: Sequence[str]) -> CorruptDatasetError:
    names = ", ".join(columns)
    return CorruptDatasetError(
        where,
        f"git brought back a column that was dropped ({names}), and its sum is not that of the "
        "rows: those that were written meanwhile have lost what they had in it",
        (
            "take that commit back and do it again by `havasu-vc revert` or `havasu-vc merge`, "
            "which give them their values",
            f"`havasu-vc repair {shlex.quote(path)}` leaves them without, and makes the sums anew",
        ),
    )
