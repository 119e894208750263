"""Tables taken in with their history: each version that is still there becomes a commit.

A version is compared with the one before it, so one that changed no row, such as a
compaction, is no commit. Columns that changed after the last snapshot are a version too.
With `refs`, an Iceberg table's branches and tags become git's: a branch leaves the line of
the one that is checked out where its snapshots do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from havasu_vc.checkouts import is_working_copy, require_other_file
from havasu_vc.errors import HavasuError, InvalidArgumentError
from havasu_vc.exchange.addresses import is_address
from havasu_vc.exchange.living_tables import copy_beside
from havasu_vc.exchange.source import SourceOptions
from havasu_vc.exchange.sources import parse_table_location
from havasu_vc.formats.iceberg.values import Reference, Snapshot
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.records import dataclass
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import ImportResult
from havasu_vc.store.refs import check_ref_name, create_branch, create_tag, read_ref
from havasu_vc.transfer.imports import import_layers
from havasu_vc.transfer.requests import ImportRequest

__all__ = ["import_history"]

_TRACK_IT = (
    "`havasu-vc add-dataset TABLE` takes in a table that an editor made; TABLE:DATASET copies it"
)


@dataclass(frozen=True, slots=True)
class _Version:
    """A version of a table."""

    number: int
    """Its number, or that of the snapshot with its rows."""
    message: str
    """The message of its commit."""
    columns_of_now: bool = False
    """Whether it has the rows of its snapshot in the columns that the table has now."""

    @property
    def key(self) -> tuple[int, bool]:
        """A value that tells it from others."""
        return self.number, self.columns_of_now


def import_source(repo: OpenRepo, request: ImportRequest) -> ImportResult:
    """Import layers of a file as datasets, in one commit, or a table with its history.

    With `history` each snapshot of an Iceberg table becomes a commit. With `replace`, datasets
    that are there are compared by key and only what differs is committed. In a Kart dataset
    with keys made for its rows, as many rows as `similarity_detection_limit` that came and
    went are searched for ones that keep their keys, as they hardly changed. Tables of the
    working copy itself are copied where each has a path for its dataset.
    """
    named = request.layers and all(":" in layer for layer in request.layers)
    if request.history or not named:
        require_other_file(repo, request.place, _TRACK_IT)
    if request.history:
        return import_history(repo, request)
    if is_address(request.place) or not is_working_copy(repo, request.place):
        return import_layers(repo, request)
    with tempfile.TemporaryDirectory() as folder:
        copy = copy_beside(Path(request.place.removeprefix("GPKG:")), Path(folder))
        return import_layers(repo, replace(request, location=copy))


def import_history(repo: OpenRepo, request: ImportRequest) -> ImportResult:
    """Import each version of an Iceberg or Delta table that is there as a commit, oldest first."""
    table = parse_table_location(request.place)
    if table is None:
        raise InvalidArgumentError(
            f"{request.place} has no history",
            hints=("name a table as iceberg:FOLDER or delta:FOLDER",),
        )
    if request.refs and table[0] != "iceberg":
        raise InvalidArgumentError("only tables of Iceberg have branches and tags")
    versions = _versions(*table)
    if request.dry_run or (len(versions) < 2 and not request.refs):
        return import_layers(repo, request)
    history = _History(repo, request, table[0] == "iceberg", request.message)
    history.add(versions)
    if request.refs:
        history.add_references(table[1])
    return history.result()


class _History:
    """The versions that were taken in so far."""

    def __init__(
        self, repo: OpenRepo, request: ImportRequest, has_ids: bool, message: str | None
    ) -> None:
        self._repo = repo
        self._request = request
        self._has_ids = has_ids
        self._message = message
        self._total: dict[str, ChangeCounts] = {}
        self._notes: dict[str, None] = {}
        self._commit: str | None = None
        self._begun = False
        self._commits: dict[tuple[int, bool], str] = {}

    def add(self, versions: Sequence[_Version], *, branch: str | None = None) -> None:
        """Take versions in, one after the other, on HEAD or on a branch."""
        options = self._request.options or SourceOptions()
        for version in versions:
            one = replace(
                self._request,
                options=replace(
                    options, snapshot=version.number, columns_of_now=version.columns_of_now
                ),
                replace=self._request.replace or self._begun,
                branch=branch,
                same_columns=self._has_ids and self._begun and not self._request.replace,
            )
            text = self._message or version.message
            result = import_layers(self._repo, replace(one, message=text))
            self._begun = True
            if branch is None:
                self._commit = result.commit or self._commit
            self._notes |= dict.fromkeys(result.notes)
            for path, counts in result.datasets.items():
                self._total[path] = self._total.get(path, ChangeCounts()) + counts
            ref = "HEAD" if branch is None else f"refs/heads/{branch}"
            at = self._repo.resolve(ref).commit
            if at is not None:
                self._commits[version.key] = at

    def add_references(self, place: str) -> None:
        """Make the branches and tags of a table git's; those that git has stay what they are."""
        from havasu_vc.exchange.iceberg import table_references

        for name, reference in table_references(place).items():
            try:
                check_ref_name(name)
            except HavasuError as error:
                self._notes[f"{name!r} of the table is no name for git: {error.message}"] = None
                continue
            kind = "tags" if reference.kind == "tag" else "heads"
            if read_ref(self._repo.git, f"refs/{kind}/{name}") is not None:
                what = "tag" if reference.kind == "tag" else "branch"
                self._notes[f"git has a {what} {name} already; the table's is left out"] = None
                continue
            self._add_reference(place, name, reference)

    def _add_reference(self, place: str, name: str, reference: Reference) -> None:
        # As in Iceberg, a tag has the columns of its snapshot, a branch those of the table.
        is_tag = reference.kind == "tag"
        line = _snapshots(place, reference.snapshot_id, columns_of_now=not is_tag)
        known = [index for index, version in enumerate(line) if version.key in self._commits]
        if not known:
            self._notes[
                f"{name} of the table has nothing in common with its main branch, and is left out"
            ] = None
            return
        base, rest = self._commits[line[known[-1]].key], line[known[-1] + 1 :]
        if is_tag:
            if rest:
                self._notes[f"the tag {name} is not on a line that came in, and is left out"] = None
            else:
                create_tag(self._repo.git, name, base)
            return
        create_branch(self._repo.git, name, base)
        self.add(rest, branch=name)

    def result(self) -> ImportResult:
        """Return what came of it all."""
        return ImportResult(self._commit, self._repo.head_branch, self._total, tuple(self._notes))


def _versions(format_: str, place: str) -> list[_Version]:
    """Return the versions of a table, oldest first."""
    if format_ == "iceberg":
        return _snapshots(place)
    from havasu_vc.exchange.delta import delta_versions

    return [
        _Version(
            each.version,
            f"{each.operation} of {_moment(each.timestamp_ms)}\n\nDelta-Version: {each.version}",
        )
        for each in delta_versions(place)
    ]


def _snapshots(
    place: str, snapshot_id: int | None = None, *, columns_of_now: bool = True
) -> list[_Version]:
    """Return a snapshot and those before it, then the columns where they changed since."""
    from havasu_vc.exchange.iceberg import snapshot_history, time_of_newer_columns

    found = snapshot_history(place, snapshot_id)
    versions = [_Version(each.snapshot_id, _snapshot_message(each)) for each in found]
    if found and columns_of_now:
        last = found[-1].snapshot_id
        moment = time_of_newer_columns(place, last)
        if moment is not None:
            text = f"Columns of {_moment(moment)}\n\nIceberg-Snapshot: {last}"
            versions.append(_Version(last, text, columns_of_now=True))
    return versions


def _moment(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _snapshot_message(snapshot: Snapshot) -> str:
    operation = snapshot.summary.get("operation", "snapshot").capitalize()
    made = _moment(snapshot.timestamp_ms)
    return f"{operation} of {made}\n\nIceberg-Snapshot: {snapshot.snapshot_id}"
