"""`havasu-vc convert`, `mv` and `rm`: datasets as a whole."""

from __future__ import annotations

from dataclasses import replace

import click

from havasu_vc.cli.as_kart import is_called_kart, stop_while_merging
from havasu_vc.cli.branches import tell_update
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.editor import asked_as_in_kart
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option, message_options
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.cli.results import tell_commit, tell_moved
from havasu_vc.datasets.kinds import kind_names
from havasu_vc.errors import DatasetNotFoundError
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.transfer import ConvertRequest

__all__ = ["convert", "mv", "rm"]


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
def convert(
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


@click.command("mv", cls=Command)
@click.argument("dataset", shell_complete=complete_datasets)
@click.argument("path")
@message_options
@json_option
@click.pass_obj
def mv(
    invocation: Invocation,
    dataset: str,
    path: str,
    message: str | None,
) -> None:
    """Commit that DATASET is at PATH.

    No row is written. The dataset stays the same one: its log, blame and merges with
    branches that know it by its old path go on. Files beside it in its folder go along.
    """
    repo = invocation.open_repo()
    stop_while_merging(repo.git)
    if is_called_kart():
        repo.workspace.require_clean_in_karts()  # of which Kart tells before all else
        if dataset.rstrip("/") not in repo.datasets():
            raise DatasetNotFoundError(dataset)
    message = asked_as_in_kart(repo, message, f"Rename '{dataset}' to '{path}'")
    result = repo.move_dataset(dataset, path, message=message)
    if not is_called_kart():
        tell_commit(invocation, repo, result)
        return
    tell_moved(invocation, repo, result)
    invocation.say(f"Renamed {dataset} -> {path}")
    tell_update(invocation, repo)


@click.command("rm", cls=Command)
@click.argument(
    "datasets",
    metavar="DATASET...",
    nargs=-1,
    required=True,
    shell_complete=complete_datasets,
)
@message_options
@json_option
@click.pass_obj
def rm(invocation: Invocation, datasets: tuple[str, ...], message: str | None) -> None:
    """Commit that datasets are no more.

    Their rows stay in the history: `havasu-vc restore -s HEAD^ DATASET` brings one back.
    Files beside a dataset in its folder stay; in Kart's repositories they go with it.
    """
    repo = invocation.open_repo()
    for path in datasets if is_called_kart() else ():
        if path.endswith("/"):  # which names no dataset to Kart
            raise DatasetNotFoundError(path)
    # Kart tells how many rows went.
    known = repo.datasets() if repo.git.follows_kart else ()
    rows = {path: repo.count_rows(path) for path in datasets if path in known}
    if len(rows) == len(datasets):
        stop_while_merging(repo.git)
        if is_called_kart():
            repo.workspace.require_clean_in_karts()  # before an editor is asked
        message = asked_as_in_kart(repo, message)
    result = repo.remove_datasets(datasets, message=message)
    gone = {path: ChangeCounts(deletes=count) for path, count in rows.items()}
    meta = dict.fromkeys(gone, ("schema.json",))
    tell_update(invocation, repo)
    tell_commit(invocation, repo, replace(result, changes=gone, meta=meta))
