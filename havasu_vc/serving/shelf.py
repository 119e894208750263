"""Tables as they were served of any commit of a branch: what clients wrote upon."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from havasu_vc.checkouts import ServedBase
from havasu_vc.errors import DatasetNotFoundError
from havasu_vc.serving.commits import Served
from havasu_vc.serving.forms import PLAIN
from havasu_vc.serving.history import Version
from havasu_vc.serving.metadata import snapshot_id_of
from havasu_vc.serving.staged import staging_folder
from havasu_vc.serving.told import told
from havasu_vc.tables.locations import TableFolders

if TYPE_CHECKING:
    from havasu_vc.serving.catalog import Catalog

__all__ = ["CatalogShelf"]

_MOST_VERSIONS = 2_000
"""A client that wrote upon something older than this loads the table anew."""


class CatalogShelf:
    """The tables of one branch, at any of its commits."""

    def __init__(self, catalog: Catalog, branch: str) -> None:
        self._catalog = catalog
        self._branch = branch

    def served(self, commit: str, path: str) -> Served:
        """Return the table of a dataset as it is served of a commit."""
        repo, tables = self._catalog.repo, self._catalog.tables
        loaded = tables.load(repo, path, commit, branch=self._branch, form=PLAIN)
        snapshot = None if loaded is None else loaded.metadata.current_snapshot_id
        if loaded is None or snapshot is None:
            raise DatasetNotFoundError(path, commit[:10])
        newest = loaded.versions[0]
        return Served(
            ServedBase(path, newest.commit.id, newest.tree, snapshot),
            json.loads(loaded.document),
            (Path(loaded.files[0]).parent.parent, repo.storage.files.root),
            loaded.staging,
        )

    def find(self, commit: str, path: str, snapshot_id: int) -> str | None:
        """Return the commit, the given one or one before it, whose table has a snapshot.

        The line of first parents is looked through first, as clients are shown that; then what
        merges brought in, as a branch that was moved onto a merge of it has there what it was.
        """
        objects = self._catalog.repo.git.objects
        lines = deque([commit])
        met: set[str] = set()
        while lines:
            for version in self._line(lines.popleft(), path):
                if version.commit.id in met or len(met) == _MOST_VERSIONS:
                    break
                met.add(version.commit.id)
                if _shows(version, path, snapshot_id):
                    return version.commit.id
                lines.extend(each for each in version.commit.parents[1:] if objects.has(each))
        return None

    def _line(self, commit: str, path: str) -> Iterator[Version]:
        """Yield the versions of a table on the line of first parents, the newest first."""
        repo, history = self._catalog.repo, self._catalog.tables.history
        at: str | None = commit
        while at is not None:
            versions = history.versions(repo, at, path)
            yield from versions
            parents = versions[-1].commit.parents if versions else ()
            at = parents[0] if parents and repo.git.objects.has(parents[0]) else None

    def within(self, folders: Iterable[Path]) -> TableFolders:
        """Return where files are found that must be in some folders."""
        shared = self._catalog.tables.documents.shared
        return TableFolders(folders) if shared is None else shared.within(folders)

    def spell(self, path: Path) -> str:
        """Return the location of a folder that clients are told of."""
        return self._catalog.tables.documents.spell(path)

    def staging(self, identity: str) -> Path:
        """Return the folder that clients write files of a new table into, by its uuid."""
        return staging_folder(self._catalog.tables, identity)


def _shows(version: Version, path: str, snapshot_id: int) -> bool:
    """Whether a version is shown by a snapshot, or was sent as it."""
    sent = told(version.commit.message).snapshots
    return snapshot_id == snapshot_id_of(path, version) or sent.get(snapshot_id) == path
