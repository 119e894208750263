"""`havasu-vc checkout`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.branches import find_goal, follow, head_object, open_to_switch, tell_move
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
from havasu_vc.records import dataclass
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.checkouts import CheckoutRequest
    from havasu_vc.cli.forms.results import CheckedOut, Tables, WrittenCopy
    from havasu_vc.library import Repo
    from havasu_vc.repo.results import CheckoutResult, ExportResult

__all__ = ["command", "copy_object", "limit", "tables_object", "tell_tables"]

FLAVOURS = ("havasu", "spark", "iceberg", "auto")


@dataclass(frozen=True, slots=True)
class _Tables:
    """The options that say how tables are to be."""

    flavour: str | None
    refs: bool | None
    copy: bool | None
    layout: str | None
    partition_by: str | None = None
    dataset: str | None = None

    @property
    def given(self) -> bool:
        return (self.flavour, self.refs, self.copy, self.layout) != (None,) * 4

    def request(self) -> CheckoutRequest:
        from havasu_vc.checkouts import CheckoutRequest
        from havasu_vc.formats.iceberg.values import Flavour

        named = None if self.flavour in (None, "auto") else self.flavour
        return CheckoutRequest(
            None if named is None else Flavour(named),
            any_flavour=self.flavour == "auto",
            copy=self.copy,
            refs=self.refs,
            clustered=None if self.layout is None else self.layout == "clustered",
            dataset=self.dataset,
            partition_by=self.partition_by,
        )


@click.command("checkout", cls=Command)
@click.argument("names", metavar="[REV | DATASET...]", nargs=-1, shell_complete=complete_revisions)
@click.option(
    "--to",
    metavar="FOLDER",
    type=PLACE,
    help="Make tables of REV in FOLDER, or in a bucket by its URL; HEAD and the workspace stay.",
)
@click.option(
    "--dataset",
    metavar="DATASET",
    help="With --to, one dataset: FOLDER is its table. With --layout, the one to lay out so.",
)
@click.option(
    "--flavour",
    type=click.Choice(FLAVOURS),
    help="What tables are written for: all readers of Iceberg (the choice of auto), the Havasu"
    " specification to the letter, or the same for Iceberg's Spark.",
)
@click.option("--refs/--no-refs", default=None, help="Show branches and tags in the tables.")
@click.option("--copy/--link", default=None, help="Copy data files, or link them where possible.")
@click.option(
    "--layout",
    type=click.Choice(("clustered", "linked")),
    help="Sort rows anew into files of the tables' own, along a Hilbert curve or by the"
    " partition spec; or have the files of the commits, as is so at first.",
)
@click.option(
    "--partition-by",
    metavar="SPEC",
    help="With --layout clustered, the partition spec, as 'days(at), bucket(16, id)'."
    "  [default: the dataset's]",
)
@click.option("--relocate", is_flag=True, help="Make tables that were moved at home here.")
@click.option(
    "--as",
    "file",
    metavar="FILE.gpkg",
    type=click.Path(path_type=Path),
    help="Write datasets to a GeoPackage to edit; `commit --from` takes the edits back.",
)
@click.option("--ref", metavar="REV", help="With --as, the revision to write.  [default: HEAD]")
@click.option(
    "--overwrite", is_flag=True, help="With --as, replace the file if all in it is committed."
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
    names: tuple[str, ...],
    to: Path | str | None,
    dataset: str | None,
    flavour: str | None,
    refs: bool | None,
    copy: bool | None,
    layout: str | None,
    partition_by: str | None,
    relocate: bool,
    file: Path | None,
    ref: str | None,
    overwrite: bool,
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
    tables = _Tables(flavour, refs, copy, layout, partition_by, dataset)
    if partition_by is not None and layout != "clustered":
        raise click.UsageError("--partition-by goes with --layout clustered")
    if spatial_filter is not None and (file or to or relocate or tables.given):
        raise click.UsageError("--spatial-filter is of the working copy: it goes with REV and -b")
    if file is not None:
        if branch is not None or to is not None or relocate or tables.given:
            raise click.UsageError(
                "--as goes with --ref, --overwrite, --discard-changes and datasets alone"
            )
        if discard and not overwrite:
            raise click.UsageError("--discard-changes goes with --overwrite here")
        _write_copy(invocation, names, file, ref, (overwrite, discard))
        return
    if ref is not None or overwrite:
        raise click.UsageError("--ref and --overwrite go with --as")
    if len(names) > 1:
        raise click.UsageError(f"one revision can be checked out, not {len(names)}")
    if to is None and layout is None and dataset is not None:
        raise click.UsageError("--dataset goes with --to or --layout")
    created = False
    only_head = bool(names or branch) and to is None and not tables.given
    repo = open_to_switch(invocation) if only_head else invocation.open_repo()
    if to is not None:
        if branch is not None or relocate or refs is not None:
            raise click.UsageError("--to goes with none of -b, --relocate and --refs")
        _make_elsewhere(
            invocation, repo, names[0] if names else "HEAD", (to, dataset, discard), tables
        )
        return
    if relocate:
        if names or branch is not None or discard:
            raise click.UsageError("--relocate stands alone")
        _tell(invocation, repo, repo.workspace.relocate())
        return
    if spatial_filter is not None:
        if names and branch is None:
            find_goal(repo, names[0], revisions=True, remotes=guess)
        limit(invocation, repo, spatial_filter, discard=discard)
    if names or branch is not None:
        was = repo.head().commit
        created = _switch(repo, names, branch, discard, guess=guess)
        tell_move(invocation, repo, was, created=created)
        # As in Kart, whose checkout of a revision makes the working copy that there is to be.
        lacks = repo.git.is_kart and not repo.git.is_bare and not repo.workspace.exists
        if not tables.given and spatial_filter is None and not lacks:
            _print(invocation, repo, created=created)
            return
    limited = spatial_filter is not None
    if (repo.git.is_kart or limited) and not tables.given and repo.workspace.living is None:
        _make_karts(invocation, repo)
        return
    if limited:
        _print(invocation, repo, created=created)
        return
    _tell(invocation, repo, repo.workspace.check_out(tables.request(), discard=discard), created)


def limit(invocation: Invocation, repo: Repo, text: str, *, discard: bool) -> None:
    """Limit the working copy to the area that a text means."""
    from havasu_vc.repo.spatial_filters import parse_spatial_filter

    asked = parse_spatial_filter(text, invocation.folder)
    repo.workspace.set_spatial_filter(asked, discard=discard)


def _make_karts(invocation: Invocation, repo: Repo) -> None:
    """Make the working copy of a repository that has none, where it is meant to be."""
    made = repo.workspace.create_living()
    _print(invocation, repo, copy=copy_object(made))
    if not repo.git.is_kart:
        invocation.say(f"Wrote {counted(made.rows, 'row')} to {made.path}")
        invocation.notes(made.notes)
        return
    location = repo.config.get("kart.workingcopy.location") or made.path
    kind = "PostGIS" if "://" in location else "GPKG"
    invocation.say(f"Creating {kind} working copy at {location} ...")
    invocation.notes(made.notes)


def _write_copy(
    invocation: Invocation,
    names: tuple[str, ...],
    file: Path,
    ref: str | None,
    replaced: tuple[bool, bool],
) -> None:
    repo = invocation.open_repo()
    overwrite, discard = replaced
    result = repo.checkout_as(
        file, names, revision=ref or "HEAD", overwrite=overwrite, discard_changes=discard
    )
    _print(invocation, repo, copy=copy_object(result))
    invocation.say(f"Wrote {counted(result.rows, 'row')} to {result.path}")
    invocation.notes(result.notes)
    invocation.say(f"Edit it, then `havasu-vc commit --from {result.path}`")


def _make_elsewhere(
    invocation: Invocation,
    repo: Repo,
    revision: str,
    place: tuple[Path | str, str | None, bool],
    tables: _Tables,
) -> None:
    folder, dataset, discard = place
    result = repo.workspace.check_out_to(
        folder,
        revision,
        dataset=dataset,
        flavour=tables.request().flavour,
        copy=bool(tables.copy),
        discard=discard,
        clustered=tables.layout == "clustered",
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
    repo.switch(branch, create=create, start=start, discard=discard)
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
