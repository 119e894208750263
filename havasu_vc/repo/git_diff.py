"""Rows in `git diff`: the changes between two snapshots.

git hands over blobs, not commits. The commit that a snapshot is of is found in the history
of its path.
"""

from __future__ import annotations

from dataclasses import replace

from havasu_vc.datasets.any import AnyDataset
from havasu_vc.errors import InvalidArgumentError, NotFoundError
from havasu_vc.history.diff import diff_datasets
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.model.names import HAVASU_MARKER
from havasu_vc.repo.hooks import SNAPSHOT
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.trees import find_entry

__all__ = ["snapshot_diff"]

APART = ("title", "description")
"""Meta items that a snapshot does not cover."""


def snapshot_diff(
    repo: OpenRepo, path: str, old: str, new: str, moved_to: str | None = None
) -> DatasetDiff:
    """Return how a dataset differs between two versions of its `snapshot.json`.

    These are ids of blobs; `.` is none. The second stands at `moved_to`, where the dataset
    was renamed. No data file is fetched for it.
    """
    places = (path, moved_to or path)
    for place in places:
        if not place.endswith(SNAPSHOT):
            raise InvalidArgumentError(f"{place} is no snapshot of a dataset")
    names = [place.removesuffix(SNAPSHOT) for place in places]
    before, after = (
        _version(repo, name, blob) for name, blob in zip(names, (old, new), strict=True)
    )
    dataset = names[1]
    diff = diff_datasets(
        dataset, before, after, lambda: repo.settings.open_engine(0), note=repo.settings.note
    )
    return replace(diff, meta=tuple(item for item in diff.meta if item.name not in APART))


def _version(repo: OpenRepo, dataset: str, blob: str) -> AnyDataset | None:
    if blob in (".", ""):
        return None
    if not set(blob) <= set("0123456789abcdef"):
        raise InvalidArgumentError(f"{blob} is not the id of a blob")
    for commit in ("HEAD", *_commits_with(repo, dataset, blob)):
        folder = repo.folders(repo.revision(commit)).get(dataset)
        if folder is None or folder.marker != HAVASU_MARKER:
            continue
        entry = find_entry(repo.git.objects, folder.internals, "snapshot.json")
        if entry is not None and entry.id == blob:
            return repo.view(folder, commit)
    raise NotFoundError(f"{dataset}: no commit has the snapshot {blob[:10]}")


def _commits_with(repo: OpenRepo, dataset: str, blob: str) -> list[str]:
    """Return the last commit that brought or took a blob, and its parents."""
    if not set(blob) - {"0"}:
        return []
    options = ["-1", "-m", "--no-show-signature", "--all", "HEAD", f"--find-object={blob}"]
    found = repo.git.git(
        "log", *options, "--format=%H %P", "--no-patch", "--", f"{dataset}{SNAPSHOT}", check=False
    ).text
    return found.split()
