"""`havasu-vc log`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TextIO

import click

from havasu_vc.cli.arguments import parse_names
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.diffs import summary_options
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import RevisionCommand, format_option, style_option
from havasu_vc.cli.pager import paged_output
from havasu_vc.cli.passthrough import show_git
from havasu_vc.cli.revisions import revisions_and_filters
from havasu_vc.library import Repo
from havasu_vc.writers import JsonStyle, WriterOptions, writer_named
from havasu_vc.writers.commits import write_log, write_log_json, write_log_json_lines

if TYPE_CHECKING:
    from havasu_vc.model.commits import CommitInfo

__all__ = ["command"]


@click.command("log", cls=RevisionCommand)
@click.argument(
    "arguments", metavar="[REVISIONS] [FILTER...]", nargs=-1, shell_complete=complete_revisions
)
@format_option("text", "json", "json-lines")
@style_option
@click.option(
    "--decorate",
    is_flag=False,
    flag_value="short",
    type=click.Choice(("short", "full", "auto", "no")),
    help="Whether text names the refs at commits; auto does on a terminal. log.decorate sets it.",
)
@click.option("--no-decorate", "decorate", flag_value="no", help="The same as --decorate=no.")
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
@click.option("--grep", metavar="PATTERN", help="Only commits whose message matches.")
@click.option(
    "--columns",
    metavar="COLUMN,...",
    multiple=True,
    help="Only commits that changed cells of these columns.",
)
@click.option("-p", "--patch", "form", flag_value="text", help="Print what each changed, too.")
@summary_options("form")
@click.pass_context
def command(
    context: click.Context,
    arguments: tuple[str, ...],
    output_format: str,
    json_style: str,
    decorate: str | None,
    oneline: bool,
    graph: bool,
    max_count: int | None,
    skip: int,
    since: str | None,
    until: str | None,
    author: str | None,
    grep: str | None,
    columns: tuple[str, ...],
    form: str | None,
) -> int:
    """Show the commits that lead to a revision, or those of A..B.

    A filter leaves only the commits that changed something: DATASET, DATASET:feature,
    DATASET:feature:KEY, DATASET:meta, DATASET:meta:ITEM.
    """
    invocation: Invocation = context.obj
    repo = invocation.open_repo(rows=False)
    revisions, filters = revisions_and_filters(context, repo, arguments)
    revision = revisions[0] if revisions else "HEAD"
    if graph:
        if output_format != "text" or columns:
            raise click.UsageError("--graph prints text of datasets; leave -o and --columns out")
        told = {"skip": skip, "since": since, "until": until, "author": author, "grep": grep}
        options = [f"--{name}={value}" for name, value in told.items() if value]
        options += [f"--max-count={max_count}"] if max_count is not None else []
        options += [f"--decorate={decorate}"] if decorate is not None else []
        return _graph(invocation, repo, revision, filters, [*options, *["--oneline"] * oneline])
    if form is not None and (output_format != "text" or oneline):
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
        grep=grep,
        columns=names or (),
        full_refs=decorate == "full",
    )
    if output_format == "text" and not _decorated(decorate):
        commits = (replace(info, refs=()) for info in commits)
    color = invocation.colored(sys.stdout)
    with paged_output(repo.git, wanted=invocation.pager) as out:
        match output_format:
            case "json":
                write_log_json(commits, out, JsonStyle(json_style))
            case "json-lines":
                write_log_json_lines(commits, out)
            case _ if form is not None:
                _write_changes(repo, commits, out, (form, filters), color=color)
            case _:
                write_log(commits, out, oneline=oneline, color=color)
    return 0


def _setting(repo: Repo) -> str:
    """Return what git's own setting says of the refs at commits."""
    value = repo.git.git("config", "--get", "log.decorate", check=False).text.strip()
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
    color: bool,
) -> None:
    """Print commits, and below each what it changed of the datasets that filters name."""
    form, filters = wanted
    write = writer_named(form)
    for place, info in enumerate(commits):
        if place:
            out.write("\n")
        # Before a dataset was moved its changes are those of another path.
        there = {path for end in (info.id, f"{info.id}^?") for path in repo.datasets(end)}
        named = all(_dataset_of(text) in there for text in filters)
        _, diffs = repo.show(info.id, filters if named else ())
        write(diffs, out, WriterOptions(commit=info, color=color))


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
