"""Branches and tags of git as branches and tags of one table.

Iceberg reads and writes a branch with the table's current schema, so a branch whose
dataset has a column that the checkout lacks would lose it: such a one is left out, and
told of. So is one that is called `main`, which is what is checked out.
"""

from __future__ import annotations

from collections.abc import Iterator

from havasu_vc.datasets.folder import TreeFolder
from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import HavasuError
from havasu_vc.formats.iceberg.values import MAIN
from havasu_vc.model.evolution import widens
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.model.schema import Schema
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.refs import list_branches, list_tags
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import DatasetFolder
from havasu_vc.workspace.materialise import OtherRef
from havasu_vc.workspace.properties import BASE

__all__ = ["havasu_view", "other_refs"]

_NAMED = 3
"""Refs that a note names."""


def havasu_view(repo: OpenRepo, folder: DatasetFolder, revision: str) -> HavasuDataset:
    """Return the view of a Havasu dataset's folder, unchecked."""
    inside = TreeFolder(repo.git.objects, folder.internals)
    return HavasuDataset(folder.path, inside, repo.storage, revision)


def other_refs(
    repo: OpenRepo, current: HavasuDataset
) -> tuple[dict[str, OtherRef], tuple[str, ...]]:
    """Return the refs that a dataset's table can show, and why others are left out."""
    found: dict[str, OtherRef] = {}
    notes: list[str] = []
    of_kart: list[str] = []
    for name, commit, is_tag in _refs(repo.git):
        if name in (MAIN, BASE):
            if name == BASE or repo.head().commit != commit:
                notes.append(f"{name} is left out of the table of {current.path}: the name is kept")
            continue
        if name in found:
            notes.append(f"the tag {name} is left out: a branch has that name")
            continue
        folder = repo.folders(repo.resolve(commit)).get(current.path)
        if folder is None:
            continue
        if folder.marker != HAVASU_MARKER:
            of_kart.append(name)
            continue
        view = havasu_view(repo, folder, name)
        try:
            view.check_guard()
            fits = _contains(current.schema, view.schema)
            same = view.properties.table_uuid == current.properties.table_uuid
        except HavasuError as error:
            notes.append(f"{name} is left out of the table of {current.path}: {error.message}")
            continue
        if not fits or not same:
            reason = "it has columns that HEAD has not" if same else "it is another dataset there"
            notes.append(f"{name} is left out of the table of {current.path}: {reason}")
            continue
        found[name] = OtherRef(view, commit, folder.internals, is_tag)
    if of_kart:
        some = ", ".join(of_kart[:_NAMED])
        more = f" and {len(of_kart) - _NAMED} more" if len(of_kart) > _NAMED else ""
        reason = "Kart's datasets are shown of HEAD alone"
        notes.append(f"{some}{more} left out of the table of {current.path}: {reason}")
    return found, tuple(notes)


def _refs(git: GitRepository) -> Iterator[tuple[str, str, bool]]:
    for branch in list_branches(git):
        yield branch.name, branch.commit, False
    for tag in list_tags(git):
        yield tag.name, tag.commit, True


def _contains(whole: Schema, part: Schema) -> bool:
    """Whether a table of one schema shows and keeps all that another has."""
    return all(
        field.id in whole.by_id
        and whole.by_id[field.id].name == field.name
        and widens(field.type, whole.by_id[field.id].type)
        for field in part.fields
    )
