"""The commit that a command made, told to people and as Kart's JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, cast

from havasu_vc.cli.as_kart import is_called_kart, results_on_stdout
from havasu_vc.cli.branches import tell_update
from havasu_vc.cli.counts import change_lines
from havasu_vc.cli.invocation import Invocation
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.diffs import count_meta
from havasu_vc.writers.commits import ABBREVIATED, format_date, format_offset, format_time
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary
from havasu_vc.writers.status import summary_lines, summary_object

if TYPE_CHECKING:
    from havasu_vc.cli.forms.kart import Committed, RowCounts, SomeCounts
    from havasu_vc.cli.kart.counts import RowsSeen
    from havasu_vc.library import Repo
    from havasu_vc.merging import MergeResult
    from havasu_vc.repo.results import CommitResult

__all__ = [
    "changes_object",
    "counts_object",
    "merged_lines",
    "planned_summary",
    "print_commit",
    "tell_bare_commit",
    "tell_commit",
    "tell_moved",
]

_COUNTS = ("inserts", "updates", "deletes")


def tell_commit(
    invocation: Invocation,
    repo: Repo,
    result: CommitResult,
    *,
    dry_run: bool = False,
    form: bool = True,
) -> None:
    """Tell what was committed, or would be; also as JSON unless the command has another `form`."""
    if form:
        print_commit(invocation, repo, result)
    info = None if result.commit is None else repo.commit_info(result.commit)
    if result.hidden:
        invocation.say(
            f"Removing {result.hidden} features from the working copy that no longer match the "
            "spatial filter..."
        )
    if info is not None and result.commit is not None:
        where = result.branch or "detached HEAD"
        subject = info.message.partition("\n")[0]
        if is_called_kart():
            subject = info.message.replace("\n", " ")
        invocation.say(f"[{where} {result.commit[:ABBREVIATED]}] {subject}")
    elif result.as_edits:
        invocation.say("In the working copy, not committed:")
    elif dry_run:
        invocation.say("Would commit:" if result.changes else "Nothing would change")
    elif not result.changes:
        # Branches of tables may have got commits, as notes tell.
        here = f"Nothing is committed to {result.branch or 'HEAD'}"
        invocation.say(here if result.notes else "Nothing changed, nothing is committed")
    if results_on_stdout() and info is not None:
        # As Kart tells it, which scripts read.
        seen = _as_kart_sees(repo, result, ordered=False)
        lines = [*summary_lines(_summary(repo, result, seen))]
        for line in lines if lines or not is_called_kart() else [""]:
            invocation.say(line)
        date = format_date(info.commit_time, info.commit_offset, pad=True)
        invocation.say(f"  Date: {date}")
    else:
        for line in change_lines(result.changes, result.meta):
            invocation.say(line)
    invocation.notes(result.notes)


def tell_bare_commit(
    invocation: Invocation, repo: Repo, result: CommitResult, *, here: bool = True
) -> None:
    """Tell of a commit by its id alone, as Kart does where a patch is applied.

    Where it is not `here`, at HEAD, the working copy does not follow.
    """
    invocation.say(f"Commit {result.commit}")
    if here:
        tell_update(invocation, repo)
    invocation.notes(result.notes)


def tell_moved(invocation: Invocation, repo: Repo, result: CommitResult) -> None:
    """Tell of a dataset that moved as Kart does: less than of others, and the branch as its ref."""
    if result.commit is None:
        return
    message = repo.commit_info(result.commit).message
    short = result.commit[:ABBREVIATED]
    value = {
        "commit": result.commit,
        "abbrevCommit": short,
        "message": message,
        "branch": result.branch,
    }
    invocation.result("kart.commit/v1", value)
    where = "HEAD" if result.branch is None else f"refs/heads/{result.branch}"
    for line in f"[{where} {short}] {message}".split("\n"):
        invocation.say(line)
    invocation.notes(result.notes)


def merged_lines(repo: Repo, result: MergeResult) -> Iterator[str]:
    """Yield how many rows a merge, a pick or a revert changed, or else which meta items."""
    meta = {}
    if result.commit is not None and result.kind not in ("fast-forward", "up-to-date"):
        for path in [path for path, each in result.changes.items() if not each.total]:
            for diff in repo.diff(f"{result.commit}^?...{result.commit}", [f"{path}:meta"]):
                meta[path] = [change.name for change in diff.meta]
    return change_lines(result.changes, meta)


def _summary(repo: Repo, result: CommitResult, seen: Mapping[str, RowsSeen]) -> ChangeSummary:
    """Return how much a commit changed, with how many meta items; rows as they were seen."""
    meta = {}
    if any(result.meta.values()) and result.commit is not None:
        meta = {diff.path: count_meta(diff.meta) for diff in repo.show(result.commit)[1]}
    none = ChangeCounts()
    changes = {**result.changes, **{path: each.counts for path, each in seen.items()}}
    found = {path: DatasetSummary(meta.get(path, none), counts) for path, counts in changes.items()}
    return ChangeSummary({path: each for path, each in found.items() if each.has_changes})


def planned_summary(result: CommitResult) -> ChangeSummary:
    """Return how much a commit would change, to which each meta item that differs is edited."""
    found = {
        path: DatasetSummary(ChangeCounts(updates=len(result.meta.get(path, ()))), counts)
        for path, counts in result.changes.items()
    }
    return ChangeSummary({path: each for path, each in found.items() if each.has_changes})


def _as_kart_sees(repo: Repo, result: CommitResult, *, ordered: bool) -> dict[str, RowsSeen]:
    """Return changes of which Kart's numbers may be others, or stand in another order.

    A row whose key was edited is one change; where numbers are `ordered`, the rows tell how.
    """
    if result.commit is None or not is_called_kart():
        return {}
    from havasu_vc.checkouts import paired_keys
    from havasu_vc.cli.kart.counts import rows_seen, several_kinds

    paths = [
        path
        for path, each in result.changes.items()
        if (several_kinds(each) if ordered else each.inserts and each.deletes)
    ]
    if not paths:
        return {}
    diffs = repo.diff(f"{result.commit}^?...{result.commit}", paths)
    return {diff.path: rows_seen(paired_keys(diff)) for diff in diffs}


def print_commit(invocation: Invocation, repo: Repo, result: CommitResult) -> None:
    """Print what was committed in Kart's form, where JSON is asked for."""
    if invocation.json is None:
        return
    info = None if result.commit is None else repo.commit_info(result.commit)
    seen = _as_kart_sees(repo, result, ordered=True)
    changes = summary_object(_summary(repo, result, seen))
    if seen:
        from havasu_vc.cli.kart.counts import in_karts_order

        changes = in_karts_order(changes, seen)
    value: Committed = {
        "commit": result.commit,
        "abbrevCommit": result.commit and result.commit[:ABBREVIATED],
        "author": None if info is None else info.author_email,
        "committer": None if info is None else info.committer_email,
        "branch": result.branch,
        "message": None if info is None else info.message,
        "changes": cast("dict[str, RowCounts]", changes),
        "commitTime": None if info is None else format_time(info.commit_time),
        "commitTimeOffset": None if info is None else format_offset(info.commit_offset),
    }
    invocation.result("kart.commit/v1", value)


def changes_object(changes: Mapping[str, ChangeCounts]) -> dict[str, RowCounts]:
    """Return numbers of rows by dataset in Kart's form."""
    return {
        path: {"feature": counts_object(counts)} for path, counts in changes.items() if counts.total
    }


def counts_object(counts: ChangeCounts) -> SomeCounts:
    """Return the numbers of rows that are not 0, by the kind of change."""
    found = {name: getattr(counts, name) for name in _COUNTS if getattr(counts, name)}
    return cast("SomeCounts", found)
