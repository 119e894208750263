"""`havasu-vc data`: the datasets, the format, and the data files of this repository."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart, or_head, results_on_stdout
from havasu_vc.cli.commands.datasets import rm as remove_datasets
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option, json_option, style_option
from havasu_vc.cli.requests import DRY_RUN, Spelt, takes
from havasu_vc.datasets.kinds import is_of_kart, kind_names, told_kind
from havasu_vc.exchange.boxes import parse_box
from havasu_vc.formats.repository_config import CONFIG_FILE
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.repo.results import DatasetInfo
from havasu_vc.sharing import DataRequest, DropRequest, Part
from havasu_vc.store.kart_version import kart_version
from havasu_vc.upkeep import PruneRequest
from havasu_vc.writers.json_style import LAYOUTS, json_name
from havasu_vc.writers.protocol import JsonStyle

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Dropped, FoundProblem, Moved, Place, Pruned

__all__ = ["command", "kind_of_dataset"]

_PAGES_OF_KART = "https://docs.kartproject.org/en/latest/pages/development"
# Kinds that are listed and left untouched, by the names of their folders.
_OTHER_KINDS: dict[str, dict[str, object]] = {
    "raster-dataset.v1": {"type": "raster", "version": 1},
    "point-cloud-dataset.v1": {"type": "point-cloud", "version": 1},
}


@click.group("data")
def command() -> None:
    """List the datasets, tell the format version, fetch, send and drop data files."""


@command.command("ls", cls=Command, short_help="List the datasets of a revision")
@click.argument("revision", metavar="[REV]", default="HEAD", shell_complete=complete_revisions)
@click.option("-l", "--long", is_flag=True, help="Also kind, rows, size and title.")
@click.option(
    "--with-dataset-types/--without-dataset-types",
    help="Also the types and versions (kart.data.ls/v2), or not.",
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
    """List the datasets of a revision, or of a tree of git's."""
    repo = invocation.open_repo()
    revision = or_head(revision)
    infos = repo.list_datasets(revision)
    if output_format == "json":
        layout = LAYOUTS[JsonStyle(json_style)]
        click.echo(layout.dumps(_json(infos, types=with_dataset_types or long, long=long)))
        return
    for info in infos:
        if long:
            click.echo(_long_line(info))
        elif with_dataset_types:
            kind = kind_of_dataset(info)
            click.echo(f"{visible(info.path)}\t({kind['type']}.v{kind['version']})")
        else:
            click.echo(visible(info.path))
    if not infos and results_on_stdout():
        unborn = revision == "HEAD" and repo.status().commit is None
        none = f"The commit at {revision} has no datasets."
        invocation.say("Empty repository." if unborn else none)
        invocation.say('  (use "havasu-vc import" to add some data)')
    elif not infos:
        invocation.note(f"there are no datasets at {revision}; `havasu-vc import` adds one")


def kind_of_dataset(info: DatasetInfo) -> dict[str, object]:
    """Return the type and the version of a dataset."""
    if info.kind in kind_names():
        # Of Kart's own the version is told, which is 2 in older repositories.
        return told_kind(info.kind, info.version if is_of_kart(info.kind) else None)
    return _OTHER_KINDS.get(info.kind) or {"type": info.kind, "version": info.version}


def _json(infos: tuple[DatasetInfo, ...], *, types: bool, long: bool) -> dict[str, object]:
    if not types:
        return {"kart.data.ls/v1": [info.path for info in infos]}
    items = []
    for info in infos:
        item: dict[str, object] = {"path": info.path, **kind_of_dataset(info)}
        if long:
            item |= {"title": info.title, "rows": info.rows, "size": info.size}
        items.append(item)
    return {"kart.data.ls/v2": items}


def _long_line(info: DatasetInfo) -> str:
    rows = "" if info.rows is None else counted(info.rows, "row")
    size = "" if info.size is None else format_size(info.size)
    columns = [info.path, info.kind, rows, size, info.title or ""]
    return "\t".join(visible(text) for text in columns).rstrip("\t")


command.add_command(remove_datasets, "rm")


@command.command("version", cls=Command, short_help="Tell the version of the repository's format")
@format_option("text", "json")
@click.pass_obj
def version(invocation: Invocation, output_format: str) -> None:
    """Tell the version of the repository's format."""
    repo = invocation.open_repo(oldest=True)
    if is_called_kart():
        click.echo(
            "The command `kart data version` is deprecated - use `kart data ls "
            "--with-dataset-types` instead.",
            err=True,
        )
    number = kart_version(repo.git)
    if number is None:
        branding, number = "havasu", 1
    else:
        known = repo.git.config.get("kart.repostructure.version") is not None
        branding = "kart" if known else "sno"
    if output_format == "json":
        value = {"repostructure.version": number, "localconfig.branding": branding}
        click.echo(json.dumps(value, indent=2))
    elif branding != "havasu" and is_called_kart():
        click.echo(f"This Kart repo uses Datasets v{number}")
        if number > 1:
            page = f"{_PAGES_OF_KART}/table_v{number}.html"
            click.echo(f"(See {page}")
    else:
        name = "Havasu" if branding == "havasu" else "Kart"
        click.echo(f"This repository uses {name} datasets, version {number}")


@command.command("push", cls=Command, short_help="Send the data files that a remote lacks")
@click.argument("remote", required=False)
@click.option("--hook", is_flag=True, help="Read what is pushed as git's pre-push hook is told.")
@json_option
@click.pass_obj
def push_files(invocation: Invocation, remote: str | None, hook: bool) -> None:
    """Send the data files that REMOTE lacks, and no refs.

    `git push` does this first, by the hook that `init` and `clone` put in place.
    """
    repo = invocation.open_repo(rows=False)
    lines = _hook_lines() if hook else None
    sent = repo.push_data(remote, lines)
    moved: Moved = {"remote": sent.remote, "files": sent.files, "size": sent.size}
    invocation.result("havasu.data-push/v1", moved)
    if sent.files:
        invocation.say(f"Sent {counted(sent.files, 'data file')}, {format_size(sent.size)}")


def _hook_lines() -> list[str]:
    """Return the lines that git tells its hook, in whatever bytes refs are named."""
    told = sys.stdin.buffer.read()
    return [line for line in os.fsdecode(told).split("\n") if line]


@command.command(
    "place", cls=Command, short_help="Tell where the data is, or commit that it is elsewhere"
)
@click.argument("url", required=False)
@json_option
@click.pass_obj
def tell_place(invocation: Invocation, url: str | None) -> None:
    """Tell where the data files are, or commit that they are at URL from now on.

    URL is a folder or a bucket (file, sftp, s3, gs, abfs). It is written to `.havasu/config.toml`,
    so that clones know it; who clones allows the place once. `havasu-vc data push` then sends
    there what lies elsewhere so far.
    """
    repo = invocation.open_repo(rows=False)
    if url is None:
        known = repo.data_place()
        if invocation.json is not None:
            _print_place(invocation, known)
            return
        click.echo("with the remote" if known is None else visible(hidden_secrets(known)))
    elif repo.set_data_place(url):
        _print_place(invocation, url)
        invocation.say(f"Committed {CONFIG_FILE}: data is at {url}")
        if repo.config.get("havasu.data.url") not in (None, url):
            invocation.note("this clone has a setting of its own, havasu.data.url, which wins")
    else:
        _print_place(invocation, url)
        invocation.say(f"{CONFIG_FILE} says so already")


def _print_place(invocation: Invocation, url: str | None) -> None:
    value: Place = {"url": None if url is None else hidden_secrets(url)}
    invocation.result("havasu.data-place/v1", value)


@command.command(
    "fetch", cls=Command, short_help="Bring data files that are not here, all or a part"
)
@click.argument("remote", required=False)
@takes(
    Part,
    "part",
    datasets=Spelt("--dataset", metavar="PATH"),
    box=Spelt("--bbox", metavar="W,S,E,N", parse=parse_box),
)
@takes(DataRequest, revision=Spelt(metavar="REV"), without=("remote", "part"))
@json_option
@click.pass_obj
def fetch_files(invocation: Invocation, /, request: DataRequest) -> None:
    """Bring data files that commits here name and that are not here: all, or a part."""
    came = invocation.open_repo(rows=False).fetch_data.by(request)
    moved: Moved = {"remote": came.remote, "files": came.files, "size": came.size}
    invocation.result("havasu.data-fetch/v1", moved)
    if came.files:
        invocation.say(f"Fetched {counted(came.files, 'data file')}, {format_size(came.size)}")
    else:
        invocation.say("Every data file is here")


@command.command("status", cls=Command, short_help="Tell how many data files are here")
@format_option("text", "json")
@click.pass_obj
def tell_status(invocation: Invocation, output_format: str) -> None:
    """Tell how many of the data files that commits name are here."""
    status = invocation.open_repo(rows=False).data_status()
    if output_format == "json":
        told = {json_name(name): value for name, value in asdict(status).items()}
        click.echo(json.dumps({"havasu.data-status/v2": told}, indent=2))
        return
    for name, here, missing in (
        ("HEAD", status.head_here, status.head_missing),
        ("rest of history", status.history_here, status.history_missing),
    ):
        text = f"{name}: {counted(here.files, 'data file')} here, {format_size(here.size)}"
        if missing.files:
            text += f"; {missing.files:,} not here, {format_size(missing.size)}"
        click.echo(text)
    if status.on_demand:
        click.echo("What is not here comes when something reads it")


@command.command("verify", cls=Command, short_help="Hash every data file that is here")
@json_option
@click.pass_context
def verify_files(context: click.Context) -> None:
    """Hash every data file that commits name and that is here; exit with 1 if one is wrong."""
    invocation: Invocation = context.obj
    found: list[FoundProblem] = []
    for problem in invocation.open_repo(rows=False).verify_data():
        found.append({"where": problem.where, "message": problem.message, "hint": problem.hint})
        if invocation.json is None:
            click.echo(visible(problem.message))
    invocation.result("havasu.data-verify/v1", found)
    if found:
        invocation.say("`havasu-vc data fetch --verify` brings them anew where a remote has them")
        context.exit(1)
    invocation.say("Every data file is right")


@command.command("drop", cls=Command, short_help="Remove data files here that a remote has")
@click.argument("remote", required=False)
@takes(DropRequest, everything=Spelt("--all"), dry_run=DRY_RUN, without=("remote",))
@json_option
@click.pass_obj
def drop_files(invocation: Invocation, /, request: DropRequest) -> None:
    """Remove data files here that REMOTE has; they come back when something reads them.

    Those of HEAD and of tables that are checked out stay.
    """
    repo = invocation.open_repo(rows=False)
    result = repo.drop_data.by(request)
    value: Dropped = {
        "remote": result.remote,
        "files": result.files,
        "size": result.size,
        "kept": result.kept,
        "dryRun": request.dry_run,
    }
    invocation.result("havasu.data-drop/v1", value)
    verb = "Would drop" if request.dry_run else "Dropped"
    size = format_size(result.size)
    invocation.say(
        f"{verb} {counted(result.files, 'data file')}, {size}, which {result.remote} has"
    )
    if result.kept:
        invocation.note(
            f"{counted(result.kept, 'data file')} stay, which {result.remote} lacks; "
            "`havasu-vc data push` sends them"
        )


@command.command(
    "prune", cls=Command, short_help="Remove a remote's data files that nothing reaches"
)
@takes(
    PruneRequest,
    remote=Spelt(metavar="NAME"),
    grace_days=Spelt("--grace", type=click.FloatRange(0), metavar="DAYS", show_default=True),
)
@json_option
@click.pass_obj
def prune_files(invocation: Invocation, /, request: PruneRequest) -> None:
    """Remove a remote's data files that none of its refs reaches.

    Without `--delete`, only tells what would go. Pushes that are going on are safe.
    """
    repo = invocation.open_repo(rows=False)
    result = repo.prune_remote.by(request)
    value: Pruned = {
        "remote": result.remote,
        "files": result.files,
        "size": result.size,
        "waiting": result.waiting,
        "unfinished": result.unfinished,
        "unfinishedSize": result.unfinished_size,
        "dryRun": not request.delete,
    }
    invocation.result("havasu.data-prune/v1", value)
    verb = "Deleted" if request.delete else "Would delete"
    size = format_size(result.size)
    invocation.say(f"{verb} {counted(result.files, 'data file')}, {size}, of {result.remote}")
    if result.waiting:
        invocation.say(f"{counted(result.waiting, 'more file')} nothing reaches, but not for long")
    if result.unfinished:
        left, size = counted(result.unfinished, "file"), format_size(result.unfinished_size)
        invocation.say(f"{verb} {left}, {size}, below temporary, of writers that died")
