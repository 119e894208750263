"""`havasu-vc conflicts` and `resolve`: what a merge could not decide."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from havasu_vc.cli.arguments import parse_assignment, parse_format
from havasu_vc.cli.as_kart import in_karts_words, is_called_kart, is_in_karts_place
from havasu_vc.cli.counts import counted
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.diffs import crs_as_kart
from havasu_vc.cli.kart.filters import filters_of_edits
from havasu_vc.cli.options import JSON_STYLES, Command, DiffForm, json_option, output_option
from havasu_vc.cli.output import folder_for_geojson, opened_output, require_file
from havasu_vc.cli.pager import paged_output
from havasu_vc.errors import InvalidArgumentError, NoConflictError, NotYetSupportedError, StateError

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Resolved
    from havasu_vc.library import Repo
    from havasu_vc.model.diffs import ConflictedDataset

__all__ = ["conflicts", "resolve"]

FORMATS = (
    "text",
    "json",
    "json:pretty",
    "json:compact",
    "json:extracompact",
    "geojson",
    "geojson:pretty",
    "geojson:compact",
    "geojson:extracompact",
    "quiet",
)


@click.command("conflicts", cls=Command)
@click.argument("filters", metavar="[FILTER...]", nargs=-1)
@click.option(
    "-o",
    "--output-format",
    "output_format",
    metavar="FORMAT",
    type=DiffForm(FORMATS),
    default="text",
    show_default=True,
    help=f"One of {', '.join(FORMATS)}; quiet prints nothing and sets the exit code.",
)
@click.option(
    "-s",
    "--summarise",
    "--summarize",
    "summary",
    count=True,
    help="Only list what is in conflict; -ss only tells how many.",
)
@click.option(
    "--flat", is_flag=True, help="Name conflicts by their labels, those of all datasets together."
)
@click.option("--crs", metavar="CRS", help="Show geometries in this CRS.")
@output_option
@click.option("--json-style", type=click.Choice(JSON_STYLES), help="How JSON is laid out.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there are conflicts.")
@click.pass_obj
def conflicts(
    invocation: Invocation,
    filters: tuple[str, ...],
    output_format: str,
    summary: int,
    flat: bool,
    crs: str | None,
    output: Path | None,
    json_style: str | None,
    exit_code: bool,
) -> int:
    """Show the conflicts of a merge that wait to be resolved.

    A FILTER is DATASET, DATASET:feature, DATASET:feature:KEY, DATASET:meta or
    DATASET:meta:ITEM. Each row is shown as it was in the common ancestor and as it is on
    either side.
    """
    from havasu_vc.writers import JsonStyle, WriterOptions
    from havasu_vc.writers.conflicts import conflict_writer_named

    if flat and output_format.startswith("geojson") and not is_called_kart():
        raise click.UsageError("--flat is about labels, as text or JSON")
    name, style = parse_format(output_format, json_style)
    output = None if name == "quiet" and is_called_kart() else output
    summary = 0 if name == "geojson" and is_called_kart() else summary
    repo = invocation.open_repo()
    options = WriterOptions(json_style=JsonStyle(style), flat=flat, as_kart=is_called_kart())
    if crs is not None:
        from havasu_vc.looking import reprojection

        options = replace(options, reproject=reprojection(crs_as_kart(crs))[1])
    write = conflict_writer_named(name)
    found: Iterable[ConflictedDataset] = repo.view_conflicts(
        filters_of_edits(filters), by_key=name == "text" or bool(summary)
    )
    as_kart = is_in_karts_place(repo.git)
    if name == "geojson":
        if as_kart and output is None:
            _require_one(repo, filters)
        found = _without_meta(invocation, found)
    if output is None:
        how = replace(options, color=invocation.colored(sys.stdout))
        with paged_output(repo.git, wanted=invocation.pager and name != "quiet") as out:
            told = io.StringIO()
            counts = summary > 1 and name == "text"
            count = write(found, told if counts else out, how, summary)
            out.write(in_karts_words(told.getvalue()))
    elif name == "geojson" and folder_for_geojson(output, as_kart=as_kart):
        count = write(found, sys.stdout, replace(options, directory=output), summary)
    else:
        require_file(output, f"-o {name}", as_kart=as_kart)
        with opened_output(output) as out:
            count = write(found, out, options, summary)
    if not count and name == "text":
        last = "" if filters else "; `havasu-vc merge --continue` completes the merge"
        invocation.say(f"No conflicts{last}")
    return int((exit_code or name == "quiet") and (count > 0 or _anything_waits(repo)))


def _anything_waits(repo: Repo) -> bool:
    """Whether a conflict waits that was not asked for: Kart's exit code tells of all."""
    return is_called_kart() and any(repo.view_conflicts())


def _require_one(repo: Repo, filters: Sequence[str]) -> None:
    """Raise as Kart does where conflicts of several datasets would be one collection."""
    named = {each.partition(":")[0] for each in filters}
    one = len(named) == 1 and not any("*" in each for each in named)
    if not one and len(repo.datasets()) > 1:
        raise click.BadParameter(
            "Need to specify a directory via --output for GeoJSON with more than one dataset",
            param_hint="--output",
        )


def _without_meta(
    invocation: Invocation, datasets: Iterable[ConflictedDataset]
) -> Iterator[ConflictedDataset]:
    """Yield datasets, telling of conflicts that GeoJSON has no place for."""
    for each in datasets:
        if each.meta and is_called_kart():
            what = f"{visible(each.path)} meta changes aren't included in GeoJSON output."
            click.echo(f"Warning: {what}", err=True)
        elif each.meta:
            names = ", ".join(item.name for item in each.meta)
            invocation.note(f"{each.path}: GeoJSON does not show the conflicts of {names}")
        yield each


def _require_one_conflict(repo: Repo, labels: tuple[str, ...]) -> None:
    """Raise where labels mean more than one conflict to Kart, which decides one at a time."""
    named = {text.partition(":")[0] for text in labels}
    several = len(labels) > 1 or any(text.rstrip(":").count(":") < 2 for text in labels)
    if several and named & {each.path for each in repo.conflicts()}:
        raise NotYetSupportedError("several conflicts cannot be decided at once, called kart")
    # Kart finds nothing by the name of several, not even what is resolved.
    if several and len(labels) == 1 and any(labels):
        raise NoConflictError(f"no conflict that waits is named {labels[0]!r}")


def _require_meta_first(repo: Repo, label: str) -> None:
    """Raise for rows where meta items of their dataset wait, which Kart has decided first."""
    path, _, part = label.partition(":")
    for each in () if part.startswith("meta") else repo.view_conflicts():
        if each.path == path and each.meta:
            raise _meta_first(path)


def _meta_first(path: str) -> StateError:
    return StateError(
        f"There are still unresolved meta-item conflicts for dataset {path}. "
        "These need to be resolved first."
    )


def _require_rows_alone(repo: Repo, labels: tuple[str, ...]) -> None:
    """Raise where rows are to be renumbered of a dataset whose meta items wait, as in Kart."""
    if not labels:
        for each in repo.view_conflicts():
            if each.meta and each.rows is not None and each.rows.column("ancestor").null_count:
                raise _meta_first(each.path)
        return
    named = {label.partition(":")[0] for label in labels}
    waiting = [
        f"{each.path}:meta:{item.name}"
        for each in repo.view_conflicts(sorted(named))
        for item in each.meta
    ]
    if waiting:
        what = "The --renumber option only works for feature conflicts - it cannot resolve"
        error = StateError(f"{what} {', '.join(waiting)}")
        error.said = (f"Error: {what} the following conflicts:", *waiting)
        raise error


def _missing_version(repo: Repo, labels: tuple[str, ...], choice: str | None) -> str | None:
    """Return the version that a conflict is to take and has not, so that it is deleted."""
    version = "ancestor" if choice == "base" else choice
    if len(labels) != 1 or version not in ("ancestor", "ours", "theirs"):
        return None
    found = next(iter(repo.view_conflicts(labels)), None)
    if found is None or (found.rows is None and not found.meta):
        return None
    if found.rows is None:
        is_there = version in found.meta[0].versions
    else:
        is_there = not found.rows.column(version).null_count
    return None if is_there else version


@click.command("resolve", cls=Command)
@click.argument("labels", metavar="[LABEL|FILTER...]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Resolve all conflicts that wait.")
@click.option(
    "--with",
    "choice",
    type=click.Choice(("ours", "theirs", "base", "ancestor", "delete", "workingcopy")),
    help="Take the whole row or item as it is there; base and ancestor are the same; workingcopy"
    " is the row that stands in the working copy.",
)
@click.option(
    "--column",
    "columns",
    metavar="NAME=SIDE",
    multiple=True,
    help="Take this column from ours, theirs or base, the cells that are not in conflict as"
    " they merged, and other cells in conflict from --with. With DATASET:meta:schema.json, what"
    " is in conflict in this column of the schema, from ours or theirs. May be repeated.",
)
@click.option(
    "--with-file",
    "file",
    metavar="FILE",
    type=click.File("rb"),
    help="Take the row from FILE, a GeoJSON feature or {column: value}; of a collection of two"
    " features one may have another key, under which it stands besides; one of no feature deletes"
    " the row. - is stdin.",
)
@click.option(
    "--renumber",
    type=click.Choice(("ours", "theirs")),
    help="Where both sides inserted a row under one key, keep both: that side's row gets the"
    " next free key.",
)
@json_option
@click.pass_obj
def resolve(
    invocation: Invocation,
    labels: tuple[str, ...],
    everything: bool,
    choice: str | None,
    columns: tuple[str, ...],
    file: BinaryIO | None,
    renumber: str | None,
) -> None:
    r"""Decide conflicts of a merge.

    LABEL is DATASET:feature:KEY or DATASET:meta:ITEM as `conflicts` shows it; DATASET and
    DATASET:feature mean all conflicts there.

    \b
    havasu-vc resolve trees:feature:500 --with=theirs
    havasu-vc resolve trees:feature:500 --column species=theirs
    havasu-vc resolve --all --with=ours
    """
    if is_called_kart():
        if choice and renumber:
            raise click.UsageError(
                "Illegal usage: '--with' is mutually exclusive with '--renumber'."
            )
        repo = invocation.open_repo()
        repo.view_conflicts()  # where there is no merge Kart says so first
    if not (choice or columns or file or renumber):
        raise click.UsageError("say how: --with, --column, --with-file or --renumber")
    if is_called_kart() and not (renumber or everything):
        if len(labels) == 1:
            _require_meta_first(repo, labels[0])
        _require_one_conflict(repo, labels)
    if is_called_kart() and renumber:
        _require_rows_alone(repo, labels)
    # Without labels Kart renumbers all that can be.
    if bool(labels) == everything and not (renumber and not labels):
        raise click.UsageError("name conflicts, or all of them with --all")
    sides = {}
    for name, side in map(parse_assignment, columns):
        if name in sides:
            raise InvalidArgumentError(f"column {name!r} is given twice")
        sides[name] = "base" if side == "ancestor" else side
    repo = invocation.open_repo()
    missing = _missing_version(repo, labels, choice) if is_called_kart() else None
    count = repo.resolve_conflicts(
        labels,
        choice="base" if choice == "ancestor" else choice,
        columns=sides or None,
        document=None if file is None else file.read(),
        renumber=renumber,
    )
    left = sum(each.unresolved for each in repo.conflicts())
    value: Resolved = {"resolved": count, "unresolved": left}
    invocation.result("havasu.resolve/v1", value)
    if missing:
        invocation.say(f'Version "{missing}" does not exist - resolving conflict by deleting.')
    invocation.say(f"Resolved {counted(count, 'conflict')}. {counted(left, 'conflict')} to go.")
    if not left:
        invocation.say("Use `havasu-vc merge --continue` to complete the merge")
