"""Rows in `git diff`: what one delta of a dataset changes, or one column.

git hands over blobs, not commits. A delta says what it adds and takes away; the columns that
it does so in are those of a commit that has it, which is found in the history of its path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from havasu_vc.datasets.kinds import require_files
from havasu_vc.datasets.protocol import Dataset, DatasetInFiles, TreeEdit
from havasu_vc.errors import InvalidArgumentError, NotFoundError
from havasu_vc.formats.havasu.deltas import Delta, format_delta, parse_delta
from havasu_vc.formats.havasu.json_text import unpack
from havasu_vc.formats.havasu.schema import schema_from_json
from havasu_vc.history.diff import diff_datasets
from havasu_vc.model.columns import columns_of
from havasu_vc.model.diffs import DatasetDiff, MetaChange
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.objects import read_object
from havasu_vc.store.trees import find_entry

__all__ = ["document_diff"]

_INSIDE = f"/{HAVASU_MARKER}/"


def document_diff(repo: OpenRepo, path: str, old: str, new: str) -> DatasetDiff:
    """Return what a document of a dataset changes: a delta, or the file of a column.

    `old` and `new` are ids of blobs; `.` is none. No data file is fetched for it.
    """
    repo = OpenRepo(repo.git, repo.settings)  # one that brings nothing
    dataset, inside, part = path.partition(_INSIDE)
    if inside and part.startswith("columns/") and part.endswith(".json"):
        return _column_diff(repo, dataset, path, (old, new))
    if not inside or not part.startswith("files/"):
        raise InvalidArgumentError(f"{path} is no delta or column of a dataset")
    come = new not in (".", "")
    blob = _blob(new if come else old)
    with_it, without = _versions(repo, dataset, path, blob)
    before, after = (without, with_it) if come else (with_it, without)
    diff = diff_datasets(
        dataset, before, after, lambda: repo.settings.open_engine(0), note=repo.settings.note
    )
    return replace(diff, meta=())


def _blob(text: str) -> str:
    if not text or not set(text) <= set("0123456789abcdef"):
        raise InvalidArgumentError(f"{text} is not the id of a blob")
    return text


def _versions(repo: OpenRepo, dataset: str, path: str, blob: str) -> tuple[DatasetInFiles, Dataset]:
    """Return a version that has a delta, and what it is without."""
    part = path.partition(_INSIDE)[2]
    for commit in ("HEAD", *_commits_with(repo, path, blob)):
        folder = repo.folders(repo.revision(commit)).get(dataset)
        if folder is None or folder.marker != HAVASU_MARKER:
            continue
        entry = find_entry(repo.git.objects, folder.internals, part)
        if entry is None or entry.id != blob:
            continue
        view = require_files(repo.view(folder, commit))
        delta = _delta(repo, path, blob)
        if delta.replaces:
            # What it took the place of, it has too: only the commit before tells them apart.
            return view, _before(repo, dataset, path, delta) or view
        alone = _alone(view, delta)
        without = TreeEdit(dataset, {part: None})
        return alone, alone.after(without)
    raise NotFoundError(f"{dataset}: no commit has the delta {blob[:10]}")


def _alone(view: DatasetInFiles, delta: Delta) -> DatasetInFiles:
    """Return a version that has a delta and the data files it deletes from, and no others."""
    targets = {target for entry in delta.files for target in entry.targets}
    blobs: dict[str, bytes | None] = {}
    for other in view.deltas.values():
        if other.id == delta.id:
            continue
        kept = tuple(entry for entry in other.files if entry.file in targets)
        blobs[other.path] = format_delta(replace(other, files=kept)) if kept else None
    return view.after(TreeEdit(view.path, blobs))


def _delta(repo: OpenRepo, path: str, blob: str) -> Delta:
    identity = path.rpartition("/")[2].removesuffix(".json")
    return parse_delta(read_object(repo.git.objects, blob, "blob"), identity, path)


def _before(repo: OpenRepo, dataset: str, path: str, delta: Delta) -> Dataset | None:
    """Return the dataset before the commit that first had a delta."""
    first = repo.git.git(
        "log", "-1", "--all", "HEAD", "--diff-filter=A", "--format=%P", "--", path, check=False
    ).text.split()
    for parent in first:
        folder = repo.folders(repo.revision(parent)).get(dataset)
        if folder is not None:
            found = require_files(repo.view(folder, parent))
            if set(delta.replaces) <= found.deltas.keys():
                return found
    return None


def _column_diff(repo: OpenRepo, dataset: str, path: str, blobs: tuple[str, str]) -> DatasetDiff:
    """Return how the file of a column differs between two versions."""
    sides: list[Sequence[object] | None] = []
    for blob in blobs:
        if blob in (".", ""):
            sides.append(None)
            continue
        value = unpack(read_object(repo.git.objects, _blob(blob), "blob"), path)
        schema = schema_from_json({"type": "struct", "fields": [value["field"]]}, path)
        sides.append(columns_of(schema))
    header = require_files(repo.dataset(dataset)).header
    change = MetaChange("schema.json", *sides)
    return DatasetDiff(dataset, header, header, (change,), iter(()))


def _commits_with(repo: OpenRepo, path: str, blob: str) -> list[str]:
    """Return the last commit that brought or took a blob, and its parents."""
    if not set(blob) - {"0"}:
        return []
    options = ["-1", "-m", "--all", "HEAD", f"--find-object={blob}", "--format=%H %P"]
    found = repo.git.git("log", *options, "--no-patch", "--", path, check=False).text
    return found.split()
