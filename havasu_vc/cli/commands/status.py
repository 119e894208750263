"""`havasu-vc status`."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from havasu_vc.cli.as_kart import in_karts_words, is_called_kart
from havasu_vc.cli.branches import open_to_switch
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, format_option
from havasu_vc.errors import HavasuError
from havasu_vc.repo.results import RepoStatus
from havasu_vc.writers.protocol import ChangeSummary, DatasetSummary
from havasu_vc.writers.status import RepositoryStatus, Upstream, format_status, status_object

if TYPE_CHECKING:
    from havasu_vc.checkouts import WorkspaceChanges
    from havasu_vc.library import Repo

__all__ = ["command"]


@click.command("status", cls=Command)
@format_option("text", "json")
@click.option(
    "--list-untracked-tables",
    is_flag=True,
    help="List tables that are no dataset yet, which are always told unless called kart.",
)
@click.option(
    "-s", "--short", "--porcelain", "short", is_flag=True, help="One line a dataset, as git has."
)
@click.pass_obj
def command(
    invocation: Invocation, output_format: str, list_untracked_tables: bool, short: bool
) -> None:
    """Show where HEAD is, what is edited in the workspace and what stands in the way.

    Edits are those that an engine made in the tables of `havasu-vc checkout`; they are
    counted by dataset and nothing is changed.
    """
    repo = open_to_switch(invocation)
    status, workspace = repo.status(), repo.workspace.changes()
    printed = _limited(repo, _printed(status, workspace))
    problems = (*status.problems, *(() if workspace is None else workspace.problems))
    notes = () if workspace is None else workspace.notes
    if is_called_kart():
        file = None if workspace is None else workspace.file
        ours = () if file is None else (*file.untracked_notes, *file.dropped_notes)
        notes = tuple(each for each in notes if each not in ours)
        printed = _as_kart_prints(repo, printed, untracked=list_untracked_tables)
    elif repo.git.follows_kart and output_format == "json":
        printed = replace(printed, parts=_as_kart_has_parts(repo, printed))
    if repo.workspace.has_tiles:
        invocation.note(
            "files of tiles are not looked at: `kart status` of Kart itself tells what is edited"
        )
    if (other := status.elsewhere) is not None:
        notes = (*notes, f"{other} has commits: `havasu-vc switch {shlex.quote(other)}`")
    if output_format == "json":
        value = _json(status, printed, problems, notes)
        if is_called_kart() and printed.changes is not None:
            _order_counts(repo, printed.changes, value)
        click.echo(json.dumps(value, indent=2))
        return
    if short:
        for line in (*_staged_lines(status), *_short_lines(printed)):
            click.echo(visible(line))
        return
    told = in_karts_words(format_status(printed, color=invocation.colored(sys.stdout)))
    if is_called_kart() and not printed.conflicts:
        told = told.replace('Repository is in "merging" state.\n', "", 1)
    click.echo(told, nl=False)
    untracked = None if printed.conflicts else printed.untracked
    if is_called_kart() and untracked is not None and status.commit is not None:
        for line in _untracked_lines(untracked):
            click.echo(line)
    if status.state not in ("clean", "merge of Kart's") and status.waiting is None:
        click.echo(f"\nA git {status.state} is not finished; `git status` tells more.")
        if status.state not in ("bisect", "am") and not status.cut_off:
            go_on = "`havasu-vc merge --continue` merges the rows and concludes it."
            click.echo(in_karts_words(go_on))
    for title, lines in (("Notes", notes), ("Problems", problems)):
        if lines:
            click.echo(f"\n{title}:")
        for line in lines:
            click.echo(in_karts_words(f"  {visible(line)}"))


def _printed(status: RepoStatus, workspace: WorkspaceChanges | None) -> RepositoryStatus:
    upstream = None
    if status.upstream is not None:
        upstream = Upstream(status.upstream, status.ahead, status.behind)
    waiting = status.waiting
    file = None if workspace is None else workspace.file
    if waiting is not None and (file is None or not file.found):
        workspace = None  # tables of other kinds stay at HEAD
    return RepositoryStatus(
        status.commit,
        status.branch,
        upstream,
        changes=None if workspace is None else _summary(workspace),
        parts={} if workspace is None else _parts(workspace),
        untracked=None if file is None else file.untracked,
        left_out=() if file is None else file.left_out,
        unread=workspace is not None and bool(workspace.problems),
        merging=None if waiting is None else waiting.context,
        kind="merge" if waiting is None or waiting.kind == "squash" else waiting.kind,
        conflicts={} if waiting is None else waiting.conflicts,
    )


def _short_lines(printed: RepositoryStatus) -> Iterator[str]:
    """Yield what is edited, in conflict or new, in git's letters."""
    if printed.changes is not None:
        yield from (f" M {path}" for path in printed.changes.datasets)
    yield from (f"UU {path}" for path in printed.conflicts)
    yield from (f"?? {table}" for table in printed.untracked or ())


def _staged_lines(status: RepoStatus) -> Iterator[str]:
    """Yield what git has staged of datasets, in its letters."""
    yield from (f"{letter}  {path}" for path, letter in status.staged.items())


def _limited(repo: Repo, printed: RepositoryStatus) -> RepositoryStatus:
    """Return a status with the spatial filter in force, if there is one."""
    if not repo.git.config.section(repo.git.spatial_filter_section):
        return printed
    from havasu_vc.repo.spatial_filters import read_spatial_filter

    try:
        found = read_spatial_filter(repo.git)
    except HavasuError as error:
        return replace(printed, limits=f"The settings have an unusable filter: {error.message}")
    if found.area is None:
        return printed
    value = {"geometry": found.area.wkb.hex().upper(), "crs": found.area.crs}
    what = "spatial filter"
    if found.reference is not None and found.object_id is not None:
        value = {"reference": found.reference, "objectId": found.object_id, **value}
        what += f" at reference {found.reference}"
    box = ", ".join(f"{edge:.3f}" for edge in found.area.degrees)
    limits = f"A {what} is active, limiting repo to a specific region inside [{box}]"
    return replace(printed, spatial_filter=value, limits=limits)


def _as_kart_has_parts(repo: Repo, printed: RepositoryStatus) -> dict[str, object]:
    """Return the places of edits with what Kart's readers look for, and ours besides."""
    parts, location = dict(printed.parts), repo.config.get("kart.workingcopy.location")
    tabular = parts.get("tabular")
    if isinstance(tabular, dict) and location is not None:
        ours = {name: value for name, value in tabular.items() if name != "location"}
        parts["tabular"] = {"location": location, **ours, "path": tabular["location"]}
    if printed.changes is not None:
        parts["workdir"] = _place_of_tiles(repo)
    return parts


def _place_of_tiles(repo: Repo) -> dict[str, str]:
    """Return whether there are files of tiles, which are Kart's to look at."""
    return {"status": "ok" if repo.workspace.has_tiles else "notFound"}


def _as_kart_prints(repo: Repo, printed: RepositoryStatus, *, untracked: bool) -> RepositoryStatus:
    """Return a status with what Kart tells of a working copy, which scripts compare."""
    parts: dict[str, object] = {"workdir": _place_of_tiles(repo)}
    location = repo.config.get("kart.workingcopy.location")
    tabular = printed.parts.get("tabular")
    if tabular is not None and location is not None:
        kept = {name: tabular[name] for name in ("type", "status")}
        parts = {"tabular": {"location": location, **kept}, **parts}
    new = printed.untracked if untracked else None
    printed = replace(printed, parts=parts, untracked=new, nowhere=repo.git.is_bare)
    # While it merges, Kart tells of conflicts alone.
    return printed if printed.merging is None else replace(printed, changes=None)


def _order_counts(repo: Repo, changes: ChangeSummary, value: dict[str, Any]) -> None:
    """Bring numbers of rows into Kart's order, where there is one to speak of."""
    from havasu_vc.cli.kart.counts import in_karts_order, rows_seen, several_kinds

    paths = [path for path, each in changes.datasets.items() if several_kinds(each.features)]
    if paths:
        copy = value["kart.status/v2"]["workingCopy"]
        seen = {diff.path: rows_seen(diff) for diff in repo.workspace.diff(None, paths)}
        copy["changes"] = in_karts_order(copy["changes"], seen)


def _untracked_lines(tables: Sequence[str]) -> list[str]:
    if not tables:
        return ["", "No untracked tables found."]
    return ["", "Untracked tables:", *(f"  {visible(each)}" for each in tables)]


def _summary(workspace: WorkspaceChanges) -> ChangeSummary:
    return ChangeSummary(
        {
            path: DatasetSummary(each.meta, each.rows, each.hidden)
            for path, each in workspace.tables.items()
        }
    )


def _parts(workspace: WorkspaceChanges) -> dict[str, object]:
    status = "damaged" if workspace.problems else "ok"
    part: dict[str, object] = {
        "type": workspace.kind,
        "location": str(workspace.root),
        "status": status,
    }
    file = workspace.file
    if file is not None and not file.found:
        part["status"] = "notFound"
    elif file is not None:
        part |= {
            "commit": file.commit,
            "tree": file.tree,
            "missingTriggers": list(file.without_triggers),
            "lockedByEditor": file.locked,
        }
    return {"tabular": part}


def _json(
    status: RepoStatus, printed: RepositoryStatus, problems: Sequence[str], notes: Sequence[str]
) -> dict[str, Any]:
    value: dict[str, Any] = dict(status_object(printed))
    # Kart's readers pass over what they do not know.
    told = status.state != "clean" and not (is_called_kart() and status.waiting is not None)
    if told or problems or notes:
        ours = {"state": status.state, "problems": list(problems)}
        value["havasu.status/v1"] = {**ours, "notes": list(notes)} if notes else ours
    return value
