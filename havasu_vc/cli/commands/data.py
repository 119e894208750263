"""`havasu-vc data`: the datasets, the format, and the data files of this repository."""

from __future__ import annotations

import json
import sys

import click

from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option, style_option
from havasu_vc.repo import DatasetInfo
from havasu_vc.writers.json_lines import DATASET_KINDS
from havasu_vc.writers.json_style import LAYOUTS
from havasu_vc.writers.protocol import JsonStyle

__all__ = ["command"]

# Kinds that are listed and left untouched, by the names of their folders.
_OTHER_KINDS = {
    "table-dataset": {"type": "table", "version": 3},
    "sno-dataset": {"type": "table", "version": 2},
    "raster-dataset.v1": {"type": "raster", "version": 1},
    "point-cloud-dataset.v1": {"type": "point-cloud", "version": 1},
}


@click.group("data")
def command() -> None:
    """List the datasets, tell the format version, move data files."""


@command.command("ls", cls=Command)
@click.argument("revision", metavar="[REV]", default="HEAD", shell_complete=complete_revisions)
@click.option("-l", "--long", is_flag=True, help="Also kind, rows, size and title.")
@click.option(
    "--with-dataset-types", is_flag=True, help="Also the types and versions (kart.data.ls/v2)."
)
@format_option("text", "json")
@style_option
@click.pass_obj
def list_datasets(
    invocation: Invocation,
    revision: str,
    long: bool,
    with_dataset_types: bool,
    output_format: str,
    json_style: str,
) -> None:
    """List the datasets of a revision."""
    repo = invocation.open_repo()
    infos = repo.list_datasets(revision)
    if output_format == "json":
        layout = LAYOUTS[JsonStyle(json_style)]
        click.echo(layout.dumps(_json(infos, types=with_dataset_types or long, long=long)))
        return
    for info in infos:
        if long:
            click.echo(_long_line(info))
        elif with_dataset_types:
            click.echo("\t".join([visible(info.path), *map(str, _kind(info).values())]))
        else:
            click.echo(visible(info.path))
    if not infos:
        invocation.note(f"there are no datasets at {revision}; `havasu-vc import` adds one")


def _kind(info: DatasetInfo) -> dict[str, object]:
    known = DATASET_KINDS.get(info.kind) or _OTHER_KINDS.get(info.kind)
    return dict(known or {"type": info.kind, "version": info.version})


def _json(infos: tuple[DatasetInfo, ...], *, types: bool, long: bool) -> dict[str, object]:
    if not types:
        return {"kart.data.ls/v1": [info.path for info in infos]}
    items = []
    for info in infos:
        item: dict[str, object] = {"path": info.path, **_kind(info)}
        if long:
            item |= {"title": info.title, "rows": info.rows, "size": info.size}
        items.append(item)
    return {"kart.data.ls/v2": items}


def _long_line(info: DatasetInfo) -> str:
    rows = "" if info.rows is None else counted(info.rows, "row")
    size = "" if info.size is None else format_size(info.size)
    columns = [info.path, info.kind, rows, size, info.title or ""]
    return "\t".join(visible(text) for text in columns).rstrip("\t")


@command.command("version", cls=Command)
@format_option("text", "json")
@click.pass_obj
def version(invocation: Invocation, output_format: str) -> None:
    """Tell the version of the repository's format."""
    repo = invocation.open_repo()
    branding = "kart" if repo.git.is_kart else "havasu"
    number = 3 if repo.git.is_kart else 1
    if output_format == "json":
        value = {"repostructure.version": number, "localconfig.branding": branding}
        click.echo(json.dumps(value, indent=2))
    else:
        name = "Kart" if repo.git.is_kart else "Havasu"
        click.echo(f"This repository uses {name} datasets, version {number}")


@command.command("push", cls=Command)
@click.argument("remote", required=False)
@click.option("--hook", is_flag=True, help="Read what is pushed as git's pre-push hook is told.")
@click.pass_obj
def push_files(invocation: Invocation, remote: str | None, hook: bool) -> None:
    """Send the data files that REMOTE lacks, and no refs.

    `git push` does this first, by the hook that `init` and `clone` put in place.
    """
    repo = invocation.open_repo(rows=False)
    lines = sys.stdin.read().splitlines() if hook else None
    sent = repo.push_data(remote, lines)
    if sent.files:
        invocation.say(f"Sent {counted(sent.files, 'data file')}, {format_size(sent.size)}")


@command.command("fetch", cls=Command)
@click.argument("remote", required=False)
@click.pass_obj
def fetch_files(invocation: Invocation, remote: str | None) -> None:
    """Bring every data file that commits here name and that is not here."""
    repo = invocation.open_repo(rows=False)
    came = repo.fetch_data(remote)
    if came.files:
        invocation.say(f"Fetched {counted(came.files, 'data file')}, {format_size(came.size)}")
    else:
        invocation.say("Every data file is here")
