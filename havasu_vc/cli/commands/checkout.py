"""`havasu-vc checkout`."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from havasu_vc.checkouts import CheckoutRequest
from havasu_vc.cli.as_kart import is_called_kart, stop_while_merging
from havasu_vc.cli.branches import (
    find_goal,
    follow,
    head_object,
    is_unborn,
    open_to_switch,
    tell_move,
    tell_parts,
    tell_update,
)
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.counts import counted
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import (
    PLACE,
    Command,
    engine_option,
    json_option,
    spatial_filter_option,
)
from havasu_vc.cli.requests import Spelt, takes
from havasu_vc.errors import RevisionNotFoundError
from havasu_vc.records import dataclass
from havasu_vc.transfer import CopyRequest
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import CheckedOut, Tables, WrittenCopy
    from havasu_vc.library import Repo
    from havasu_vc.repo.results import CheckoutResult, ExportResult

__all__ = ["command", "copy_object", "limit", "tables_object", "tell_karts", "tell_tables"]

FLAVOURS = ("havasu", "spark", "iceberg", "auto")


@click.command("checkout", cls=Command)
@click.argument("names", metavar="[REV | DATASET...]", nargs=-1, shell_complete=complete_revisions)
@click.option(
    "--to",
    metavar="FOLDER",
    type=PLACE,
    help="Make tables of REV in FOLDER, or in a bucket by its URL; HEAD and the workspace stay.",
)
@takes(
    CheckoutRequest,
    "tables",
    flavour=Spelt(type=click.Choice(FLAVOURS)),
    copy=Spelt("--copy/--link"),
    refs=Spelt("--refs/--no-refs"),
    clustered=Spelt(
        "--layout",
        type=click.Choice(("clustered", "linked")),
        parse=lambda layout: layout == "clustered",
    ),
    dataset=Spelt(metavar="DATASET"),
    partition_by=Spelt(metavar="SPEC"),
)
@click.option("--relocate", is_flag=True, help="Make tables that were moved at home here.")
@takes(
    CopyRequest,
    "copied",
    file=Spelt(
        "--as",
        metavar="FILE.gpkg",
        type=click.Path(path_type=Path),
        help="Write datasets to a GeoPackage to edit; `commit --from` takes the edits back.",
    ),
    revision=Spelt("--ref", metavar="REV"),
    without=("datasets", "discard_changes"),
)
@click.option(
    "--not-dataset",
    "leave",
    metavar="DATASET",
    multiple=True,
    help="Leave a dataset out of the working copy, from now on; --dataset takes it in again.",
)
@click.option("-b", "branch", metavar="NAME", help="Make a branch and switch to it.")
@spatial_filter_option
@click.option("--guess/--no-guess", default=True, help="Make a branch that only a remote has.")
@click.option(
    "-f", "--force", "--discard-changes", "discard", is_flag=True, help="Drop edits in the way."
)
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    tables: CheckoutRequest | None,
    copied: CopyRequest | None,
    names: tuple[str, ...],
    to: Path | str | None,
    relocate: bool,
    leave: tuple[str, ...],
    branch: str | None,
    spatial_filter: str | None,
    guess: bool,
    discard: bool,
) -> None:
    r"""Make tables of the datasets, or switch to a revision.

    `checkout` puts each dataset of HEAD at tables/DATASET, as a Havasu table that Spark
    reads and writes; from then on the tables follow HEAD. `checkout REV` puts HEAD on a
    branch, or on a commit by itself. `checkout --as FILE.gpkg [DATASET...]` leaves HEAD
    alone and writes datasets (all, if none is named) to a GeoPackage that QGIS can edit
    and that remembers the commit it is of. With --spatial-filter the working copy that
    `create-workingcopy` makes has the rows of an area, and is made if there is none.

    \b
    havasu-vc checkout                                the datasets of HEAD as tables
    havasu-vc checkout --as parcels.gpkg parcels      a copy to edit in QGIS
    havasu-vc checkout v1 --to ../v1                  tables of another revision, elsewhere
    """
    if tables is not None and tables.partition_by is not None and not tables.clustered:
        raise click.UsageError("--partition-by goes with --layout clustered")
    if spatial_filter is not None and (copied or to or relocate or tables):
        raise click.UsageError("--spatial-filter is of the working copy: it goes with REV and -b")
    if copied is not None:
        if branch is not None or to is not None or relocate or tables is not None:
            raise click.UsageError(
                "--as goes with --ref, --overwrite, --discard-changes and datasets alone"
            )
        _write_copy(invocation, replace(copied, datasets=names, discard_changes=discard))
        return
    _require_revision(names)
    if to is not None:
        if branch is not None or relocate or (tables is not None and tables.refs is not None):
            raise click.UsageError("--to goes with none of -b, --relocate and --refs")
        _make_elsewhere(invocation, names[0] if names else "HEAD", to, tables, discard=discard)
        return
    take, tables = _taken_again(tables)
    if leave and (relocate or tables is not None):
        raise click.UsageError("--not-dataset is of the working copy: it goes with REV and -b")
    if is_called_kart():  # to which what is empty is not given
        names, branch = tuple(filter(None, names)), branch or None
    here = _Here(tables, names, branch, take, leave, spatial_filter, guess, discard)
    moves = bool(names or branch)
    repo = open_to_switch(invocation) if moves and tables is None else invocation.open_repo()
    stop_while_merging(repo.git)
    if not relocate:
        here.check_out(invocation, repo)
    elif moves or discard:
        raise click.UsageError("--relocate stands alone")
    else:
        _tell(invocation, repo, repo.workspace.relocate())


def _require_revision(names: tuple[str, ...]) -> None:
    """Raise where what is named is no revision, or more than one."""
    if names and names[0].lower().endswith(".gpkg"):
        raise click.UsageError(
            f"{names[0]} is no revision: `havasu-vc checkout --as {shlex.quote(names[0])}` "
            f"writes a copy to edit"
        )
    if len(names) > 1:
        raise click.UsageError(
            f"{names[0]!r} is checked out, and no other revision beside it, as {names[1]!r}"
        )


def _taken_again(
    tables: CheckoutRequest | None,
) -> tuple[tuple[str, ...], CheckoutRequest | None]:
    """Return the datasets that the working copy takes in again, and what is asked of tables."""
    if tables is None or tables.dataset is None or tables.clustered is not None:
        return (), tables
    if tables != CheckoutRequest(dataset=tables.dataset):
        raise click.UsageError("--dataset goes with --to or --layout, or with no such option")
    return (tables.dataset,), None


@dataclass(frozen=True, slots=True)
class _Here:
    """A checkout in the work tree: where HEAD goes, and what is made there."""

    tables: CheckoutRequest | None
    names: tuple[str, ...]
    branch: str | None
    take: tuple[str, ...]
    leave: tuple[str, ...]
    spatial_filter: str | None
    guess: bool
    discard: bool

    def _new_branch(self, repo: Repo) -> str | None:
        """Return the branch to make; to Kart none where what is named is a branch of a remote.

        It makes that branch then, of the remote's name.
        """
        if self.branch is None or not self.names or not (is_called_kart() and self.guess):
            return self.branch
        goal = find_goal(repo, self.names[0], revisions=True)
        return self.branch if goal.remote is None else None

    def check_out(self, invocation: Invocation, repo: Repo) -> None:
        """Move HEAD where that is asked, then make what is to be there."""
        limited, chosen = self.spatial_filter is not None, bool(self.take or self.leave)
        written = self.discard
        if chosen and not repo.git.is_kart and repo.workspace.living is None:
            raise click.UsageError(
                "--dataset and --not-dataset go with a working copy, which `havasu-vc "
                "create-workingcopy` makes; --dataset also with --to and --layout"
            )
        moves = bool(self.names or self.branch)
        if chosen and moves and is_called_kart():
            self._require_choice(repo)
        if self.spatial_filter is not None:
            if self.names and self.branch is None:
                find_goal(repo, self.names[0], revisions=True, remotes=self.guess)
            written |= limit(invocation, repo, self.spatial_filter, discard=self.discard)
        created = told = False
        if is_called_kart() and self.branch is None and repo.head().commit is None:
            if self.names and is_unborn(repo, self.names[0]):
                return
            raise RevisionNotFoundError(self.names[0] if self.names else "HEAD")
        if moves:
            was = repo.head().commit
            branch = self._new_branch(repo)
            created = _switch(repo, self.names, branch, self.discard, guess=self.guess)
            start = self.names[0] if self.names and branch is not None else None
            told = written or repo.head().commit != was
            tell_move(invocation, repo, was, created=created, start=start, written=written)
            written = False
            # As in Kart, whose checkout of a revision makes the working copy that there is to be.
            lacks = repo.git.is_kart and not repo.git.is_bare and not repo.workspace.exists
            if self.tables is None and not (limited or lacks or chosen):
                _print(invocation, repo, created=created)
                return
        if chosen:
            before = repo.workspace.left_out
            repo.workspace.choose_datasets(self.take, self.leave, discard=self.discard)
            if repo.workspace.left_out != before and not told:
                tell_update(invocation, repo)
            if repo.workspace.living is not None or self._leaves_nothing(repo):
                _print(invocation, repo, created=created)
                return
        if is_called_kart() and repo.git.is_bare and self.tables is None:
            return  # in Kart there is nothing to be made
        if (repo.git.is_kart or limited) and self.tables is None and repo.workspace.living is None:
            _make_karts(invocation, repo)
        elif limited:
            _print(invocation, repo, created=created)
            if written:
                tell_update(invocation, repo)
        else:
            made = repo.workspace.check_out(self.tables, discard=self.discard)
            _tell(invocation, repo, made, created)
            if self.discard:
                tell_update(invocation, repo)

    def _require_choice(self, repo: Repo) -> None:
        """Raise before anything moves, as Kart does, where a choice of datasets cannot be met."""
        revision = self.names[0] if self.names else "HEAD"
        try:
            repo.workspace.require_datasets(self.take, self.leave, revision)
        except RevisionNotFoundError:
            return  # a branch that only a remote has, perhaps
        if self.leave and not self.discard and repo.workspace.living is not None:
            repo.workspace.require_clean_in_karts()

    def _leaves_nothing(self, repo: Repo) -> bool:
        """Whether no dataset is left for a working copy, of which Kart then makes none."""
        return is_called_kart() and set(repo.datasets()) <= set(repo.workspace.left_out)


def limit(invocation: Invocation, repo: Repo, text: str, *, discard: bool) -> bool:
    """Limit the working copy to the area that a text means; return whether it is written anew."""
    from havasu_vc.repo.spatial_filters import parse_spatial_filter

    asked = parse_spatial_filter(text, invocation.here)
    return repo.workspace.set_spatial_filter(asked, discard=discard)


def tell_karts(invocation: Invocation, repo: Repo, made: ExportResult) -> None:
    """Tell of a working copy that was made as Kart does."""
    location = repo.config.get("kart.workingcopy.location") or made.path
    kind = "PostGIS" if "://" in location else "GPKG"
    invocation.say(f"Creating {kind} working copy at {location} ...")
    if is_called_kart():
        tell_parts(invocation, repo)
    invocation.notes(made.notes)


def _make_karts(invocation: Invocation, repo: Repo) -> None:
    """Make the working copy of a repository that has none, where it is meant to be."""
    made = repo.workspace.create_living()
    _print(invocation, repo, copy=copy_object(made))
    if not repo.git.is_kart:
        invocation.say(f"Wrote {counted(made.rows, 'row')} to {made.path}")
        invocation.notes(made.notes)
        return
    tell_karts(invocation, repo, made)


def _write_copy(invocation: Invocation, request: CopyRequest) -> None:
    if cast("Path | None", request.file) is None:
        raise click.UsageError("--ref and --overwrite go with --as")
    if request.discard_changes and not request.overwrite:
        raise click.UsageError("--discard-changes goes with --overwrite here")
    repo = invocation.open_repo()
    result = repo.checkout_as.by(request)
    _print(invocation, repo, copy=copy_object(result))
    invocation.say(f"Wrote {counted(result.rows, 'row')} to {result.path}")
    invocation.notes(result.notes)
    invocation.say(f"Edit it, then `havasu-vc commit --from {shlex.quote(result.path)}`")


def _make_elsewhere(
    invocation: Invocation,
    revision: str,
    folder: Path | str,
    tables: CheckoutRequest | None,
    *,
    discard: bool,
) -> None:
    from havasu_vc.checkouts import parse_flavour

    repo = invocation.open_repo()
    tables = tables or CheckoutRequest()
    result = repo.workspace.check_out_to(
        folder,
        revision,
        dataset=tables.dataset,
        flavour=None if tables.flavour is None else parse_flavour(tables.flavour),
        copy=bool(tables.copy),
        discard=discard,
        clustered=bool(tables.clustered),
        partition_by=tables.partition_by,
    )
    _tell(invocation, repo, result)


def _switch(
    repo: Repo, names: tuple[str, ...], branch: str | None, discard: bool, *, guess: bool
) -> bool:
    """Switch, and return whether a branch was made."""
    if branch is None:
        # Kart puts HEAD on a branch whose whole name is given, where git takes its commit.
        name = names[0].removeprefix("refs/heads/") if is_called_kart() else names[0]
        goal = find_goal(repo, name, revisions=True, remotes=guess)
        branch, start, create = goal.name, goal.remote, goal.remote is not None
    else:
        start, create = names[0] if names else None, True
    try:
        repo.switch(branch, create=create, start=start, discard=discard)
    except RevisionNotFoundError as error:
        if error.revision in repo.datasets():
            error.hints = (
                f"{error.revision} is a dataset: `havasu-vc restore "
                f"{shlex.quote(error.revision)}` drops its "
                "edits, `havasu-vc checkout` alone makes tables of all",
            )
        raise
    follow(repo, branch, start)
    return create


def _tell(
    invocation: Invocation, repo: Repo, result: CheckoutResult, created: bool = False
) -> None:
    _print(invocation, repo, created=created, tables=tables_object(result))
    tell_tables(invocation, result)


def _print(
    invocation: Invocation,
    repo: Repo,
    *,
    created: bool = False,
    tables: Tables | None = None,
    copy: WrittenCopy | None = None,
) -> None:
    if invocation.json is not None:
        head = head_object(repo)
        value: CheckedOut = {**head, "created": created, "tables": tables, "copy": copy}
        invocation.result("havasu.checkout/v1", value)


def tables_object(result: CheckoutResult) -> Tables:
    """Return the tables of a checkout for programs."""
    return {
        "root": str(result.root),
        "commit": result.commit,
        "tables": list(result.tables),
        "changed": list(result.changed),
        "removed": list(result.removed),
        "kept": list(result.kept),
        "notes": list(result.notes),
    }


def copy_object(result: ExportResult) -> WrittenCopy:
    """Return a file that was written for programs."""
    return {"path": str(result.path), "rows": result.rows, "notes": list(result.notes)}


def tell_tables(invocation: Invocation, result: CheckoutResult) -> None:
    """Tell where tables are now, and what could not be done."""
    at = "" if result.commit is None else f" at {result.commit[:ABBREVIATED]}"
    count = counted(len(result.tables), "table")
    said = "Checked out" if result.changed else "Nothing to do:"
    place = str(result.root)
    if isinstance(result.root, Path):
        near = os.path.relpath(result.root)
        place = near if len(near) < len(place) else place
    invocation.say(f"{said} {count}{at} in {place}")
    for path in result.changed:
        invocation.detail(f"  {path}")
    invocation.notes(result.notes)
