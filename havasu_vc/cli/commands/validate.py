"""`havasu-vc validate`."""

from __future__ import annotations

import json

import click

from havasu_vc.cli.arguments import parse_names
from havasu_vc.cli.completing import complete_datasets_or_files
from havasu_vc.cli.counts import counted
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, format_option
from havasu_vc.upkeep import Issue, Level

__all__ = ["command"]


@click.command("validate", cls=Command)
@click.argument(
    "targets", metavar="[DATASET|FILE]...", nargs=-1, shell_complete=complete_datasets_or_files
)
@click.option(
    "--ref", metavar="REV", default="HEAD", show_default=True, help="The revision of datasets."
)
@click.option(
    "--primary-key",
    metavar="COLUMN,...",
    multiple=True,
    help="The key of a file; by default what the file says.",
)
@click.option("--no-warnings", is_flag=True, help="Leave out what is odd and allowed.")
@click.option("--strict", is_flag=True, help="Exit with 1 for a warning too.")
@engine_option
@format_option("text", "json")
@click.pass_obj
def command(
    invocation: Invocation,
    targets: tuple[str, ...],
    ref: str,
    primary_key: tuple[str, ...],
    no_warnings: bool,
    strict: bool,
    output_format: str,
) -> int:
    """Check that data is what its columns say.

    Every row of each DATASET, by default of all, is read: geometries are of the declared
    encoding, type and coordinate reference system, rasters are whole, keys are unique,
    required columns have no null, and statistics and bounds are true. A FILE is checked
    as it would be imported. What is wrong is one line on stdout with the key of the row;
    the exit code is 1 if anything but a warning is found.
    """
    found = invocation.open_repo().validation.run(
        targets, ref, primary_key=parse_names(primary_key), warnings=not no_warnings
    )
    issues = []
    counts = dict.fromkeys(Level, 0)
    for issue in found:
        counts[issue.level] += 1
        if output_format == "json":
            issues.append(_as_json(issue))
        else:
            click.echo(_line(issue))
    if output_format == "json":
        click.echo(json.dumps({"havasu.validate/v1": issues}, indent=2))
    elif any(counts.values()):
        errors, warnings = (counted(counts[level], level.value) for level in Level)
        invocation.say(f"{errors}, {warnings}")
    else:
        invocation.say("All data is valid")
    return int(bool(counts[Level.ERROR] or (strict and counts[Level.WARNING])))


def _as_json(issue: Issue) -> dict[str, object]:
    return {
        "dataset": issue.dataset,
        "key": None if issue.key is None else dict(issue.key),
        "column": issue.column,
        "level": issue.level.value,
        "rule": issue.rule,
        "cause": issue.cause,
    }


def _line(issue: Issue) -> str:
    place = issue.dataset
    if issue.key is not None:
        place += ":" + ",".join(str(value) for value in issue.key.values())
    column = "" if issue.column is None else f"column {issue.column!r}: "
    return f"{visible(place)}: {issue.level.value}: {visible(column + issue.cause)}"
