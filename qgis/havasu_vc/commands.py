"""The command lines that the plugin runs, each as the list of its arguments."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .changes import key_text

__all__ = [
    "blame",
    "clone",
    "commit",
    "create_working_copy",
    "diff",
    "export",
    "history",
    "import_file",
    "init",
    "merge",
    "new_branch",
    "resolve",
    "restore",
    "row_filter",
    "switch",
]

STATUS = ["status", "-o", "json"]
DATASETS = ["data", "ls", "-o", "json"]
CONFLICTS = ["conflicts", "-o", "json"]
REMOTES = ["remote"]
BRANCHES = ["git", "for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes"]
FETCH = ["fetch"]
PULL = ["pull"]
MERGE_CONTINUE = ["merge", "--continue", "-o", "json"]
MERGE_ABORT = ["merge", "--abort"]
VERSION = ["version", "-o", "json"]


def row_filter(dataset: str, key: Sequence[object]) -> str:
    """Return the filter that names one row.

    >>> row_filter("parks/benches", [1, "a"])
    'parks/benches:feature:1,a'
    """
    return f"{dataset}:feature:{key_text(key)}"


def init(folder: str) -> list[str]:
    """Make a repository."""
    return ["init", folder]


def clone(url: str, folder: str, file: str) -> list[str]:
    """Clone a repository, with a working copy."""
    return ["clone", "--workingcopy", file, "--", url, folder]


def create_working_copy() -> list[str]:
    """Make the GeoPackage that QGIS edits, anew where it is there; never while it has edits."""
    return ["create-workingcopy", "--delete-existing"]  # nobody can be asked on a terminal here


def import_file(
    source: str, layer: str = "", dataset: str = "", key: str = "", replace: bool = False
) -> list[str]:
    """Take a file's layers in; all of them unless one is named."""
    arguments = ["import", "-o", "json"]
    if layer:
        arguments += ["--layer", f"{layer}:{dataset}" if dataset else layer]
    elif not dataset:
        arguments += ["--all-layers"]
    arguments += ["--primary-key", key] if key else []
    arguments += ["--replace"] if replace else []
    return [*arguments, "--", source, *([dataset] if dataset and not layer else [])]


def commit(message: str, filters: Iterable[str] = ()) -> list[str]:
    """Commit edits: those that filters name, or all."""
    return ["commit", "-o", "json", "-m", message, "--", *filters]


def restore(filters: Iterable[str] = (), revision: str = "") -> list[str]:
    """Drop edits, or bring rows back as they were at a revision."""
    return ["restore", *(["-s", revision] if revision else []), "--", *filters]


def diff(revisions: str = "", filters: Iterable[str] = (), crs: str = "") -> list[str]:
    """Print changed rows, one a line."""
    arguments = ["diff", "-o", "json-lines", *(["--crs", crs] if crs else [])]
    return [*arguments, *([revisions] if revisions else []), "--", *filters]


def history(filter_: str = "", most: int = 200, skip: int = 0) -> list[str]:
    """Print commits with counts of rows."""
    arguments = ["log", "-o", "json", "--with-change-counts", "-n", str(most)]
    arguments += ["--skip", str(skip)] if skip else []
    return [*arguments, "HEAD", "--", *([filter_] if filter_ else [])]


def blame(dataset: str, key: Sequence[object], columns: Iterable[str]) -> list[str]:
    """Tell who gave each cell of a row its value."""
    names = ",".join(columns)
    return ["blame", "-o", "json", "--columns", names, "--", dataset, key_text(key)]


def row_at(revision: str, dataset: str, key: Sequence[object]) -> list[str]:
    """Print a row as it was."""
    return ["show", "-o", "json", f"{revision}:{row_filter(dataset, key)}"]


def switch(branch: str) -> list[str]:
    """Switch to a branch; one that only a remote has is made."""
    return ["switch", branch]


def new_branch(name: str, start: str = "") -> list[str]:
    """Make a branch and switch to it."""
    return ["switch", "-c", name, *([start] if start else [])]


def merge(branch: str) -> list[str]:
    """Merge a branch; conflicts wait."""
    return ["merge", "-o", "json", branch]


def push(remote: str = "", branch: str = "") -> list[str]:
    """Push; with a remote, follow the branch from now on."""
    return ["push", "-u", remote, branch] if remote else ["push"]


def resolve(label: str, whole: str = "", columns: Mapping[str, str] | None = None) -> list[str]:
    """Decide a conflict: the whole from one side, or each cell from one."""
    arguments = ["resolve"]
    for name, side in (columns or {}).items():
        arguments += ["--column", f"{name}={'base' if side == 'ancestor' else side}"]
    return [*arguments, *([f"--with={whole}"] if whole else []), "--", label]


def export(dataset: str, revision: str, file: str) -> list[str]:
    """Write a dataset as it is at a revision to a file."""
    return ["export", "--ref", revision or "HEAD", "--overwrite", "--", dataset, file]


def export_changes(dataset: str, first: str, second: str, file: str) -> list[str]:
    """Write the rows that differ between two revisions to a file."""
    span = f"{first}..{second or 'HEAD'}"
    return ["export", "--changes", span, "--overwrite", "--", dataset, file]
