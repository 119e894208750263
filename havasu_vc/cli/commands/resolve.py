"""`havasu-vc resolve`."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click

from havasu_vc.cli.arguments import parse_assignment
from havasu_vc.cli.counts import counted
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option
from havasu_vc.errors import InvalidArgumentError

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Resolved

__all__ = ["command"]


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
    help="Take the row from FILE, a GeoJSON feature or {column: value}; - is stdin.",
)
@click.option(
    "--renumber",
    type=click.Choice(("ours", "theirs")),
    help="Where both sides inserted a row under one key, keep both: that side's row gets the"
    " next free key.",
)
@json_option
@click.pass_obj
def command(
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
    # Without labels Kart renumbers all that can be.
    if bool(labels) == everything and not (renumber and not labels):
        raise click.UsageError("name conflicts, or all of them with --all")
    sides = {}
    for name, side in map(parse_assignment, columns):
        if name in sides:
            raise InvalidArgumentError(f"column {name!r} is given twice")
        sides[name] = "base" if side == "ancestor" else side
    if not (choice or sides or file or renumber):
        raise click.UsageError("say how: --with, --column, --with-file or --renumber")
    repo = invocation.open_repo()
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
    invocation.say(f"Resolved {counted(count, 'conflict')}. {counted(left, 'conflict')} to go.")
    if not left:
        invocation.say("Use `havasu-vc merge --continue` to complete the merge")
