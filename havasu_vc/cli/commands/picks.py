"""`havasu-vc cherry-pick` and `revert`, and what `rebase` has in common with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from havasu_vc.cli.branches import head_object
from havasu_vc.cli.completing import complete_revisions
from havasu_vc.cli.counts import change_lines, counted
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import (
    Command,
    engine_option,
    gathered,
    json_option,
    message_options,
    no_edit_option,
)
from havasu_vc.cli.requests import DRY_RUN, POLICY, Spelt, takes
from havasu_vc.cli.results import changes_object, merged_lines
from havasu_vc.merging import PickRequest
from havasu_vc.records import dataclass
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Fetched, Picked, PickedSeveral, Pulled
    from havasu_vc.library import Repo
    from havasu_vc.merging import MergeResult

__all__ = ["GoingOn", "cherry_pick", "go_on", "pick", "pick_options", "revert", "tell_sequence"]


_F = TypeVar("_F", bound=Callable[..., Any])


def pick_options(*without: str) -> Callable[[_F], _F]:
    """Add the options of both commands, but for fields of the request that one has not."""
    options: tuple[Callable[[Any], Any], ...] = (
        takes(
            PickRequest,
            mainline=Spelt(metavar="N", type=click.IntRange(1)),
            record=Spelt("-x"),
            dry_run=DRY_RUN,
            policy=POLICY,
            without=("revision", "message", *without),
        ),
        message_options,
        no_edit_option,
        click.option("--continue", "go_on", is_flag=True, help="Conclude what waits, and go on."),
        click.option("--skip", is_flag=True, help="Leave out the commit that waits, and go on."),
        click.option("--abort", is_flag=True, help="Drop what waits; the branch is where it was."),
        engine_option,
        json_option,
    )

    def add(function: _F) -> _F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


@dataclass(frozen=True, slots=True)
class GoingOn:
    """The options that say what becomes of what waits since an earlier call."""

    go_on: bool
    """Whether to conclude it."""
    skip: bool
    """Whether to leave it out."""
    abort: bool
    """Whether to drop it."""


def pick(
    invocation: Invocation,
    what: str,
    revisions: Sequence[str],
    request: PickRequest,
    options: GoingOn,
) -> None:
    """Revert or cherry-pick commits, or conclude, skip or drop what waits."""
    if sum((bool(revisions), options.go_on, options.skip, options.abort)) != 1:
        raise click.UsageError("give a commit, --continue, --skip or --abort")
    request = _with_mainline(request)
    repo = invocation.open_repo()
    if not revisions:
        go_on(invocation, repo, what, options, message=request.message)
        return
    if len(revisions) > 1 or _is_range(revisions[0]):
        if request.message is not None or request.dry_run:
            raise click.UsageError("-m and --dry-run are for one commit, not for several")
        before = repo.head().commit
        result = repo.pick_several(
            what,
            revisions,
            mainline=request.mainline,
            record=request.record,
            policy=request.policy,
        )
        tell_sequence(invocation, repo, what, result, before)
        return
    request = replace(request, revision=revisions[0])
    result = (repo.revert if what == "revert" else repo.cherry_pick).by(request)
    if invocation.json is not None:
        invocation.result(f"havasu.{what}/v1", _pick_object(repo, result, dry_run=request.dry_run))
    else:
        _tell(invocation, repo, result, dry_run=request.dry_run, what=what)


def _with_mainline(request: PickRequest) -> PickRequest:
    """Read `-m 1` as git does: nobody means a message by it."""
    text = request.message
    if text is not None and text.isascii() and text.isdigit() and request.mainline is None:
        return replace(request, message=None, mainline=int(text))
    return request


def _is_range(text: str) -> bool:
    return ".." in text or text.startswith("^")


def go_on(
    invocation: Invocation,
    repo: Repo,
    what: str,
    options: GoingOn,
    *,
    message: str | None = None,
) -> None:
    """Conclude, leave out or drop what waits."""
    if options.abort:
        repo.abort_merge()
        invocation.result("havasu.head/v1", head_object(repo))
        invocation.say("It is dropped; HEAD is where it was")
        return
    before = repo.head().commit
    result = repo.skip_commit() if options.skip else repo.continue_merge(message=message)
    if result.kind == "skipped":
        invocation.result("havasu.head/v1", head_object(repo))
        invocation.say("It is left out; HEAD is where it was")
        return
    tell_sequence(invocation, repo, what, result, before)


def tell_sequence(
    invocation: Invocation,
    repo: Repo,
    what: str,
    result: MergeResult,
    before: str | None,
    fetched: Fetched | None = None,
) -> None:
    """Tell which commits were made since HEAD was at `before`, and what waits.

    What was `fetched` before stands in the JSON with it.
    """
    new = [] if before is None else list(repo.log(f"{before}..HEAD"))[::-1]
    if invocation.json is not None:
        value: PickedSeveral = {
            **_pick_object(repo, result, dry_run=False),
            "commits": [info.id for info in new],
        }
        if fetched is None:
            invocation.result(f"havasu.{what}/v1", value)
        else:
            pulled: Pulled = {"fetch": fetched, "merge": None, "rebase": value}
            invocation.result("havasu.pull/v1", pulled)
        return
    where = repo.head_branch or "detached HEAD"
    for info in new:
        subject = info.message.partition("\n")[0]
        invocation.say(f"[{where} {info.id[:ABBREVIATED]}] {subject}")
    if result.kind == "conflicts":
        _tell(invocation, repo, result, dry_run=False, what=what)
        return
    if what == "rebase":
        invocation.say(f"Successfully rebased and updated {where}.")
    elif not new:
        invocation.say("Nothing to commit: HEAD has it like that already")
    for line in change_lines(result.changes):
        invocation.say(line)


def _pick_object(repo: Repo, result: MergeResult, *, dry_run: bool) -> Picked:
    from havasu_vc.merging import conflict_counts
    from havasu_vc.writers.conflicts import counts_object

    commit = None if result.kind in ("empty", "up-to-date") else result.commit
    return {
        "commit": commit,
        "abbrevCommit": commit and commit[:ABBREVIATED],
        "branch": repo.head_branch,
        "message": commit and repo.commit_info(commit).message,
        "changes": changes_object(result.changes),
        "conflicts": counts_object(conflict_counts(result.conflicts)) or None,
        "noOp": result.kind in ("empty", "up-to-date"),
        "dryRun": dry_run,
    }


def _tell(
    invocation: Invocation, repo: Repo, result: MergeResult, *, dry_run: bool, what: str
) -> None:
    """Tell what was committed, or what is in conflict."""
    if result.kind == "conflicts":
        for each in result.conflicts:
            invocation.say(f"  {each.path}: {counted(each.unresolved, 'conflict')}")
        if dry_run:
            invocation.say("There would be conflicts")
            return
        invocation.say("Nothing is committed before the conflicts are resolved:")
        invocation.say("  `havasu-vc conflicts` shows them, `havasu-vc resolve` settles them,")
        invocation.say(f"  `havasu-vc {what} --continue` concludes it, `--skip` leaves it out,")
        invocation.say("  `--abort` drops it all")
    elif result.kind == "empty":
        invocation.say("Nothing to commit: HEAD has it like that already")
    elif dry_run:
        invocation.say("There would be no conflicts")
    elif result.commit is not None:
        subject = repo.commit_info(result.commit).message.partition("\n")[0]
        where = repo.head_branch or "detached HEAD"
        invocation.say(f"[{where} {result.commit[:ABBREVIATED]}] {subject}")
        for line in merged_lines(repo, result):
            invocation.say(line)


@click.command("cherry-pick", cls=Command)
@click.argument("revisions", metavar="[REV]...", nargs=-1, shell_complete=complete_revisions)
@pick_options()
@click.pass_obj
@gathered(GoingOn)
def cherry_pick(
    invocation: Invocation,
    /,
    request: PickRequest,
    revisions: tuple[str, ...],
    options: GoingOn,
) -> None:
    """Commit on the current branch what the commit REV changed, as its author's.

    Rows are merged cell by cell. What is in conflict waits, as with a merge, until
    `resolve` decides it. With several commits, or those of A..B, each is committed on its
    own; it stops at the first that is in conflict.
    """
    pick(invocation, "cherry-pick", revisions, request, options)


@click.command("revert", cls=Command)
@click.argument("revisions", metavar="[REV]...", nargs=-1, shell_complete=complete_revisions)
@pick_options("record")
@click.pass_obj
@gathered(GoingOn)
def revert(
    invocation: Invocation,
    /,
    request: PickRequest,
    revisions: tuple[str, ...],
    options: GoingOn,
) -> None:
    """Commit the opposite of what the commit REV changed.

    Rows are merged cell by cell with what came since. What is in conflict waits, as with
    a merge, until `resolve` decides it. With several commits, or those of A..B, each is taken
    back by a commit of its own; it stops at the first that is in conflict.
    """
    pick(invocation, "revert", revisions, request, options)
