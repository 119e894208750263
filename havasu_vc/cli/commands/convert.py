"""`havasu-vc convert`."""

from __future__ import annotations

import click

from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option, message_options
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.cli.results import tell_commit
from havasu_vc.datasets.kinds import kind_names
from havasu_vc.transfer import ConvertRequest

__all__ = ["command"]


@click.command("convert", cls=Command)
@click.argument("dataset", shell_complete=complete_datasets)
@takes(
    ConvertRequest,
    kind=Spelt("--to", type=click.Choice(kind_names())),
    without=("dataset", "message"),
)
@click.option(
    "--geometry",
    "geometries",
    metavar="COLUMN=ENCODING",
    multiple=True,
    help="Declare what a column holds: ewkb, wkb, wkt, geojson, or none; may be repeated.",
)
@message_options
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: ConvertRequest,
    geometries: tuple[str, ...],
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
    converts = bool(request.kind)
    if converts == bool(geometries):
        raise click.UsageError("say --to what to convert, or --geometry which columns to declare")
    if request.refs and not (request.history and converts):
        raise click.UsageError("--refs goes with --to and --history")
    repo = invocation.open_repo()
    if converts:
        result = repo.convert.by(request)
    else:
        declared = dict(map(_pair, geometries))
        result = repo.declare_geometries(request.dataset, declared, message=request.message)
    tell_commit(invocation, repo, result)


def _pair(text: str) -> tuple[str, str]:
    column, equals, encoding = text.rpartition("=")
    if not equals or not column:
        raise click.BadParameter(f"{text!r} is not COLUMN=ENCODING", param_hint="--geometry")
    return column, encoding.lower()
