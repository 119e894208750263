"""The past of a feed, before its snapshots: rows of many commits gathered in one file.

    <data folder>/catalog/feeds/<feed>/data/<newest commit>-past.parquet

One file for each stretch of a dataset's line. Its note names the version that the next file ends
with, so all of them are found without a look at the commits; and the columns that versions had.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from havasu_vc.errors import DataFileNotFoundError, UnsupportedError
from havasu_vc.formats.havasu.schema import schema_from_json, schema_to_json
from havasu_vc.formats.iceberg.values import DataFile
from havasu_vc.model.schema import Schema
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.serving.feed_files import described, layout_of, note_of, united, write
from havasu_vc.serving.history import Step, Steps, Version
from havasu_vc.serving.metadata import TableMaker
from havasu_vc.serving.remembering import Remembered

__all__ = ["FeedPast", "FeedVersions", "Gathered", "Telling", "VersionColumns", "columns_together"]

_MOST_KNOWN = 10_000


@dataclass(frozen=True, slots=True)
class Telling:
    """How a feed tells of steps."""

    rows: Callable[[Sequence[Step], Schema], Iterable[pa.Table]]
    """Yields rows, in some columns."""
    columns: Schema | None = None
    """The columns of all files; None for those that the versions of each have."""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A stretch of commits that is told in one file."""

    newest: str
    """The newest commit that is told."""
    file: DataFile
    """Its rows."""
    schemas: tuple[Schema, ...]
    """The columns that the versions have, newest first."""
    before: str | None
    """The commit that the next stretch ends with; None where there is none."""


class FeedPast:
    """Gathers what feeds had before their snapshots begin, and remembers it."""

    def __init__(self, versions: FeedVersions) -> None:
        self._versions = versions
        self._found: Remembered[object, tuple[Gathered | None]] = Remembered(_MOST_KNOWN)

    def forget(self) -> None:
        """Take nothing for written any more."""
        self._found.forget()

    def before(
        self, repo: OpenRepo, path: str, newest: Version, folder: Path, telling: Telling
    ) -> Iterator[Gathered]:
        """Yield what there was up to a version, newest first.

        It ends where a clone does, or where data is kept no longer.
        """
        at: str | None = newest.commit.id
        while at is not None:
            found = self._one(repo, path, at, folder, telling)
            if found is None:
                return
            yield found
            at = found.before

    def _one(
        self, repo: OpenRepo, path: str, commit: str, folder: Path, telling: Telling
    ) -> Gathered | None:
        place = folder / "data" / f"{commit}-past.parquet"

        def make() -> tuple[Gathered | None]:
            if not place.exists() and not self._written(repo, path, commit, place, telling):
                return (None,)
            note = json.loads(note_of(place))
            schemas = tuple(schema_from_json(each, str(place)) for each in note["schemas"])
            return (Gathered(commit, described(place), schemas, note["before"]),)

        return self._found.made(place, make)[0]

    def _written(
        self, repo: OpenRepo, path: str, commit: str, place: Path, telling: Telling
    ) -> bool:
        """Write the file of a stretch; False where nothing is known of it."""
        steps = self._versions.stretch(repo, path, commit)
        if not steps:
            return False
        own = telling.columns
        schemas = self._versions.schemas(repo, path, steps) if own is None else []
        before = steps[0].before
        note = {
            "before": None if before is None else before.commit.id,
            "schemas": [schema_to_json(each) for each in schemas],
        }
        try:
            schema = layout_of(united(path, schemas)).schema if own is None else own
            write(place, telling.rows(steps, schema), schema, json.dumps(note))
        except (DataFileNotFoundError, UnsupportedError):
            return False
        return True


def columns_together(
    path: str, newest: Sequence[Schema], past: Iterable[Gathered]
) -> tuple[Schema, list[Gathered]]:
    """Return the columns of a feed, and what of its past stands in one table with the newest."""
    schemas, found = list(newest), []
    together = united(path, schemas)
    for each in past:
        others = [schema for schema in each.schemas if schema not in schemas]
        try:
            together = united(path, [*schemas, *others]) if others else together
        except UnsupportedError:
            break  # a column was of another type
        schemas += others
        found.append(each)
    return together, found


# The versions that a feed tells of: which dataset they are of, and their columns.


_MOST_VERSIONS = 10_000


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
        self._columns: Remembered[object, VersionColumns] = Remembered(_MOST_VERSIONS)

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
