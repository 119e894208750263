"""Exporting: the rows of a dataset, or the rows that changed, as a file elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.exchange.export import write_file
from havasu_vc.exchange.export_columns import ExportFormat
from havasu_vc.repo.differences import diff
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.results import ExportResult
from havasu_vc.repo.tables import Table

__all__ = ["export", "export_changes"]


def _format(name: str | None) -> ExportFormat | None:
    if name is None:
        return None
    try:
        return ExportFormat(name.lower())
    except ValueError:
        raise InvalidArgumentError(
            f"there is no format {name!r}",
            hints=(f"formats are {', '.join(each.value for each in ExportFormat)}",),
        ) from None


def export(
    repo: OpenRepo,
    path: str,
    file: Path,
    revision: str,
    *,
    format: str | None = None,
    overwrite: bool = False,
    crs: str | None = None,
    columns: Sequence[str] | None = None,
) -> ExportResult:
    """Write the rows of a dataset to a file."""
    dataset = repo.dataset(path, revision)
    table = Table(dataset, repo.settings)
    header = dataset.header
    if columns is not None:
        unknown = [name for name in columns if name not in dataset.schema.by_name]
        if unknown:
            raise InvalidArgumentError(f"{path} has no column {unknown[0]!r}")
        header = replace(header, schema=dataset.schema.select(tuple(columns)))
    written = write_file(
        file,
        header,
        table.to_batches(columns),
        format=_format(format),
        overwrite=overwrite,
        crs=crs,
    )
    return ExportResult(str(file), written.rows, written.notes)


def export_changes(
    repo: OpenRepo,
    path: str,
    file: Path,
    revisions: str,
    *,
    format: str | None = None,
    overwrite: bool = False,
) -> ExportResult:
    """Write the rows that changed between two revisions, with a column that says how."""
    from havasu_vc.exchange.export_changes import write_changes

    found = [each for each in diff(repo, revisions, [path]) if each.path == path]
    if not found:
        repo.dataset(path)
        raise InvalidArgumentError(f"{path} does not differ between {revisions}")
    written = write_changes(file, found[0], format=_format(format), overwrite=overwrite)
    return ExportResult(str(file), written.rows, written.notes)
