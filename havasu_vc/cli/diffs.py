"""Printing a diff as `diff`, `show` and `create-patch` do: options, format, file, exit code.

`-o` and `--json-style` choose the writer, `--output` the file; the exit code is 1 for
differences with `--exit-code` or `-o quiet`, as in git and Kart.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from havasu_vc.cli.arguments import parse_format
from havasu_vc.cli.as_kart import is_called_kart, is_in_karts_place
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.diffs import (
    as_kart_writes,
    crs_as_kart,
    files_as_kart,
    refuse_as_kart,
)
from havasu_vc.cli.options import JSON_STYLES, OUTPUT_FILE, DiffForm, engine_option
from havasu_vc.cli.output import Readable, folder_for_geojson, opened_output, require_file
from havasu_vc.cli.pager import paged_output
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.errors import HavasuError, InvalidArgumentError
from havasu_vc.model.commits import CommitInfo
from havasu_vc.model.diffs import DatasetDiff
from havasu_vc.records import dataclass
from havasu_vc.writers import WRITERS, JsonStyle, WriterOptions, writer_named
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.library import Repo

__all__ = ["DiffOptions", "check_terminal", "diff_options", "print_diff", "summary_options"]

_F = TypeVar("_F", bound=Callable[..., Any])
_R = TypeVar("_R")


def _values(name: str) -> tuple[str, ...]:
    """Return the values of `-o` that mean a format."""
    return (name, *(f"{name}:{style}" for style in JSON_STYLES if WRITERS[name].styles))


_BY_VALUE = {name: _values(name) for name, known in WRITERS.items() if known.chosen_by == "-o"}
FORMATS = tuple(chain.from_iterable(_BY_VALUE.values()))
SUMMARIES = {name: known for name, known in WRITERS.items() if known.chosen_by == f"--{name}"}
"""Formats that are options as in git."""
HALVES = ("--", "-", "+", "++")
ESTIMATES = ("veryfast", "fast", "medium", "good", "exact")


@dataclass(frozen=True, slots=True)
class DiffOptions:
    """How a diff is to be printed, as the person asked for it."""

    output_format: str = "text"
    """The form of what is printed, perhaps with the layout of JSON."""
    summary: str | None = None
    """One of git's options that print less than rows."""
    output: Path | None = None
    """Write to FILE instead of stdout."""
    json_style: str | None = None
    """How JSON is laid out."""
    exit_code: bool = False
    """Exit with 1 if there are differences."""
    crs: str | None = None
    """Show geometries in this CRS."""
    only_feature_count: str | None = None
    """Print only how many rows differ in each dataset; always exact here."""
    add_feature_count_estimate: str | None = None
    """With json-lines, tell at the end how many rows differ; always exact here."""
    diff_format: str = "full"
    """Leave row changes out (no-data-changes), or all changes (none)."""
    delta_filter: str | None = None
    """Print only these halves of changes, of --,-,+,++ with commas between."""
    diff_files: bool = False
    """Show what files beside the datasets of a Kart repository hold, not only their ids."""
    html_template: Path | None = None
    """With html, a page by a template such as Kart has them."""
    color: str = "auto"
    """When to colour text."""

    @property
    def tells_moves(self) -> bool:
        """Whether a dataset that was moved is told as one."""
        return WRITERS[_writer(self)[0]].moves


def diff_options(function: Callable[..., _R]) -> Callable[..., _R]:
    """Hand what prints a diff its `options`, a `DiffOptions`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def summary_options(parameter: str) -> Callable[[_F], _F]:
    """Add git's options that print less than rows, as values of one parameter."""

    def add(function: _F) -> _F:
        for name, known in reversed(SUMMARIES.items()):
            option = click.option(f"--{name}", parameter, flag_value=name, help=known.help)
            function = option(function)
        return function

    return add


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    takes(
        DiffOptions,
        "options",
        whole=True,
        output_format=Spelt(
            "-o --output-format",
            metavar="FORMAT",
            type=DiffForm(FORMATS),
            show_default=True,
            help="; ".join(
                f"{', '.join(values)}: {WRITERS[name].help.removesuffix('.')}"
                for name, values in _BY_VALUE.items()
            )
            + ".",
        ),
        summary=Spelt(flags={name: known.help for name, known in SUMMARIES.items()}),
        output=Spelt(metavar="FILE", type=OUTPUT_FILE),
        json_style=Spelt(type=click.Choice(JSON_STYLES)),
        crs=Spelt(metavar="CRS"),
        only_feature_count=Spelt(type=click.Choice(ESTIMATES), alone="exact"),
        add_feature_count_estimate=Spelt(type=click.Choice(ESTIMATES)),
        diff_format=Spelt(
            type=click.Choice(("full", "no-data-changes", "none")), show_default=True
        ),
        delta_filter=Spelt(metavar="HALVES"),
        html_template=Spelt(metavar="FILE", type=click.Path(path_type=Path, dir_okay=False)),
        color=Spelt(type=click.Choice(("auto", "always", "never")), show_default=True),
    ),
    click.option(
        "--sort-keys/--no-sort-keys",
        default=True,
        expose_value=False,
        help="Nothing: rows come in order of their keys, which costs no memory here.",
    ),
    engine_option,
)


def print_diff(
    invocation: Invocation,
    repo: Repo,
    diffs: Iterable[DatasetDiff],
    options: DiffOptions,
    *,
    commit: CommitInfo | None = None,
    revisions: tuple[str, Sequence[str]] = ("", ()),
    with_files: bool = False,
) -> int:
    """Print a diff and return the exit code; `revisions` and filters are what it is of.

    `with_files` adds files beside datasets, if they are told of in this format.
    """
    name, style = _writer(options)
    if name == "page" and options.output is None and is_called_kart():
        options = replace(options, output=repo.path / KARTS_PAGE)
    if commit is not None and not (options.output is None and sys.stdout.isatty()):
        commit = replace(commit, refs=())  # as git, which names them to people alone
    options = _as_kart(options, name)
    how = as_kart_writes(_writer_options(options, style, commit), name)
    if name == "page":
        how = _page_options(repo, options, how, commit, revisions[0])
    known = WRITERS[name]
    if known.reviews:
        how = _review_options(repo, options, how, revisions)
    if with_files and known.files and _prints_files(options, name):
        files = repo.file_changes(*revisions, contents=options.diff_files)
        how = replace(how, files=files_as_kart(files))
    seen = _Seen()
    readable = Readable(diffs)
    diffs = readable
    as_kart = name in ("json", "json-lines") and repo.git.follows_kart
    if as_kart and options.diff_format == "no-data-changes":
        shown: Iterable[DatasetDiff] = diffs
        how = replace(how, data_changes=True)
    elif options.diff_format == "full":
        shown = diffs
    else:
        shown = seen.reduce(diffs, options.diff_format)
        how = replace(
            how, header_alone=as_kart and name == "json" and options.diff_format == "none"
        )
    check_terminal(name, options.output)
    if options.output is None:
        how = replace(how, color=invocation.colored(sys.stdout, options.color))
        with paged_output(repo.git, wanted=invocation.pager and name != "quiet") as out:
            summary = writer_named(name)(shown, out, how)
    elif name == "geojson" and folder_for_geojson(
        options.output, as_kart=is_in_karts_place(repo.git)
    ):
        summary = writer_named(name)(shown, sys.stdout, replace(how, directory=options.output))
    else:
        require_file(options.output, name, as_kart=is_in_karts_place(repo.git))
        with opened_output(options.output) as out:
            summary = writer_named(name)(shown, out, how)
    readable.finish(invocation)
    _finish(repo, name, options.output, readable)
    differs = summary.has_changes or seen.changes or bool(how.files) or readable.differs
    return 1 if differs and (options.exit_code or name == "quiet") else 0


def _as_kart(options: DiffOptions, form: str) -> DiffOptions:
    """Return what Kart heeds of options: numbers go to stdout, and nothing into a file."""
    if not is_called_kart():
        return options
    if options.only_feature_count is not None:
        options = replace(options, output=None, diff_format="full")
    return replace(options, output=None) if form == "quiet" else options


def _prints_files(options: DiffOptions, form: str) -> bool:
    """Whether files beside datasets are told of; without rows, Kart tells of them in JSON alone."""
    minimal = options.diff_format == "no-data-changes" and is_called_kart()
    return options.diff_format != "none" and (form == "json" or not minimal)


def check_terminal(name: str, output: Path | None) -> None:
    """Refuse to print on a terminal what nobody reads there."""
    if output is None and sys.stdout.isatty() and not WRITERS[name].terminal:
        raise click.UsageError(f"{name} is not for a terminal: name a file with --output")


def _review_options(
    repo: Repo,
    options: DiffOptions,
    how: WriterOptions,
    revisions: tuple[str, Sequence[str]],
) -> WriterOptions:
    """Return what the writer of a review needs; between revisions it tells all that it knows."""
    from havasu_vc.review import ReviewOptions

    range_text, filters = revisions
    if ".." in range_text and options.diff_format == "full":
        review = repo.review_options(range_text, filters)
    else:
        review = ReviewOptions(revisions=range_text, filters=filters)
    return replace(review, delta_filter=how.delta_filter, crs_name=how.crs_name)


def _finish(repo: Repo, name: str, output: Path | None, shown: Readable) -> None:
    """Show a page, and name the items that differ, of which GeoJSON tells nothing."""
    _show_page(name, output)
    left_out = shown.meta if name == "geojson" and repo.git.follows_kart else {}
    for path, items in left_out.items():
        told = f"{path} meta changes aren't included in GeoJSON output: {', '.join(items)}"
        click.echo(f"Warning: {visible(told)}", err=True)


KARTS_PAGE = "DIFF.html"
"""Where Kart writes a page that is to be in no other file, and shows it in a browser."""


def _show_page(name: str, place: Path | None) -> None:
    """Open Kart's page in a browser where a person sits at a terminal."""
    if name == "page" and place is not None and place.name == KARTS_PAGE and sys.stdout.isatty():
        import webbrowser

        webbrowser.open(place.resolve().as_uri())


def _ends_as_kart(repo: Repo, range_text: str) -> str:
    """Return what a page is of; called `kart`, the commits that it is between."""
    old, dots, new = range_text.partition("...")
    if not is_called_kart() or ".." in f"{old}{new}":
        return range_text
    ends = (old, new if dots else "HEAD")
    try:
        ids = [each if each == "[EMPTY]" else _short(repo, each) for each in ends]
    except HavasuError:  # trees
        return range_text
    return " ... ".join(ids)


def _short(repo: Repo, revision: str) -> str:
    return repo.commit_info(revision or "HEAD").id[:ABBREVIATED]


def _page_options(
    repo: Repo, options: DiffOptions, how: WriterOptions, commit: CommitInfo | None, range_text: str
) -> WriterOptions:
    """Return what the writer of a page needs: all datasets in one system, by default degrees."""
    if options.diff_format != "full":
        raise click.UsageError("a page of HTML holds full diffs alone")
    if how.reproject is None:
        from havasu_vc.looking import reprojection

        how = replace(how, reproject=reprojection("EPSG:4326")[1])
    what = commit.id[:ABBREVIATED] if commit is not None else _ends_as_kart(repo, range_text)
    how = replace(how, json_style=JsonStyle.COMPACT)
    title = f"{(repo.git.work_tree or repo.path).name}: {what}"
    return replace(how, template=options.html_template, title=title)


def _writer_options(options: DiffOptions, style: str, commit: CommitInfo | None) -> WriterOptions:
    how = WriterOptions(
        as_kart=is_called_kart(),
        json_style=JsonStyle(style),
        commit=commit,
        delta_filter=parse_halves(options.delta_filter),
        counts_at_end=options.add_feature_count_estimate,
    )
    if options.crs is None:
        return how
    from havasu_vc.looking import reprojection

    crs, reproject = reprojection(crs_as_kart(options.crs))
    return replace(how, reproject=reproject, crs_name=crs.identifier)


def _writer(options: DiffOptions) -> tuple[str, str]:
    name, style = parse_format(options.output_format, options.json_style)
    refuse_as_kart(name, options.only_feature_count, options.diff_format)
    if name != "html" and options.html_template is not None:
        raise click.UsageError("--html-template goes with -o html")
    if name == "html" and (options.html_template is not None or is_called_kart()):
        name = "page"
    if options.summary is not None:
        if name != "text" or options.only_feature_count is not None:
            raise InvalidArgumentError(f"--{options.summary} is a form of its own")
        name = options.summary
    if options.only_feature_count is not None:
        if name not in ("text", "json", "feature-count"):
            raise InvalidArgumentError(f"--only-feature-count cannot be printed as {name}")
        name = "feature-count-json" if name == "json" else "feature-count"
    return name, style


def parse_halves(text: str | None) -> frozenset[str] | None:
    """Return the halves that `--delta-filter` names.

    >>> sorted(parse_halves("+,++"))
    ['+', '++']
    >>> parse_halves("all") == frozenset(HALVES)
    True
    """
    if text is None:
        return None
    parts = text.split(",") if is_called_kart() else map(str.strip, text.split(","))
    halves = frozenset(filter(None, parts))
    if {half.lower() for half in halves} == {"all"}:
        return frozenset(HALVES)
    unknown = halves.difference(HALVES)
    if unknown:
        raise InvalidArgumentError(
            f"{min(unknown)!r} is no half of a change", hints=(f"halves are {', '.join(HALVES)}",)
        )
    return halves


class _Seen:
    """Whether there were changes, printed or not."""

    def __init__(self) -> None:
        self.changes = False

    def reduce(self, diffs: Iterable[DatasetDiff], diff_format: str) -> Iterator[DatasetDiff]:
        """Yield diffs without their row changes, or none."""
        for diff in diffs:
            self.changes = self.changes or bool(diff.meta) or any(map(len, diff.changes))
            if diff_format == "no-data-changes":
                yield replace(diff, changes=iter(()))
