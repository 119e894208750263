"""`havasu-vc meta` and `commit-files`: documents of datasets, and files beside them."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from havasu_vc.cli.arguments import parse_assignment, parse_names
from havasu_vc.cli.as_kart import is_called_kart, or_head, results_on_stdout, stop_while_merging
from havasu_vc.cli.branches import tell_update
from havasu_vc.cli.commands.data import kind_of_dataset
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.items import place_of_item
from havasu_vc.cli.options import Command, format_option, json_option, message_options, style_option
from havasu_vc.cli.results import tell_bare_commit, tell_commit
from havasu_vc.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    NoChangesError,
    NotFoundError,
    NotYetSupportedError,
    RevisionNotFoundError,
    StorageError,
)
from havasu_vc.writers.json_style import LAYOUTS
from havasu_vc.writers.protocol import JsonStyle

if TYPE_CHECKING:
    from havasu_vc.library import Repo

__all__ = ["command", "commit_files"]

PRIMARY_KEY = "primary-key"
"""Stands for the columns of `schema.json` that are the key."""
MOST_ITEM_BYTES = 16 << 20
"""No meta item is larger."""
_PERHAPS = re.compile(r"title|description|tags\.json|crs/[^/]+\.wkt")
"""Names of meta items that any dataset may have, and that are null in Kart where it has none."""
_INDENT = " " * 8


@click.group("meta")
def command() -> None:
    """Show or change titles, schemas and CRS definitions."""


@command.command(
    "get", cls=Command, short_help="Show titles, descriptions, schemas and CRS definitions"
)
@click.argument("dataset", required=False, shell_complete=complete_datasets)
@click.argument("names", metavar="[ITEM...]", nargs=-1)
@click.option("--ref", metavar="REV", default="HEAD", show_default=True, help="The revision.")
@click.option(
    "--with-dataset-types/--without-dataset-types",
    "types",
    help="Also the type and version of each dataset, or not.",
)
@format_option("text", "json")
@style_option
@click.pass_obj
def get(
    invocation: Invocation,
    dataset: str | None,
    names: tuple[str, ...],
    ref: str,
    types: bool,
    output_format: str,
    json_style: str,
) -> None:
    """Show meta items: title, description, schema.json, crs/NAME.wkt.

    All items where none is named; those of all datasets without DATASET.
    """
    repo = invocation.open_repo()
    stop_while_merging(repo.git)
    ref = or_head(ref)
    named = dataset is not None and not (is_called_kart() and not dataset)
    paths = [dataset] if dataset is not None and named else repo.sound_datasets(ref)
    try:
        found = {path: _items(repo, path, names, ref) for path in paths}
    except NotFoundError as error:
        if isinstance(error, RevisionNotFoundError) or not repo.git.follows_kart:
            raise
        if not is_called_kart():  # with Kart's exit code all the same
            raise InvalidArgumentError(error.message, hints=error.hints) from error
        if isinstance(error, DatasetNotFoundError):
            raise click.UsageError(f"No such dataset: {dataset}") from error
        absent = _absent(repo, paths[0], names, ref)
        raise click.UsageError(f"Couldn't find items: {', '.join(absent)}") from error
    if is_called_kart():
        found = {
            path: {name: each[name] for name in sorted(each, key=place_of_item)}
            for path, each in found.items()
        }
    if types:
        kinds = {info.path: kind_of_dataset(info) for info in repo.list_datasets(ref)}
        for path, items in found.items():
            kind = kinds[path]
            found[path] = {"datasetType": kind["type"], "version": kind["version"], **items}
    if output_format == "json":
        click.echo(LAYOUTS[JsonStyle(json_style)].dumps(found))
        return
    for path, items in found.items():
        click.echo(visible(path))
        for line in _item_lines(items):
            click.echo(line)


def _items(repo: Repo, path: str, names: tuple[str, ...], ref: str) -> dict[str, Any]:
    """Return meta items; in Kart's repositories those that any dataset may have are null."""
    if not (repo.git.follows_kart and any(map(_PERHAPS.fullmatch, names))):
        return dict(repo.get_meta(path, names, revision=ref))
    known = repo.get_meta(path, (), revision=ref)
    absent = [name for name in names if _PERHAPS.fullmatch(name) and name not in known]
    rest = tuple(name for name in names if name not in absent)
    found = repo.get_meta(path, rest, revision=ref) if rest else {}
    return {**found, **dict.fromkeys(absent)}


def _absent(repo: Repo, path: str, names: tuple[str, ...], ref: str) -> list[str]:
    """Return the names of meta items that are none of a dataset's, and that not any may have."""
    known = repo.get_meta(path, (), revision=ref)
    return [name for name in names if name not in known and not _PERHAPS.fullmatch(name)]


def _item_lines(items: Mapping[str, Any]) -> Iterator[str]:
    for name, value in items.items():
        yield f"    {visible(name)}"
        text = (
            value
            if isinstance(value, str)
            else json.dumps(value, indent=2, ensure_ascii=is_called_kart())
        )
        # Kart breaks lines of texts, and none of a reference system or of JSON.
        broken = is_called_kart() and isinstance(value, str) and not name.startswith("crs/")
        for line in text.rstrip("\n").split("\n"):
            for part in _as_wide_as_karts(line) if broken else (line,):
                yield f"{_INDENT}{visible(part)}"


def _as_wide_as_karts(line: str) -> list[str]:
    """Return a line in pieces that fit in the terminal, which Kart takes for 80 wide elsewhere."""
    width = max(shutil.get_terminal_size().columns - len(_INDENT), 1)
    parts = textwrap.TextWrapper(
        width, drop_whitespace=False, replace_whitespace=False, break_on_hyphens=False
    )
    return parts.wrap(line) or [""]


@command.command(
    "set", cls=Command, short_help="Change titles, schemas and CRS definitions, and commit"
)
@click.argument("dataset", shell_complete=complete_datasets)
@click.argument("assignments", metavar="ITEM=VALUE...", nargs=-1)
@click.option("--unset", metavar="ITEM", multiple=True, help="Remove an item; may be repeated.")
@click.option("--amend", is_flag=True, help="Commit in the place of HEAD's commit.")
@message_options
@json_option
@click.pass_obj
def set_items(
    invocation: Invocation,
    dataset: str,
    assignments: tuple[str, ...],
    unset: tuple[str, ...],
    amend: bool,
    message: str | None,
) -> None:
    """Change meta items of DATASET and commit.

    ITEM=@FILE takes the value from a file. `schema.json` is a list of columns as `meta
    get` shows it: columns are told apart by their ids, so one can be renamed, added,
    dropped, moved or widened. primary-key=COLUMN,... makes those columns the key.
    """
    repo = invocation.open_repo()
    items: dict[str, Any] = dict.fromkeys(unset)
    for assignment in assignments:
        name, value = parse_assignment(assignment)
        if name in items and not is_called_kart():
            raise InvalidArgumentError(f"{name} is given twice")
        items[name] = value if name == PRIMARY_KEY else _value(repo, name, value)
    if not items:
        raise click.UsageError("give an ITEM=VALUE, or --unset ITEM")
    if PRIMARY_KEY in items and "schema.json" in items:
        raise InvalidArgumentError("schema.json says which columns are the key")
    if PRIMARY_KEY in items:
        items["schema.json"] = _keyed(repo, dataset, parse_names([items.pop(PRIMARY_KEY) or ""]))
    if amend:
        stop_while_merging(repo.git)
    with repo.amending() if amend else nullcontext() as amended:
        if message is None and amended is not None:
            message = amended.message
        result = repo.set_meta(dataset, items, message=message)
        if repo.git.follows_kart and result.commit is None:
            raise NoChangesError("nothing changed, nothing is committed")
    if is_called_kart() and results_on_stdout():
        tell_bare_commit(invocation, repo, result)
        return
    tell_commit(invocation, repo, result)


def _keyed(repo: Repo, dataset: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the columns of a dataset with a key of these names."""
    columns: list[dict[str, Any]] = repo.get_meta(dataset, ["schema.json"])["schema.json"]
    known = [column["name"] for column in columns]
    for name in names:
        if name not in known:
            raise InvalidArgumentError(
                f"there is no column {name!r}", hints=(f"the columns are {', '.join(known)}",)
            )
    made = []
    for column in columns:
        rest = {item: value for item, value in column.items() if item != "primaryKeyIndex"}
        key = {"primaryKeyIndex": names.index(column["name"])} if column["name"] in names else {}
        made.append({**rest, **key})
    return made


def _value(repo: Repo, name: str, text: str) -> Any:
    if not text and repo.git.follows_kart:
        return None  # Kart takes the item away
    if text.startswith("@"):
        text = _read(Path(text[1:]))
        if name in ("title", "description") and not repo.git.follows_kart:
            # Editors end a file with a line end that nobody means; Kart keeps it.
            text = text.removesuffix("\n")
    if not name.endswith(".json"):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"the value of {name} is not JSON: {error}") from error


def _read(path: Path) -> str:
    try:
        return read_value(path).decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{path} is not UTF-8 text") from error


def read_value(path: Path) -> bytes:
    """Return what a file holds that is to be committed."""
    try:
        if path.stat().st_size > MOST_ITEM_BYTES:
            raise InvalidArgumentError(f"{path} is too large to be committed")
        return path.read_bytes()
    except OSError as error:
        if error.errno is None:
            raise
        raise StorageError(f"{path} cannot be read: {error.strerror}") from error


@click.command("commit-files", cls=Command)
@click.argument("assignments", metavar="[PATH=TEXT...]", nargs=-1)
@message_options
@click.option("--ref", metavar="REF", default="HEAD", help="The branch that gets the commit.")
@click.option("--amend", is_flag=True, help="Commit in the place of HEAD's commit.")
@click.option("--remove-empty-files", is_flag=True, help="Remove files that are given no content.")
@click.option("--allow-empty", is_flag=True, help="Commit even if nothing differs.")
@json_option
@click.pass_obj
def commit_files(
    invocation: Invocation,
    assignments: tuple[str, ...],
    message: str | None,
    ref: str,
    amend: bool,
    remove_empty_files: bool,
    allow_empty: bool,
) -> None:
    """Commit files beside the datasets of a Kart repository, which has no index to add them to.

    PATH=@FILE takes the content from a file.
    """
    if message is None and not amend:
        raise click.UsageError("the commit has no message: -m gives one")
    repo = invocation.open_repo()
    files: dict[str, bytes | None] = {}
    for assignment in assignments:
        path, text = parse_assignment(assignment)
        data = read_value(Path(text[1:])) if text.startswith("@") else text.encode()
        files[path] = None if remove_empty_files and not data else data
    if is_called_kart() and repo.head().commit is None:
        raise NotYetSupportedError("a first commit of files alone is not made, called kart")
    with repo.amending(ref) if amend else nullcontext() as amended:
        text = message or (amended.message if amended is not None else "")
        result = repo.commit_files(files, text, ref=ref, allow_empty=allow_empty)
    if is_called_kart() and results_on_stdout() and result.commit is not None:
        invocation.say("Committing...")
        invocation.say(f"Committed as: {result.commit}")
        tell_update(invocation, repo)
        return
    tell_commit(invocation, repo, result)
