"""What `log` prints of commits besides git's text: numbers for JSON, and forms that git knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import JSON_STYLES
from havasu_vc.cli.passthrough import show_git
from havasu_vc.cli.results import counts_object
from havasu_vc.model.changes import count_changes

if TYPE_CHECKING:
    from havasu_vc.library import Repo
    from havasu_vc.model.commits import CommitInfo

__all__ = ["LogForm", "more_of_commits", "print_by_git"]

_AT_ONCE = 500


class LogForm(click.ParamType[tuple[str, str]]):
    """`text`, `json` or `json-lines`; `text:FORMAT` as git's `--format`, `json:STYLE`."""

    name = "form"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """Return the form, and what is said of it."""
        if isinstance(value, tuple):
            return value
        form, _, more = str(value).partition(":")
        if form not in ("text", "json", "json-lines"):
            self.fail(f"{value!r} is not one of text, text:FORMAT, json, json-lines", param, ctx)
        if form == "json" and more and more not in JSON_STYLES:
            self.fail(f"JSON is laid out {', '.join(JSON_STYLES)}, not {more!r}", param, ctx)
        return form, more


def more_of_commits(
    repo: Repo, *, datasets: bool, rows: bool, kinds: bool
) -> Callable[[CommitInfo], dict[str, Any]] | None:
    """Return what tells of a commit what it changed, under Kart's names; None where nothing is."""
    if not (datasets or rows or kinds):
        return None

    def more(commit: CommitInfo) -> dict[str, Any]:
        _, diffs = repo.show(commit.id)
        differing, counts = [], {}
        for diff in diffs:
            changes = count_changes(diff.changes) if rows or kinds else None
            differing.append(diff.path)
            if changes is not None and changes.total:
                counts[diff.path] = changes
        found: dict[str, Any] = {"datasetChanges": sorted(differing)} if datasets else {}
        if rows:
            found["featureChanges"] = {path: each.total for path, each in counts.items()}
        if kinds:
            found["featureChangeCounts"] = {
                path: counts_object(each) for path, each in counts.items()
            }
        return found

    return more


def print_by_git(
    invocation: Invocation, repo: Repo, commits: Iterator[CommitInfo], options: list[str]
) -> int:
    """Print commits as git does by options of its own."""
    code = 0
    while batch := [commit.id for commit in islice(commits, _AT_ONCE)]:
        arguments = ["log", "--no-walk=unsorted", *options, *batch, "--"]
        code = show_git(arguments, repo.git, color=False, pager=invocation.pager)
        if code:
            break
    return code
