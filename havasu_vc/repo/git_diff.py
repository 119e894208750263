"""Rows in `git diff`: what git is told to run, and the changes between two snapshots.

The attribute `diff=havasu` covers everything inside of a dataset. For git's diff command,
`diff.havasu.command`, a few lines of shell pass over all of it but `snapshot.json`, which
changes whenever rows or columns do, and the texts that no snapshot covers; so git starts
this program once for a dataset and not once for a file. `diff.havasu.textconv`, which
`git show` and `git log -p` use, is shell alone: it prints the sums of a snapshot.

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
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.trees import find_entry

__all__ = ["DIFF_COMMAND", "SNAPSHOT", "TEXT_CONVERSION", "install_diff", "snapshot_diff"]

SNAPSHOT = f"/{HAVASU_MARKER}/snapshot.json"
"""How the path of every snapshot ends."""
APART = ("title", "description")
"""Meta items that a snapshot does not cover."""

DIFF_COMMAND = (
    'havasu() { case "$1" in '
    f"*{SNAPSHOT}) "
    "if command -v havasu-vc >/dev/null 2>&1; then "
    'havasu-vc git-diff "$1" "${3:-.}" "${6:-.}" ${8:+"$8"} </dev/null || :; '
    'else echo "$1: rows are not shown, as havasu-vc is not on the PATH"; fi;; '
    f"*/{HAVASU_MARKER}/meta/title|*/{HAVASU_MARKER}/meta/description) "
    'for side in "-$2" "+$5"; do sign=${side%"${side#?}"}; '
    'echo "$sign$sign$sign $1"; '
    "LC_ALL=C tr -d '\\000-\\010\\013-\\037\\177' <\"${side#?}\" | "
    'sed "s/^/$sign/"; echo; done;; '
    "esac; }; havasu"
)
TEXT_CONVERSION = (
    'havasu() { case "$(head -c 10 "$1" | tr -d "\\000")" in '
    '"{\\"guard\\": "*) sed -n "'
    's/^ *\\"\\(rows\\|deleted-rows\\|bytes\\)\\": \\([0-9]*\\).*/\\1: \\2/p; '
    's/^ *\\"\\([0-9]*\\)\\": \\"\\([0-9a-f]*\\)\\".*/content of column \\1: \\2/p'
    '" "$1";; *\\"conten) sed -n '
    '"s/^ \\"\\(content\\|rows\\|size\\)\\": \\"*\\([a-z0-9]*\\).*/\\1: \\2/p" '
    '"$1";; *) cat "$1";; esac; }; havasu'
)


def install_diff(repository: GitRepository) -> None:
    """Tell git how to show rows, where the user has not told it otherwise."""
    if repository.is_kart:
        return
    config = repository.config
    ours = {"command": DIFF_COMMAND, "textconv": TEXT_CONVERSION}
    known = {name: config.get(f"diff.havasu.{name}") for name in ours}
    for name, text in known.items():
        if text != ours[name] and (text is None or text.startswith("havasu() {")):
            config.set(f"diff.havasu.{name}", ours[name])


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
    options = ["-1", "-m", "--all", "HEAD", f"--find-object={blob}", "--format=%H %P"]
    found = repo.git.git(
        "log", *options, "--no-patch", "--", f"{dataset}{SNAPSHOT}", check=False
    ).text
    return found.split()
