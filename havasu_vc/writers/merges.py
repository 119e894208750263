"""The outcome of a merge, made or tried, in Kart's words and JSON (`kart.merge/v1`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from havasu_vc.model.diffs import ConflictCounts, MergeContext, MergeSide
from havasu_vc.records import dataclass
from havasu_vc.writers.commits import ABBREVIATED
from havasu_vc.writers.conflicts import count_lines, counts_object
from havasu_vc.writers.terminal import printable

__all__ = ["MergeReport", "context_line", "context_object", "merge_lines", "merge_object"]

NEXT_STEPS = (
    "View conflicts with `havasu-vc conflicts` and resolve them with `havasu-vc resolve`.",
    "Once no conflicts remain, complete this merge with `havasu-vc merge --continue`.",
    "Or use `havasu-vc merge --abort` to return to the previous state.",
)
"""The next steps with conflicts."""


@dataclass(frozen=True, slots=True)
class MergeReport:
    """A merge, for telling of it."""

    kind: str
    """`up-to-date`, `fast-forward`, `conflicts`, or what the commit is: `merge`, `squash`, …"""
    commit: str | None
    """HEAD's commit after it; None when it would be a new one."""
    context: MergeContext
    """The commits that were merged."""
    message: str | None = None
    """The message of the commit."""
    conflicts: Mapping[str, ConflictCounts] = field(default_factory=dict)
    """Counts of conflicts that have to be resolved, by dataset."""
    dry_run: bool = False
    """Whether nothing was done."""
    waits: bool = True
    """Whether the merge waits for its conflicts."""


def context_object(context: MergeContext) -> dict[str, Any]:
    """Return the commits of a merge as Kart's JSON."""
    return {
        name: _side_object(side)
        for name, side in (
            ("ancestor", context.ancestor),
            ("ours", context.ours),
            ("theirs", context.theirs),
        )
    }


def _side_object(side: MergeSide) -> dict[str, str]:
    value = {"commit": side.commit, "abbrevCommit": side.commit[:ABBREVIATED]}
    return value if side.branch is None else {**value, "branch": side.branch}


def merge_object(report: MergeReport) -> dict[str, Any]:
    """Return a merge as Kart's JSON, `kart.merge/v1`."""
    commit = report.commit or ("(dryRun)" if report.dry_run else None)
    value: dict[str, Any] = {
        "commit": report.context.ours.commit if report.conflicts else commit,
        "branch": report.context.ours.branch,
        "merging": context_object(report.context),
        "message": report.message,
        "conflicts": counts_object(report.conflicts) or None,
        "dryRun": report.dry_run,
    }
    if report.kind == "up-to-date":
        value |= {"message": None, "noOp": True, "fastForward": True}
    elif report.kind == "fast-forward":
        value |= {"commit": report.context.theirs.commit, "fastForward": True}
    elif report.conflicts and report.waits:
        value["state"] = "merging"
    return {"kart.merge/v1": value}


def context_line(context: MergeContext) -> str:
    """Return what is merged into what."""
    theirs, ours = context.theirs, context.ours
    named = (
        f'branch "{printable(theirs.branch)}"'
        if theirs.branch is not None
        else theirs.commit[:ABBREVIATED]
    )
    return f"Merging {named} into {printable(ours.branch or ours.commit[:ABBREVIATED])}"


def merge_lines(report: MergeReport) -> list[str]:
    """Return a merge for a person."""
    return [context_line(report.context), *_outcome(report)]


def _outcome(report: MergeReport) -> list[str]:
    commit = report.commit or ""
    if report.kind == "up-to-date":
        return ["Already up to date"]
    if report.kind == "fast-forward":
        target = report.context.theirs.commit
        if report.dry_run:
            return [
                f"Can fast-forward to {target}",
                "(Not actually fast-forwarding due to --dry-run)",
            ]
        return [f"Fast-forwarded to {target}"]
    if not report.conflicts:
        if report.dry_run:
            return ["No conflicts: merge will succeed!", "(Not actually merging due to --dry-run)"]
        if report.kind == "empty":
            return ["No conflicts, and nothing to commit"]
        return ["No conflicts!", f"Merge committed as {commit}"]
    lines = ["Conflicts found:", "", *count_lines(report.conflicts)]
    if report.dry_run:
        return [*lines, "(Not actually merging due to --dry-run)"]
    if not report.waits:
        return [*lines, "Nothing was changed."]
    return [*lines, 'Repository is now in "merging" state.', *NEXT_STEPS]
