"""Bringing the branch of a pull request up to date row by row, where git alone cannot.

Where git merges the branches by itself nothing is done: the host's own button does it. Else the
base is merged on a branch of this clone, and the merge is pushed to the request's own branch, in
a fork too if its owner lets maintainers push there; never by force: where somebody pushed
meanwhile, the push is refused and told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from havasu_vc.errors import HavasuError
from havasu_vc.history.conflicts import DatasetConflicts
from havasu_vc.history.merge_datasets import DATASET
from havasu_vc.library.repository import Repo
from havasu_vc.merging import git_merges, labels
from havasu_vc.records import dataclass
from havasu_vc.remotes.hosts import Host, PullRequest
from havasu_vc.remotes.wanted import files_of_commits
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.review import code_span, fetch_request
from havasu_vc.sharing import download, remote_data

__all__ = ["Update", "update_request"]

NAMED = 10
"""Conflicts that are named; of more, their number is told."""


@dataclass(frozen=True, slots=True)
class Update:
    """The outcome for a pull request that was to be brought up to date."""

    done: bool
    """Whether it can be merged now, as far as this knows."""
    message: str
    """A message, as one line of Markdown."""


def update_request(repo: Repo, host: Host, request: PullRequest, remote: str) -> Update:
    """Merge the base into a pull request's branch, and push it, where git does not merge them."""
    shown = code_span(request.base)
    fork = not request.same_repository
    if fork and not request.edits_allowed:
        return Update(
            False,
            "Nothing is done: the branch is in a fork that does not allow edits by maintainers.",
        )
    try:
        place = host.head_address(request) or remote
        base, head = fetch_request(repo.opened, host, request, remote)
        git = repo.git.git
        if git("merge-base", "--is-ancestor", base, head, check=False).code == 0:
            return Update(True, f"Nothing is done: the branch has all of {shown}.")
        if git_merges(repo.git, base, head):
            return Update(True, f"Nothing is done: git merges the branch with {shown} by itself.")
        if fork:
            _bring(repo.opened, place, base, head)
        branch = f"havasu-update/{request.number}"
        repo.switch(head)
        if any(each.name == branch for each in repo.branches()):
            repo.delete_branch(branch, force=True)
        repo.switch(branch, create=True, start=head)
        return _merged(repo, request, base, remote, place)
    except HavasuError as error:
        return Update(False, f"It could not be brought up to date: {code_span(str(error), 500)}")


def _bring(repo: OpenRepo, place: str, base: str, head: str) -> None:
    """Bring the data that a fork has and the base has not."""
    data = remote_data(repo, place)
    # Many hosts keep the data of forks in one place: what is not here is asked for there again.
    try:
        download(repo, data, files_of_commits(repo.git, [head], [base]))
    except HavasuError as error:
        repo.settings.note(f"the fork's data is not to be had from it: {error}")


def _merged(repo: Repo, request: PullRequest, base: str, remote: str, place: str) -> Update:
    try:
        message = f"Merge branch '{request.base}' into {request.head}"
        merged = repo.merge(base, message=message)
        if merged.conflicts:
            names = list(islice(_names(merged.conflicts), NAMED))
            total = sum(each.total for each in merged.conflicts)
            if total > len(names):
                names.append(f"and {total - len(names):,} more")
            how = code_span(f"havasu-vc merge {remote}/{request.base}")
            said = "; ".join(names)
            return Update(
                False, f"Nothing is done: both sides changed {said}. Settle it by hand: {how}"
            )
        repo.push(place, [f"HEAD:refs/heads/{request.head}"])
    finally:
        with suppress(HavasuError):
            repo.abort_merge()
    rows = sum(counts.total for counts in merged.changes.values())
    changed = f"{rows:,} row{'' if rows == 1 else 's'} changed with it"
    return Update(True, f"{code_span(request.base)} is merged in and pushed: {changed}.")


def _names(conflicts: Sequence[DatasetConflicts]) -> Iterator[str]:
    """Yield what is in conflict: dataset, and key and columns or the item."""
    for each in conflicts:
        path = code_span(each.path)
        for item in each.items:
            yield path if item == DATASET else f"{path} {code_span(item)}"
        if each.rows is None:
            continue
        for label, columns, kind in zip(
            labels(each.rows).to_pylist(),
            each.rows.column("columns").to_pylist(),
            each.rows.column("kind").to_pylist(),
            strict=True,
        ):
            cells = ", ".join(map(code_span, columns or ())) or kind
            yield f"{path} {code_span(label, 60)} ({cells})"
