"""`havasu-vc log`.

What `log` prints of commits besides git's text: numbers for JSON, and forms that git knows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from havasu_vc.cli.arguments import parse_names, revisions_and_filters
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.diffs import ESTIMATES, summary_options
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import JSON_STYLES, RevisionCommand, output_option, style_option
from havasu_vc.cli.output import opened_output
from havasu_vc.cli.pager import paged_output
from havasu_vc.cli.passthrough import show_git
from havasu_vc.cli.results import counts_object
from havasu_vc.library import Repo
from havasu_vc.model.changes import count_changes
from havasu_vc.writers import JsonStyle, WriterOptions, writer_named
from havasu_vc.writers.commits import (
    format_oneline,
    write_log,
    write_log_json,
    write_log_json_lines,
)

if TYPE_CHECKING:
    from havasu_vc.model.commits import CommitInfo

__all__ = ["LogForm", "command", "more_of_commits", "print_by_git"]

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
        counts = repo.tiles_changed(commit.id)
        differing = list(counts)
        for diff in diffs:
            changes = count_changes(diff.changes) if rows or kinds else None
            if diff.path not in counts:
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


@click.command("log", cls=RevisionCommand)
@click.argument(
    "arguments", metavar="[REVISIONS] [FILTER...]", nargs=-1, shell_complete=complete_revisions
)
@click.option(
    "-o",
    "--output-format",
    "output_format",
    metavar="FORMAT",
    type=LogForm(),
    default="text",
    show_default=True,
    help="One of text, text:FORMAT, where FORMAT is that of git log, json, json-lines.",
)
@style_option
@output_option
@click.option(
    "--decorate",
    is_flag=False,
    flag_value="short",
    type=click.Choice(("short", "full", "auto", "no")),
    help="Whether text names the refs at commits; auto does on a terminal. log.decorate sets it.",
)
@click.option("--no-decorate", is_flag=True, help="The same as --decorate=no.")
@click.option("--oneline", is_flag=True, help="Print each commit on one line.")
@click.option("--graph", is_flag=True, help="Draw how commits follow each other; git does it.")
@click.option(
    "-n", "--max-count", metavar="N", type=click.IntRange(0), help="Print at most so many."
)
@click.option(
    "--skip", metavar="N", type=click.IntRange(0), default=0, help="Leave the first so many out."
)
@click.option("--since", "--after", metavar="DATE", help="Only commits after DATE.")
@click.option("--until", "--before", metavar="DATE", help="Only commits before DATE.")
@click.option("--author", metavar="PATTERN", help="Only commits whose author matches.")
@click.option("--committer", metavar="PATTERN", help="Only commits whose committer matches.")
@click.option("--grep", metavar="PATTERN", help="Only commits whose message matches.")
@click.option(
    "--columns",
    metavar="COLUMN,...",
    multiple=True,
    help="Only commits that changed cells of these columns.",
)
@click.option("--dataset-changes", is_flag=True, help="In JSON, the datasets that each changed.")
@click.option(
    "--with-feature-count",
    type=click.Choice(ESTIMATES),
    help="In JSON, how many rows of each dataset each changed; always exact here.",
)
@click.option("--with-change-counts", is_flag=True, help="In JSON, inserts, updates, deletes.")
@click.option(
    "-S", "holds", metavar="VALUE", help="Only commits that changed a row which holds VALUE."
)
@click.option(
    "--format",
    "--pretty",
    "pretty",
    metavar="FORMAT",
    help="Print commits as `git log --format` does: %h %an %s, medium, fuller, reference ...",
)
@click.option("--date", metavar="FORMAT", help="With --format, how dates look: iso, relative ...")
@click.option("--follow", is_flag=True, help="As ever: a dataset is followed where it was moved.")
@click.option("-p", "--patch", "form", flag_value="text", help="Print what each changed, too.")
@summary_options("form")
@click.pass_context
def command(
    context: click.Context,
    arguments: tuple[str, ...],
    output_format: tuple[str, str],
    json_style: str,
    output: Path | None,
    decorate: str | None,
    no_decorate: bool,
    oneline: bool,
    graph: bool,
    max_count: int | None,
    skip: int,
    since: str | None,
    until: str | None,
    author: str | None,
    committer: str | None,
    grep: str | None,
    columns: tuple[str, ...],
    dataset_changes: bool,
    with_feature_count: str | None,
    with_change_counts: bool,
    holds: str | None,
    pretty: str | None,
    date: str | None,
    follow: bool,
    form: str | None,
) -> int:
    """Show the commits that lead to a revision, or those of A..B.

    A filter leaves only the commits that changed something: DATASET, DATASET:feature,
    DATASET:feature:KEY, DATASET:meta, DATASET:meta:ITEM.
    """
    invocation: Invocation = context.obj
    output_form, style = output_format
    if pretty is not None and (output_form != "text" or style or oneline):
        raise click.UsageError("--format prints text; leave -o and --oneline out")
    if date is not None and pretty is None:
        raise click.UsageError("--date goes with --format")
    style = style if pretty is None else pretty
    decorate = "no" if no_decorate else decorate
    if output_form == "text" and (dataset_changes or with_feature_count or with_change_counts):
        raise click.UsageError("what commits changed is counted in -o json and json-lines")
    repo = invocation.open_repo(rows=False)
    revisions, filters = revisions_and_filters(context, repo, arguments)
    revision = revisions[0] if revisions else "HEAD"
    if graph:
        if output_form != "text" or columns or holds is not None:
            raise click.UsageError("--graph prints text of datasets; leave -o, --columns, -S out")
        told = {"skip": skip, "since": since, "until": until, "author": author, "grep": grep}
        told |= {"committer": committer, "format": style, "date": date}
        options = [f"--{name}={value}" for name, value in told.items() if value]
        options += [f"--max-count={max_count}"] if max_count is not None else []
        options += [f"--decorate={decorate}"] if decorate is not None else []
        return _graph(invocation, repo, revision, filters, [*options, *["--oneline"] * oneline])
    if form is not None and (output_form != "text" or style):
        raise click.UsageError("what commits changed is printed below each as text")
    names = parse_names(columns)
    decorate = decorate or _setting(repo)
    commits: Iterator[CommitInfo] = repo.log(
        revision,
        filters=filters,
        limit=max_count,
        skip=skip,
        since=since,
        until=until,
        author=author,
        committer=committer,
        grep=grep,
        columns=names or (),
        holds=holds,
        full_refs=decorate == "full",
    )
    if output_form == "text" and style:
        options = [f"--format={style}", f"--decorate={decorate}"]
        options += [] if date is None else [f"--date={date}"]
        return print_by_git(invocation, repo, commits, options)
    if output_form == "text" and not _decorated(decorate):
        commits = (replace(info, refs=()) for info in commits)
    more = more_of_commits(
        repo,
        datasets=dataset_changes,
        rows=with_feature_count is not None,
        kinds=with_change_counts,
    )
    color = output is None and invocation.colored(sys.stdout)
    opened = (
        paged_output(repo.git, wanted=invocation.pager) if output is None else opened_output(output)
    )
    with opened as out:
        match output_form:
            case "json":
                write_log_json(commits, out, JsonStyle(style or json_style), more)
            case "json-lines":
                write_log_json_lines(commits, out, more)
            case _ if form is not None:
                _write_changes(repo, commits, out, (form, filters), oneline=oneline, color=color)
            case _:
                write_log(commits, out, oneline=oneline, color=color)
    return 0


def _setting(repo: Repo) -> str:
    """Return what git's own setting says of the refs at commits."""
    value = repo.config.get("log.decorate") or ""
    known = {"true": "short", "false": "no", "short": "short", "full": "full", "no": "no"}
    return known.get(value.lower(), "auto")


def _decorated(decorate: str) -> bool:
    return decorate in ("short", "full") or (decorate == "auto" and sys.stdout.isatty())


def _write_changes(
    repo: Repo,
    commits: Iterator[CommitInfo],
    out: TextIO,
    wanted: tuple[str, Sequence[str]],
    *,
    oneline: bool,
    color: bool,
) -> None:
    """Print commits, and below each what it changed of the datasets that filters name."""
    form, filters = wanted
    write = writer_named(form)
    for place, info in enumerate(commits):
        if oneline:
            out.write(format_oneline(info, color=color))
        elif place:
            out.write("\n")
        # Before a dataset was moved its changes are those of another path.
        there = {path for end in (info.id, f"{info.id}^?") for path in repo.datasets(end)}
        named = all(_dataset_of(text) in there for text in filters)
        _, diffs = repo.show(info.id, filters if named else ())
        write(diffs, out, WriterOptions(commit=None if oneline else info, color=color))


def _dataset_of(text: str) -> str:
    return text.partition(":")[0].strip("/")


def _graph(
    invocation: Invocation,
    repo: Repo,
    revision: str,
    filters: Sequence[str],
    options: Sequence[str],
) -> int:
    if any(":" in filter_text for filter_text in filters):
        raise click.UsageError("--graph can be limited to datasets only, not to parts of them")
    color = invocation.colored(sys.stdout)
    arguments = ["log", "--graph", *options, revision, "--", *filters]
    return show_git(arguments, repo.git, color=color, pager=invocation.pager)
