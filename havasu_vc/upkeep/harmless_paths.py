"""Moving datasets away from paths that could do harm, so that they can be used again."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from functools import partial

from havasu_vc.errors import InvalidNameError
from havasu_vc.model.names import check_dataset_path
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.transaction import MergedTree, Transaction
from havasu_vc.store.trees import DatasetFolder, find_datasets

__all__ = ["give_harmless_paths"]


def give_harmless_paths(
    repo: OpenRepo, only: Sequence[str] = (), message: str | None = None
) -> dict[str, str]:
    """Commit datasets of HEAD, all or some, at paths that do no harm; tell of each where it went.

    What a dataset holds stays as it is.
    """
    head = repo.head()
    odd: dict[str, DatasetFolder] = {}
    known = find_datasets(repo.git.objects, head.tree, partial(_note, odd, only))
    if not odd:
        return {}
    taken = [folder.path for folder in known]
    trees: dict[str, str | None] = {}
    markers: dict[str, str] = {}
    said = {}
    for path, folder in odd.items():
        new = _harmless(path, taken)
        taken.append(new)
        trees |= {path: None, new: folder.internals}
        markers |= {path: folder.marker, new: folder.marker}
        said[path] = f"{path!r} is at {new} now"
    with Transaction(repo) as transaction:
        transaction.require_head(head.commit)
        text = message or f"Repair {', '.join(map(repr, odd))}"
        transaction.commit([], text, merge=MergedTree({}, trees, (), markers))
    return said


def _note(
    odd: dict[str, DatasetFolder], only: Container[str], folder: DatasetFolder, _: str
) -> None:
    if not only or folder.path in only:
        odd[folder.path] = folder


def _harmless(path: str, taken: Iterable[str]) -> str:
    r"""Return a path like another one at which a dataset can be made.

    >>> _harmless("nz/a\nb", ["nz/a_b"])
    'nz/a_b_2'
    """
    parts = (re.sub(r"[^\w.-]+", "_", part).strip(".- ") for part in path.split("/"))
    name = "/".join(part or "_" for part in parts)
    for number in range(1, 1000):
        found = name if number == 1 else f"{name}_{number}"
        try:
            check_dataset_path(found, taken)
        except InvalidNameError:
            continue
        return found
    raise InvalidNameError(path, "no name like it is free")
