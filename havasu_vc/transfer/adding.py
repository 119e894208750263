"""Tables that an editor made in the living working copy become datasets.

They are imported as from any other place; a GeoPackage from a copy, since the file is held
meanwhile. Then the table is taken for the dataset's as it stands, and tracked from then on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from havasu_vc.checkouts import working_copy
from havasu_vc.errors import NoChangesError, NotFoundError, NoWorkingCopyError
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import ImportResult
from havasu_vc.transfer.import_histories import import_source
from havasu_vc.transfer.imports import ImportRequest

__all__ = ["add_datasets"]


def add_datasets(
    repo: OpenRepo, tables: Sequence[str] = (), *, message: str | None = None
) -> ImportResult:
    """Commit tables of the working copy as datasets; all that are none yet, if none is named."""
    living = working_copy(repo)
    if living is None:
        raise NoWorkingCopyError(
            "there is no working copy", hints=("`havasu-vc create-workingcopy` makes it",)
        )
    there = living.untracked()
    for each in tables:
        if each not in there:
            raise NotFoundError(
                f"the working copy has no table {each!r} that is no dataset yet",
                hints=(f"it has {', '.join(there)}",) if there else (),
            )
    chosen = tuple(tables) or there
    if not chosen:
        raise NoChangesError("every table of the working copy is a dataset already")
    with tempfile.TemporaryDirectory() as folder:
        with living.adopting(chosen, Path(folder)) as source:
            text = message or f"Add {', '.join(chosen)}"
            return import_source(repo, ImportRequest(source, layers=chosen, message=text))
