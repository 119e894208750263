"""`havasu-vc commit`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast

import click

from havasu_vc.checkouts import WorkspaceCommitRequest
from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.completing import complete_datasets
from havasu_vc.cli.counts import change_lines
from havasu_vc.cli.editor import asks_editor, can_edit, edit_message, karts_summary
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.filters import filters_of_edits, hidden_keys_told
from havasu_vc.cli.options import (
    PLACE,
    Command,
    empty_message,
    engine_option,
    json_option,
    message_options,
    tile_format_option,
)
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.cli.results import planned_summary, tell_commit
from havasu_vc.errors import (
    NoChangesError,
    NoWorkingCopyError,
    StateError,
)
from havasu_vc.records import dataclass
from havasu_vc.repo.filter_texts import named_filters
from havasu_vc.repo.results import CommitResult
from havasu_vc.transfer import CopyCommitRequest

if TYPE_CHECKING:
    from havasu_vc.library import Repo

__all__ = ["command", "is_table"]


@click.command("commit", cls=Command)
@click.argument("filters", metavar="[FILTER...]", nargs=-1, shell_complete=complete_datasets)
@takes(
    CopyCommitRequest,
    file=Spelt(
        "--from",
        metavar="FILE",
        type=PLACE,
        help="Take the edits from a file: a GeoPackage of `checkout --as`, or a Parquet copy;"
        " or from a table of `checkout --to`, by its folder or URL.",
    ),
    dataset=Spelt(metavar="DATASET", shell_complete=complete_datasets),
    dry_run=Spelt("-n --dry-run"),
    without=("filters", "message"),
)
@click.option(
    "--where",
    metavar="SQL",
    help="Commit the rows for which this is true, as they were or as they are now (extra duckdb).",
)
@click.option(
    "--box",
    metavar="WEST,SOUTH,EAST,NORTH",
    help="Commit the rows whose geometry meets this box, as they were or as they are now.",
)
@takes(
    WorkspaceCommitRequest,
    "tables",
    whole=True,
    allow_hidden=Spelt("--allow-spatial-filter-conflicts"),
    without=("filters", "message", "dry_run", "allow_empty", "allow_broken"),
)
@message_options
@tile_format_option
@click.option("--no-verify", is_flag=True, help="Do not hold the commit against the policy.")
@click.option("--amend", is_flag=True, help="Commit in the place of HEAD's commit.")
@click.option("--no-edit", is_flag=True, help="With --amend, keep the message as it is.")
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: CopyCommitRequest,
    where: str | None,
    box: str | None,
    tables: WorkspaceCommitRequest,
    no_verify: bool,
    amend: bool,
    no_edit: bool,
) -> None:
    r"""Commit what was edited in the workspace, or in FILE.

    A FILTER is DATASET, DATASET:KEY, DATASET:feature or DATASET:meta as in `diff`; what it
    leaves out stays edited. Meta items of the tables of `checkout` go with all of a DATASET.
    --where and --box choose among the edited rows of all datasets, or of each DATASET named;
    given together, rows that meet both. --where knows the functions of `sql`:

    \b
    havasu-vc commit trees --where "height > 30" -m "Tall ones"
    havasu-vc commit --box 174.6,-41.4,174.9,-41.2 -m "Wellington"
    havasu-vc commit trees --where "ST_X(geom) > 174.7" -m "East"

    The tables of the workspace are compared with the
    commit that they were checked out at, and FILE with the one it was written at, so only
    what was edited is committed. Without -m or -F git's editor asks for the message. Where HEAD
    has a broken dataset, nothing is committed before `repair` has mended it. With --amend the
    commit has the parents and the author of HEAD's, and its message where none is given.
    """
    request = replace(
        request,
        filters=_chosen(request.filters, where, box),
        allow_empty=request.allow_empty or amend,
    )
    commit = _Commit(request, tables)
    if not commit.of_workspace and tables.refs:
        raise click.UsageError("--from does not go with --refs")
    if commit.of_workspace and request.dataset is not None:
        raise click.UsageError("--dataset goes with --from; write DATASET alone")
    if amend and tables.refs:
        raise click.UsageError("--amend is of HEAD's commit alone, so --refs does not go with it")
    if no_edit and not amend:
        raise click.UsageError("--no-edit goes with --amend")
    repo = invocation.open_repo()
    if not no_verify:
        repo.keep_policy()
    if commit.of_workspace and not repo.workspace.exists and not amend:
        _refuse_nowhere(repo)
    with repo.amending() if amend else nullcontext() as amended:
        message = request.message
        if message is None and amended is not None and (no_edit or not can_edit()):
            message = amended.message
        try:
            if not message and not request.dry_run and (message == "" or asks_editor(repo)):
                message = commit.ask(repo, message, "" if amended is None else amended.message)
            result = commit.make(repo, message, dry_run=request.dry_run)
        except NoChangesError as error:
            error.hints = (*error.hints, *_staged_by_git(repo))
            raise
    tell_commit(invocation, repo, result, dry_run=request.dry_run)


@dataclass(frozen=True, slots=True)
class _Commit:
    """A commit of what was edited, wherever that is."""

    request: CopyCommitRequest
    tables: WorkspaceCommitRequest

    @property
    def of_workspace(self) -> bool:
        """Whether it is of the tables of the workspace, and of no file."""
        return cast("str | Path | None", self.request.file) is None

    def make(self, repo: Repo, message: str | None, *, dry_run: bool) -> CommitResult:
        """Make it, or tell what it would hold."""
        request = self.request
        if self.of_workspace:
            if not repo.workspace.exists:  # HEAD's commit alone is made anew
                nothing = CommitResult(None, repo.head_branch)
                return nothing if dry_run else repo.amend(message=message)
            asked = replace(
                self.tables,
                filters=request.filters,
                message=message,
                dry_run=dry_run,
                allow_empty=request.allow_empty,
                allow_broken=request.allow_broken,
            )
            with hidden_keys_told():
                return repo.workspace.commit.by(asked)
        if is_table(request.file):
            return repo.workspace.commit_from(
                str(request.file),
                filters=request.filters,
                message=message,
                dry_run=dry_run,
                allow_empty=request.allow_empty,
                allow_broken=request.allow_broken,
            )
        return repo.commit_from.by(replace(request, message=message, dry_run=dry_run))

    def plan(self, repo: Repo) -> CommitResult:
        """Tell what it would hold, which is something."""
        planned = self.make(repo, None, dry_run=True)
        if self.of_workspace and not planned.changes and not self.request.allow_empty:
            from havasu_vc.checkouts import nothing_edited

            raise nothing_edited(self.request.filters)
        return planned

    def ask(self, repo: Repo, message: str | None, text: str) -> str:
        """Have the message written in an editor, where `text` stands already.

        Of one that was given and is empty, Kart tells where there is something to commit.
        """
        planned = self.plan(repo)
        if message is not None:
            raise empty_message()
        source = "the workspace" if self.of_workspace else str(self.request.file)
        if is_called_kart():
            told = karts_summary(repo, planned_summary(planned))
            return edit_message(repo.git, told, text=text)
        lines = change_lines(planned.changes, planned.meta)
        return edit_message(repo.git, [f"Changes from {source}:", *lines], text=text)


def _staged_by_git(repo: Repo) -> Iterator[str]:
    """Yield how to go on where nothing was edited, but `git rm` or `git mv` has staged datasets."""
    for path, letter in repo.status().staged.items():
        what = "the removal" if letter == "D" else "a change"
        yield (
            f"git has staged {what} of {path}: `git commit` commits it, "
            f"`git reset -- {shlex.quote(path)}` takes it back"
        )


def _refuse_nowhere(repo: Repo) -> NoReturn:
    """Raise where there is nothing that edits could be in."""
    if is_called_kart() and repo.head().commit is None:
        raise _EmptyRepositoryError()
    repo.workspace.require_found()
    error = _no_working_copy() if repo.git.is_kart else _no_workspace()
    if (waiting := repo.status().waiting) is not None and not repo.git.is_kart:
        kind = "merge" if waiting.kind == "squash" else waiting.kind
        raise StateError(
            f"a {kind} waits to be concluded",
            hints=(f"`havasu-vc {kind} --continue` concludes it, `--abort` drops it",),
        )
    error.hints = (*_staged_by_git(repo), *error.hints)
    raise error


def _chosen(filters: Sequence[str], where: str | None, box: str | None) -> tuple[str, ...]:
    """Return the filters that the arguments mean together."""
    datasets = filters_of_edits(named_filters(filters))
    if where is None and box is None:
        return datasets
    if any(":" in each for each in datasets):
        raise click.UsageError("--where and --box go with datasets, not with rows of them")
    if box is not None and ":" in box:
        raise click.UsageError(f"{box!r} is not a box")
    parts = [
        f"{kind}:{text}" for kind, text in (("box", box), ("where", where)) if text is not None
    ]
    return tuple(":".join((each, *parts)) for each in datasets or ("*",))


def is_table(place: str | Path) -> bool:
    """Whether a place with edits is a table of `checkout --to`, and no file."""
    return isinstance(place, str) or (place / "metadata").is_dir()


class _EmptyRepositoryError(click.ClickException):
    """Tells in Kart's words that there is no commit, with Kart's code of no data."""

    exit_code = 42

    def __init__(self) -> None:
        super().__init__("there is no commit yet")


def _no_working_copy() -> NoWorkingCopyError:
    return NoWorkingCopyError(
        "there is no working copy to commit from",
        hints=("`havasu-vc create-workingcopy` makes it",),
    )


def _no_workspace() -> StateError:
    return StateError(
        "there is no workspace to commit from",
        hints=(
            "`havasu-vc checkout` makes one, with a table for each dataset to edit with Spark",
            "`havasu-vc create-workingcopy` makes a GeoPackage to edit in QGIS",
            "`havasu-vc checkout --as FILE.gpkg` writes a copy to edit, and "
            "`havasu-vc commit --from FILE.gpkg` takes the edits back",
            "`havasu-vc apply` and `havasu-vc import --replace` commit changes too",
        ),
    )
