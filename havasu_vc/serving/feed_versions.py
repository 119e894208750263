"""The versions that a feed tells of: which dataset they are of, and their columns."""

from __future__ import annotations

from collections.abc import Sequence

from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.history import Step, Steps, Version
from havasu_vc.serving.metadata import TableMaker
from havasu_vc.serving.remembering import Remembered

__all__ = ["FeedVersions", "VersionColumns"]

_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class VersionColumns:
    """The columns of a version, and whose they are."""

    identity: str | None
    """Which dataset it is of."""
    schema: Schema
    """Its columns."""


class FeedVersions:
    """Finds the steps of datasets, and remembers the columns of their versions."""

    def __init__(self, tables: TableMaker) -> None:
        self._tables = tables
        self._steps = Steps(tables.history)
        self._columns: Remembered[object, VersionColumns] = Remembered(_MOST_KNOWN)

    def known(self, repo: OpenRepo, path: str, version: Version) -> VersionColumns:
        """Return what is to be known of a version."""

        def look() -> VersionColumns:
            view = self._tables.stored(repo, path, version)
            return VersionColumns(view.identity, view.schema)

        return self._columns.made((path, version.tree), look)

    def shown(self, repo: OpenRepo, path: str, newest: Version) -> list[Step]:
        """Return the steps that each have a snapshot, oldest first."""
        return self._of_one(repo, path, self._steps.find(repo, newest.commit.id, path))

    def stretch(self, repo: OpenRepo, path: str, commit: str) -> list[Step]:
        """Return the steps of the stretch that ends with a commit, oldest first."""
        return self._of_one(repo, path, self._steps.stretch(repo, commit, path))

    def _of_one(self, repo: OpenRepo, path: str, steps: Sequence[Step]) -> list[Step]:
        """Return the steps of the dataset that stands there now, which others stood before."""
        found: list[Step] = []
        for step in reversed(steps):
            identity = self.known(repo, path, step.version).identity
            if step.before and self.known(repo, path, step.before).identity != identity:
                step = Step(step.version, None)
            found.append(step)
            if step.before is None:
                break
        return found[::-1]

    def schemas(self, repo: OpenRepo, path: str, steps: Sequence[Step]) -> list[Schema]:
        """Return the schemas of all versions that rows are of, newest first, each once."""
        versions = [step.version for step in reversed(steps)]
        versions += [step.before for step in steps[:1] if step.before is not None]
        schemas = [self.known(repo, path, each).schema for each in versions]
        return list({id(schema): schema for schema in schemas}.values())
