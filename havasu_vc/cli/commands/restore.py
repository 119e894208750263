"""`havasu-vc restore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option, message_options
from havasu_vc.cli.results import changes_object, tell_commit
from havasu_vc.errors import DatasetNotFoundError, InvalidArgumentError, NoChangesError
from havasu_vc.library import Repo
from havasu_vc.repo.filters import named_filters

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Restored
    from havasu_vc.repo.results import CommitResult

__all__ = ["command"]


@click.command("restore", cls=Command)
@click.argument("filters", metavar="[FILTER...]", nargs=-1)
@click.option(
    "-s",
    "--source",
    metavar="REV",
    shell_complete=complete_revisions,
    help="Bring things back as they are there.",
)
@click.option(
    "--column",
    "columns",
    metavar="NAME",
    multiple=True,
    help="With --source: bring back only the cells of this column; may be given more than once.",
)
@message_options
@click.option("-n", "--dry-run", is_flag=True, help="Tell what would change, and stop.")
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    filters: tuple[str, ...],
    source: str | None,
    columns: tuple[str, ...],
    message: str | None,
    dry_run: bool,
) -> None:
    """Drop edits of the workspace, or commit things as they are at another revision.

    Without --source, what was edited in the tables of the workspace is dropped, in all or
    in the datasets named. With it, a commit brings back what FILTER names: DATASET,
    DATASET:feature, DATASET:feature:KEY, DATASET:meta or DATASET:meta:ITEM; without one,
    all datasets. With --column only cells of that column come back, in rows that are at
    both revisions. A dataset that was deleted comes back; one that is not at the other
    revision goes. Where `create-workingcopy` made a working copy and no message is given,
    this is done in that, and nothing is committed.
    """
    repo = invocation.open_repo()
    filters = named_filters(filters)
    if is_called_kart() and message is None:
        known = set(repo.datasets()) | set(() if source is None else repo.datasets(source))
        there = tuple(each for each in filters if each.partition(":")[0].strip("/") in known)
        if filters and not there:
            return  # Kart looks for nothing else
        filters = there
        if source is not None and repo.workspace.exists:
            wanted = [each.strip("/") for each in filters if ":" not in each]
            names = sorted(set(wanted if filters else repo.datasets()) & set(repo.datasets()))
            if names:
                repo.workspace.discard(names)
    if source is None:
        if message is not None:
            raise click.UsageError("-m goes with --source; dropping edits makes no commit")
        if columns:
            raise click.UsageError("--column goes with --source; edits are dropped by dataset")
        _drop_edits(invocation, repo, filters, dry_run=dry_run)
        return
    result = repo.restore(filters, source=source, message=message, dry_run=dry_run, columns=columns)
    if result.commit is None and not (dry_run or result.as_edits):
        raise NoChangesError(f"there is nothing to restore: it is as it is at {source}")
    _print(invocation, result, dry_run=dry_run)
    tell_commit(invocation, repo, result, dry_run=dry_run, form=False)


def _drop_edits(
    invocation: Invocation, repo: Repo, filters: tuple[str, ...], *, dry_run: bool
) -> None:
    for each in filters:
        if ":" in each:
            raise InvalidArgumentError(
                f"edits of the workspace are dropped by dataset, not by {each!r}",
                hints=("with --source, a commit brings rows and meta items back",),
            )
    repo.workspace.require_found()
    known = repo.datasets()
    for each in filters:
        if not repo.workspace.exists and each.strip("/") not in known:
            raise DatasetNotFoundError(each)
    # Without tables there are no edits to drop.
    dropped = repo.workspace.discard(filters, dry_run=dry_run) if repo.workspace.exists else ()
    _print(invocation, None, dropped, dry_run=dry_run)
    what = "Would drop" if dry_run else "Dropped"
    if not dropped:
        invocation.say(
            "Nothing to restore: nothing is edited; `--source REV` commits things as they are there"
        )
    for path in dropped:
        invocation.say(f"{what} the edits of {path}")


def _print(
    invocation: Invocation,
    result: CommitResult | None,
    dropped: Sequence[str] = (),
    *,
    dry_run: bool,
) -> None:
    value: Restored = {
        "dropped": list(dropped),
        "commit": None if result is None else result.commit,
        "changes": {} if result is None else changes_object(result.changes),
        "asEdits": result is not None and result.as_edits,
        "dryRun": dry_run,
    }
    invocation.result("havasu.restore/v1", value)
