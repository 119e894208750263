"""`havasu-vc log`.

What `log` prints of commits besides git's text: numbers for JSON, and forms that git knows.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from havasu_vc.cli.arguments import revisions_and_filters
from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.diffs import ESTIMATES, summary_options
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.filters import refuse_keys_of_patterns
from havasu_vc.cli.kart.logs import Count, at_most, people_named, skipped, words_named
from havasu_vc.cli.options import JSON_STYLES, RevisionCommand, output_option, style_option
from havasu_vc.cli.output import opened_output
from havasu_vc.cli.pager import paged_output
from havasu_vc.cli.passthrough import show_git
from havasu_vc.cli.requests import NAMES, Spelt, takes
from havasu_vc.cli.results import counts_object
from havasu_vc.errors import DatasetNotFoundError, InvalidArgumentError, RevisionNotFoundError
from havasu_vc.library import Repo
from havasu_vc.looking import LogRequest
from havasu_vc.records import dataclass
from havasu_vc.writers import WRITERS, JsonStyle, WriterOptions, writer_named
from havasu_vc.writers.commits import (
    format_oneline,
    write_log,
    write_log_json,
    write_log_json_lines,
)

if TYPE_CHECKING:
    from havasu_vc.model.commits import CommitInfo
    from havasu_vc.model.diffs import DatasetDiff

__all__ = ["LogForm", "command", "more_of_commits", "print_by_git"]

_AT_ONCE = 500
_PEOPLE = Spelt(metavar="PATTERN", multiple=True, parse=people_named)
_REFS = Spelt(metavar="PATTERN")


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
        if form in ("json", "json-lines") and more and more not in JSON_STYLES:
            self.fail(f"JSON is laid out {', '.join(JSON_STYLES)}, not {more!r}", param, ctx)
        return form, more


def more_of_commits(
    repo: Repo, *, datasets: bool, rows: bool, kinds: bool
) -> Callable[[CommitInfo], dict[str, Any]] | None:
    """Return what tells of a commit what it changed, under Kart's names; None where nothing is."""
    if not (datasets or rows or kinds):
        return None

    from havasu_vc.model.changes import count_changes

    def more(commit: CommitInfo) -> dict[str, Any]:
        _, diffs = repo.show(commit.id)
        counts = repo.tiles_changed(commit.id)
        differing = list(counts)
        for diff in diffs:
            changes = count_changes(diff.changes) if rows or kinds else None
            if changes is not None and is_called_kart():
                changes += diff.left_out  # Kart counts what its spatial filter hides as well
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


@dataclass(frozen=True, slots=True)
class _Printing:
    """How commits are to be printed, as the person asked for it."""

    output_format: tuple[str, str] = ("text", "")
    """One of text, the default, text:FORMAT, as git log has it, json, json-lines."""
    decorate: str | None = None
    """Whether text names the refs at commits; auto does on a terminal. log.decorate sets it."""
    no_decorate: bool = False
    """The same as --decorate=no."""
    oneline: bool = False
    """Print each commit on one line."""
    graph: bool = False
    """Draw how commits follow each other; git does it."""
    dataset_changes: bool = False
    """In JSON, the datasets that each changed."""
    with_feature_count: str | None = None
    """In JSON, how many rows of each dataset each changed; always exact here."""
    with_change_counts: bool = False
    """In JSON, inserts, updates, deletes."""
    pretty: str | None = None
    """Print commits as `git log --format` does: %h %an %s, medium, fuller, reference ..."""
    date: str | None = None
    """With --format, how dates look: iso, relative ..."""
    follow: bool = False
    """As ever: a dataset is followed where it was moved."""

    @property
    def form(self) -> str:
        """The form alone."""
        return self.output_format[0]

    @property
    def style(self) -> str:
        """The format by which git prints commits, or the layout of JSON."""
        return self.output_format[1] if self.pretty is None else self.pretty

    def check(self) -> None:
        """Refuse options that do not go together."""
        form, style = self.output_format
        if self.pretty is not None and (form != "text" or style or self.oneline):
            raise click.UsageError("--format prints text; leave -o and --oneline out")
        if self.date is not None and self.pretty is None:
            raise click.UsageError("--date goes with --format")
        counted = self.dataset_changes or self.with_feature_count or self.with_change_counts
        if is_called_kart() and self.with_feature_count:
            # Kart leaves it out of a text, and refuses the other alone.
            counted = self.dataset_changes or self.with_change_counts
        if form == "text" and counted:
            raise click.UsageError("what commits changed is counted in -o json and json-lines")


@click.command("log", cls=RevisionCommand)
@click.argument(
    "arguments", metavar="[REVISIONS] [FILTER...]", nargs=-1, shell_complete=complete_revisions
)
@takes(
    LogRequest,
    limit=Spelt("-n --max-count", metavar="N", type=Count(0), parse=at_most),
    skip=Spelt(metavar="N", type=Count(0), parse=skipped),
    since=Spelt("--since --after", metavar="DATE"),
    until=Spelt("--until --before", metavar="DATE"),
    author=_PEOPLE,
    committer=_PEOPLE,
    grep=Spelt(metavar="PATTERN", multiple=True, parse=words_named),
    decorate_refs=_REFS,
    decorate_refs_exclude=_REFS,
    columns=NAMES,
    holds=Spelt("-S", metavar="VALUE"),
    matches=Spelt("-G", metavar="REGEX"),
    merges=Spelt("--merges/--no-merges"),
    every_ref=Spelt("--all"),
    without=("revision", "filters", "box", "full_refs", "also"),
)
@takes(
    _Printing,
    "printing",
    whole=True,
    output_format=Spelt("-o --output-format", metavar="FORMAT", type=LogForm()),
    decorate=Spelt(type=click.Choice(("short", "full", "auto", "no")), alone="short"),
    with_feature_count=Spelt(type=click.Choice(ESTIMATES)),
    pretty=Spelt("--format --pretty", metavar="FORMAT"),
    date=Spelt(metavar="FORMAT"),
)
@style_option
@output_option
@click.option("-p", "--patch", "form", flag_value="text", help="Print what each changed, too.")
@summary_options("form")
@click.pass_context
def command(
    context: click.Context,
    /,
    request: LogRequest,
    printing: _Printing,
    arguments: tuple[str, ...],
    json_style: str,
    output: Path | None,
    form: str | None,
) -> int:
    """Show the commits of a revision, of A..B, or of several together; without those of ^C.

    A filter leaves only the commits that changed something: DATASET, DATASET:feature,
    DATASET:feature:KEY, DATASET:meta, DATASET:meta:ITEM; * in DATASET stands for anything.
    """
    invocation: Invocation = context.obj
    printing.check()
    repo = invocation.open_repo(rows=False)
    most = max(len(arguments), 1)
    revisions, filters = revisions_and_filters(context, repo, arguments, most=most)
    first, *also = revisions or ("HEAD",)
    request = replace(request, revision=first, also=also, filters=filters)
    decorate = "no" if printing.no_decorate else printing.decorate
    if printing.graph:
        return _graph(invocation, repo, request, printing, decorate, form)
    if form is not None and (printing.form != "text" or printing.style):
        raise click.UsageError("what commits changed is printed below each as text")
    decorate = decorate or _setting(repo)
    commits = _commits(repo, replace(request, full_refs=decorate == "full"))
    if filters:
        commits = _noting(invocation, commits, filters)
    if printing.form == "text" and printing.style:
        options = [f"--format={printing.style}", f"--decorate={decorate}", *_refs(request)]
        options += [] if printing.date is None else [f"--date={printing.date}"]
        return print_by_git(invocation, repo, commits, options)
    commits = _begun(commits)
    if printing.form == "text" and not _decorated(decorate):
        commits = (replace(info, refs=()) for info in commits)
    with _opened(invocation, repo, output) as out:
        if printing.form == "text":
            color = output is None and invocation.colored(sys.stdout)
            if form is None:
                write_log(commits, out, oneline=printing.oneline, color=color)
            else:
                wanted = (form, request.filters)
                _write_changes(
                    invocation, repo, commits, out, wanted, oneline=printing.oneline, color=color
                )
            return 0
        more = more_of_commits(
            repo,
            datasets=printing.dataset_changes,
            rows=printing.with_feature_count is not None,
            kinds=printing.with_change_counts,
        )
        if printing.form == "json":
            write_log_json(commits, out, JsonStyle(printing.style or json_style), more)
        else:
            write_log_json_lines(commits, out, more)
    return 0


def _commits(repo: Repo, request: LogRequest) -> Iterator[CommitInfo]:
    """Yield commits; called kart, a row of what never was a dataset is one of nothing."""
    refuse_keys_of_patterns(request.filters)
    commits: Iterator[CommitInfo] = repo.log.by(request)
    if not is_called_kart():
        yield from commits
        return
    try:
        yield from _begun(commits)
    except RevisionNotFoundError as error:
        given = (request.revision, *request.also)
        text = next((each for each in given if error.revision in each), error.revision)
        raise InvalidArgumentError(f"fatal: bad revision '{text}'") from error
    except DatasetNotFoundError as error:
        # The name alone is that of a path, which no commit changed.
        named = {each: each.partition(":")[0] for each in request.filters}
        filters = [path if path == error.path else each for each, path in named.items()]
        if tuple(filters) == tuple(request.filters):
            raise
        yield from _commits(repo, replace(request, filters=filters))


def _begun(commits: Iterator[CommitInfo]) -> Iterator[CommitInfo]:
    """Return commits of which the first is found: an error stands alone, after no half of JSON."""
    first = next(commits, None)
    return iter(()) if first is None else chain((first,), commits)


def _noting(
    invocation: Invocation, commits: Iterator[CommitInfo], filters: Sequence[str]
) -> Iterator[CommitInfo]:
    """Yield commits; where there is none, note that filters leave none."""
    first = next(commits, None)
    if first is None:
        if not is_called_kart():
            invocation.note(f"no commit that was asked for changed {', '.join(filters)}")
        return
    yield first
    yield from commits


def _opened(
    invocation: Invocation, repo: Repo, output: Path | None
) -> AbstractContextManager[TextIO]:
    if output is None:
        return paged_output(repo.git, wanted=invocation.pager)
    return opened_output(output)


def _setting(repo: Repo) -> str:
    """Return what git's own setting says of the refs at commits."""
    value = repo.config.get("log.decorate") or ""
    known = {"true": "short", "false": "no", "short": "short", "full": "full", "no": "no"}
    return known.get(value.lower(), "auto")


def _decorated(decorate: str) -> bool:
    return decorate in ("short", "full") or (decorate == "auto" and sys.stdout.isatty())


def _write_changes(
    invocation: Invocation,
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
        diffs: Iterable[DatasetDiff] = ()
        # Before a dataset was moved its changes are those of another path.
        try:
            there = {path for end in (info.id, f"{info.id}^?") for path in repo.datasets(end)}
            named = all(_dataset_of(text) in there for text in filters)
            _, diffs = repo.show(info.id, filters if named else (), moves=WRITERS[form].moves)
        except RevisionNotFoundError as error:  # a shallow clone begins with it
            invocation.note(f"{error.reason or error.message}: {error.hints[0]}")
        write(diffs, out, WriterOptions(commit=None if oneline else info, color=color))


def _dataset_of(text: str) -> str:
    return text.partition(":")[0].strip("/")


def _refs(request: LogRequest) -> list[str]:
    """Return git's options for the refs that are named."""
    return [
        *(f"--decorate-refs={each}" for each in request.decorate_refs),
        *(f"--decorate-refs-exclude={each}" for each in request.decorate_refs_exclude),
    ]


def _graph(
    invocation: Invocation,
    repo: Repo,
    request: LogRequest,
    printing: _Printing,
    decorate: str | None,
    form: str | None,
) -> int:
    by_rows = request.columns or request.holds is not None or request.matches is not None
    if printing.form != "text" or by_rows:
        raise click.UsageError("--graph prints text of datasets; leave -o, --columns, -S, -G out")
    if any(":" in text for text in request.filters):
        raise click.UsageError("--graph can be limited to datasets only, not to parts of them")
    if form is not None:
        raise click.UsageError("--graph draws commits alone; leave -p, --stat and the like out")
    if request.reverse:
        raise click.UsageError("--graph is drawn from the newest; leave --reverse out")
    told = {
        "skip": request.skip,
        "since": request.since,
        "until": request.until,
        "author": request.author,
        "grep": request.grep,
        "committer": request.committer,
        "format": printing.style,
        "date": printing.date,
    }
    options = [f"--{name}={value}" for name, value in told.items() if value]
    options += ["--extended-regexp", *_refs(request)]
    options += [] if request.limit is None else [f"--max-count={request.limit}"]
    options += [] if decorate is None else [f"--decorate={decorate}"]
    if request.merges is not None:
        options.append("--merges" if request.merges else "--no-merges")
    options += ["--oneline"] * printing.oneline
    # The stash, which git would show too, is no branch.
    options += ["--branches", "--remotes", "--tags"] if request.every_ref else []
    color = invocation.colored(sys.stdout)
    arguments = ["log", "--graph", *options, request.revision, *request.also]
    arguments += ["--", *request.filters]
    return show_git(arguments, repo.git, color=color, pager=invocation.pager)
