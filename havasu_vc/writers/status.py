"""The state of a repository as `status` prints it, in Kart's words and JSON.

What is counted comes ready: this only puts it into words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from havasu_vc.model.diffs import ConflictCounts, MergeContext
from havasu_vc.records import dataclass
from havasu_vc.writers.commits import ABBREVIATED
from havasu_vc.writers.conflicts import (
    NEXT_STEPS,
    context_line,
    context_object,
    count_lines,
    counts_object,
)
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary
from havasu_vc.writers.terminal import printable, styled

__all__ = [
    "RepositoryStatus",
    "Upstream",
    "format_status",
    "status_object",
    "summary_lines",
    "summary_object",
]

_COUNTS = ("inserts", "updates", "deletes")
_HIDDEN = "spatialFilterConflicts"
_WORDS = {_HIDDEN: "spatial filter conflicts"}


@dataclass(frozen=True, slots=True)
class Upstream:
    """How the branch stands to the one that it follows."""

    branch: str
    """Such as `origin/main`."""
    ahead: int = 0
    """Commits that only the branch has."""
    behind: int = 0
    """Commits that only the other has."""


@dataclass(frozen=True, slots=True)
class RepositoryStatus:
    """Where HEAD is and what is not committed."""

    commit: str | None
    """40 hex digits; None before the first commit."""
    branch: str | None
    """The branch that HEAD is on; None when it is detached."""
    upstream: Upstream | None = None
    """The branch that it follows."""
    changes: ChangeSummary | None = None
    """Changes that are not committed; None where there is no working copy. While a merge waits,
    those made since."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """Working copies as JSON values, by name."""
    left_out: Sequence[str] = ()
    """Datasets that the settings leave out of the working copy."""
    untracked: Sequence[str] | None = None
    """Tables of the working copy that are no dataset; None where that is not asked."""
    nowhere: bool = False
    """Whether it is to be said that there is no working copy, nor can be one."""
    unread: bool = False
    """Whether a part of the working copy could not be looked at."""
    spatial_filter: Mapping[str, str] | None = None
    """The area that the working copy is limited to, as JSON values; None for none."""
    limits: str | None = None
    """The same for a person, in a line."""
    kind: str = "merge"
    """The command that concludes what waits."""
    merging: MergeContext | None = None
    """The commits of the merge that waits for its conflicts; None when none does."""
    conflicts: Mapping[str, ConflictCounts] = field(default_factory=dict)
    """Counts of that merge's conflicts that are not resolved, by dataset."""


def status_object(status: RepositoryStatus) -> dict[str, Any]:
    """Return the status as Kart's JSON, `kart.status/v2`."""
    upstream = status.upstream
    working_copy = None
    if status.changes is not None:
        working_copy = {
            "parts": dict(status.parts),
            "changes": summary_object(status.changes),
            "nonCheckoutDatasets": list(status.left_out),
        }
        if status.untracked is not None:
            working_copy["untrackedTables"] = list(status.untracked)
    value: dict[str, Any] = {
        "commit": status.commit,
        "abbrevCommit": status.commit and status.commit[:ABBREVIATED],
        "branch": status.branch,
        "upstream": upstream
        and {"branch": upstream.branch, "ahead": upstream.ahead, "behind": upstream.behind},
        "spatialFilter": None if status.spatial_filter is None else dict(status.spatial_filter),
    }
    if status.merging is None:
        value["workingCopy"] = working_copy
    else:
        value["merging"] = context_object(status.merging)
        value["conflicts"] = counts_object(status.conflicts)
        value["state"] = "merging"
        if working_copy is not None:
            value["workingCopy"] = working_copy
    return {"kart.status/v2": value}


def summary_object(changes: ChangeSummary) -> dict[str, Any]:
    """Return numbers of meta items and rows by dataset, in Kart's form."""
    return {path: dict(_parts(summary)) for path, summary in changes.datasets.items()}


def _parts(summary: DatasetSummary) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield the kinds of items that changed, with how many of each."""
    for name, counts, hidden in (
        ("meta", summary.meta, 0),
        ("feature", summary.features, summary.hidden),
    ):
        numbers = {each: getattr(counts, each) for each in _COUNTS}
        numbers["updates"] -= hidden
        numbers[_HIDDEN] = hidden
        if any(numbers.values()):
            yield name, {what: count for what, count in numbers.items() if count}


def format_status(status: RepositoryStatus, *, color: bool = False) -> str:
    """Return the status for a person."""
    if status.commit is None:
        limits = "" if status.limits is None else f"\n{status.limits}\n"
        return f'Empty repository.\n  (use "havasu-vc import" to add some data)\n{limits}'
    if status.branch is None:
        head = f"{styled('HEAD detached at', 'red', color)} {status.commit[:ABBREVIATED]}"
    else:
        head = f"On branch {printable(status.branch)}"
    lines = [head, *_upstream_lines(status.upstream), ""]
    if status.limits is not None:
        lines += [status.limits, ""]
    if status.left_out:
        lines += [
            "User configuration prevents the following datasets from being checked out",
            "  (to overturn, use `havasu-vc checkout --dataset=DATASET`):",
            *map(printable, status.left_out),
            "",
        ]
    if status.merging is not None:
        merging = _merging_lines(status.merging, status.conflicts)
        lines += (
            line.replace("merge --", f"{status.kind} --").replace(
                "this merge", f"this {status.kind}"
            )
            for line in merging
        )
        if status.changes is not None and status.changes.has_changes:
            lines += ["", "Changes in working copy since the merge began:", ""]
            lines += summary_lines(status.changes)
    elif status.nowhere:
        lines += ["No working copy", '  (use "havasu-vc checkout" to create a working copy)', ""]
    elif status.changes is None:
        lines.append("Nothing to commit")
    elif not status.changes.has_changes:
        lines.append(
            "Nothing to commit in what could be read"
            if status.unread
            else "Nothing to commit, working copy clean"
        )
    else:
        lines += [
            "Changes in working copy:",
            '  (use "havasu-vc commit" to commit)',
            '  (use "havasu-vc restore" to discard changes)',
            "",
        ]
        lines += summary_lines(status.changes)
    return "\n".join(lines) + "\n"


def _merging_lines(context: MergeContext, conflicts: Mapping[str, ConflictCounts]) -> Iterator[str]:
    yield 'Repository is in "merging" state.'
    yield context_line(context)
    if conflicts:
        yield from ("Conflicts:", "", *count_lines(conflicts), *NEXT_STEPS)
    else:
        yield "No conflicts!"
        yield "Use `havasu-vc merge --continue` to complete the merge"


def summary_lines(changes: ChangeSummary) -> Iterator[str]:
    """Yield how much of each dataset changed, indented by two."""
    for path, summary in changes.datasets.items():
        yield f"  {printable(path)}:"
        for name, counts in _parts(summary):
            yield f"    {name}:"
            yield from (f"      {n} {_WORDS.get(what, what)}" for what, n in counts.items())


def _upstream_lines(upstream: Upstream | None) -> Iterator[str]:
    if upstream is None:
        return
    name, ahead, behind = printable(upstream.branch), upstream.ahead, upstream.behind
    if ahead and behind:
        yield f"Your branch and '{name}' have diverged,"
        yield f"and have {ahead} and {behind} different commits each, respectively."
        yield '  (use "havasu-vc pull" to merge the remote branch into yours)'
    elif ahead:
        yield f"Your branch is ahead of '{name}' by {_commits(ahead)}."
        yield '  (use "havasu-vc push" to publish your local commits)'
    elif behind:
        yield f"Your branch is behind '{name}' by {_commits(behind)}, and can be fast-forwarded."
        yield '  (use "havasu-vc pull" to update your local branch)'
    else:
        yield f"Your branch is up to date with '{name}'."


def _commits(count: int) -> str:
    return f"{count} commit" if count == 1 else f"{count} commits"
