"""Validation of data: that rows of datasets, and of files to import, are what columns say.

for issue in Validation(repo.opened).run(["parcels", "../new.parquet"]):
    print(issue.dataset, issue.key, issue.column, issue.cause)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from havasu_vc.datasets.kinds import findings_in
from havasu_vc.datasets.protocol import Dataset
from havasu_vc.engine.protocol import Engine
from havasu_vc.errors import (
    CorruptionError,
    CrsError,
    HavasuError,
    InvalidArgumentError,
    StateError,
)
from havasu_vc.exchange.source import Source, SourceOptions
from havasu_vc.exchange.sources import open_sources, parse_table_location
from havasu_vc.geo.crs import parse_crs
from havasu_vc.geo.raster_v1_pixels import ALLOWED
from havasu_vc.model.schema import Schema
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.upkeep.validating import Issue, check_keys, check_rows
from havasu_vc.upkeep.value_rules import Level

__all__ = ["Issue", "Level", "Validation"]


class Validation:
    """Checks the data of a repository, or of files, against the rules."""

    def __init__(self, repo: OpenRepo) -> None:
        self._repo = repo
        self._allowed = repo.git.config.all(ALLOWED)

    def run(
        self,
        targets: Sequence[str] = (),
        revision: str = "HEAD",
        *,
        primary_key: Sequence[str] = (),
        warnings: bool = True,
    ) -> Iterator[Issue]:
        """Yield what is wrong with datasets and files; without targets with all datasets.

        A target that is a dataset is one; any other is a location as `import` takes it,
        whose key is `primary_key`, or what the file says.
        """
        known = set(self._repo.datasets(revision))
        for target in targets or sorted(known):
            path, _, at = target.partition("@")
            if target in known:
                yield from self._dataset(target, revision, warnings=warnings)
            elif os.path.exists(target) or parse_table_location(target) is not None:
                yield from self._location(target, tuple(primary_key), warnings=warnings)
            elif at and not os.path.exists(path):
                yield from self._dataset(path, at, warnings=warnings)
            else:
                raise InvalidArgumentError(
                    f"there is no dataset and no file {target!r}",
                    hints=(f"datasets are {', '.join(sorted(known)) or 'none'}",),
                )

    def _dataset(self, path: str, revision: str, *, warnings: bool) -> Iterator[Issue]:
        try:
            view = self._repo.dataset(path, revision)
        except (CorruptionError, StateError) as error:
            yield Issue(path, Level.ERROR, "broken", error.message)
            return
        with self._repo.settings.open_engine(view.size) as engine:
            broken = False
            for issue in _of_dataset(path, view, engine):
                broken = True
                yield issue
            try:
                tasks = view.scan()
            except HavasuError as error:
                if not broken:
                    yield Issue(path, Level.ERROR, "unreadable", error.message)
                return
            srids = _srids(view.schema, view.crs)
            yield from check_rows(
                path, tasks, view.schema, srids, engine, warnings=warnings, allowed=self._allowed
            )

    def _location(self, location: str, key: tuple[str, ...], *, warnings: bool) -> Iterator[Issue]:
        options = SourceOptions(primary_key=key or None)
        for source in open_sources(location, options=options):
            name = location if source.name in location else f"{location}:{source.name}"
            with self._repo.settings.open_engine(source.input_bytes) as engine:
                yield from _of_source(
                    name, source, engine, warnings=warnings, allowed=self._allowed
                )


def _of_dataset(path: str, view: Dataset, engine: Engine) -> Iterator[Issue]:
    """Yield what `fsck` finds in one dataset."""
    for found in findings_in(view, engine, full=True):
        where = found.where.removeprefix(path).lstrip("/: ")
        cause = f"{where}: {found.message}" if where else found.message
        yield Issue(path, Level.ERROR, "stored", cause, found.column)


def _of_source(
    name: str, source: Source, engine: Engine, *, warnings: bool, allowed: Sequence[str]
) -> Iterator[Issue]:
    srids = _srids(source.schema, source.crs)
    broken = False
    how: dict[str, Any] = {"warnings": warnings, "allowed": allowed}
    rows = check_rows(name, source.tasks(), source.schema, srids, engine, **how)
    for issue in rows:
        broken = broken or issue.rule == "unreadable"
        yield issue
    if source.schema.key.names and not broken:
        keys = source.tasks(source.schema.key.names)
        yield from check_keys(name, keys, source.schema, source.rows, engine)


def _srids(schema: Schema, definitions: Mapping[str, str]) -> dict[str, int]:
    """Return the SRIDs of geometry columns whose system is known."""
    found = {}
    for field in schema.geometries:
        crs = None if field.geometry is None else field.geometry.crs
        if crs is None:
            continue
        for text in (crs, definitions.get(crs)):
            try:
                if text is not None:
                    found[field.name] = parse_crs(text).srid
                    break
            except CrsError:
                continue
    return found
