"""`havasu-vc convert`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option, message_options
from havasu_vc.cli.results import tell_commit
from havasu_vc.datasets.kinds import kind_names

__all__ = ["command"]


@click.command("convert", cls=Command)
@click.argument("dataset", shell_complete=complete_datasets)
@click.option(
    "--to",
    "kind",
    type=click.Choice(kind_names()),
    help="What to store the dataset as.",
)
@click.option(
    "--geometry",
    "geometries",
    metavar="COLUMN=ENCODING",
    multiple=True,
    help="Declare what a column holds: ewkb, wkb, wkt, geojson, or none; may be repeated.",
)
@click.option("--history", is_flag=True, help="With --to, every commit that changed it as well.")
@click.option(
    "--refs",
    is_flag=True,
    help="With --history, those of all branches and tags; each gets a namesake KIND/NAME.",
)
@message_options
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    dataset: str,
    kind: str | None,
    history: bool,
    refs: bool,
    geometries: tuple[str, ...],
    message: str | None,
) -> None:
    """Commit DATASET with the same rows, stored as another kind of dataset.

    A Havasu dataset is made of Parquet files, a Kart dataset of one git object per row,
    which Kart reads and writes. A diff over the commit shows no change of rows.

    With --history every commit that changed the dataset comes again, with its author and
    date, beside those that are there, merges as merges, and a merge commit joins them to
    HEAD. --refs does so for every branch and tag: v1 gets the namesake havasu/v1.

    With --geometry only the schema of a Havasu dataset changes: a column of bytes or text
    is declared as geometries, as those of another encoding, or as none. Its values must
    be that already.
    """
    if (kind is None) == (not geometries):
        raise click.UsageError("say --to what to convert, or --geometry which columns to declare")
    if refs and not (history and kind is not None):
        raise click.UsageError("--refs goes with --to and --history")
    repo = invocation.open_repo()
    if kind is not None:
        result = repo.convert(dataset, kind, message=message, history=history, refs=refs)
    else:
        result = repo.declare_geometries(dataset, dict(map(_pair, geometries)), message=message)
    tell_commit(invocation, repo, result)


def _pair(text: str) -> tuple[str, str]:
    column, equals, encoding = text.rpartition("=")
    if not equals or not column:
        raise click.BadParameter(f"{text!r} is not COLUMN=ENCODING", param_hint="--geometry")
    return column, encoding.lower()
