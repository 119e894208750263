"""What `revert` and `cherry-pick` have in common: their options, and what they tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from havasu_vc.cli.counts import change_lines, counted
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import engine_option, message_options
from havasu_vc.writers.commits import ABBREVIATED

if TYPE_CHECKING:
    from havasu_vc.repo import Repo
    from havasu_vc.repo.merging import MergeResult

__all__ = ["conclude", "pick_options", "tell_pick"]

_F = TypeVar("_F", bound=Callable[..., Any])


def pick_options(function: _F) -> _F:
    """Add the options of both commands."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--mainline",
        metavar="N",
        type=click.IntRange(1),
        help="Of a merge, what it changed of its parent N; 1 is the branch merged into.",
    ),
    message_options,
    click.option("-n", "--dry-run", is_flag=True, help="Tell what would happen, and stop."),
    click.option(
        "-X",
        "policies",
        metavar="POLICY",
        multiple=True,
        help="Decide conflicts: ours, theirs, COLUMN=ours, COLUMN=theirs, or fill-nulls.",
    ),
    click.option("--continue", "go_on", is_flag=True, help="Conclude what waits."),
    click.option("--abort", is_flag=True, help="Drop what waits."),
    engine_option,
)


def conclude(invocation: Invocation, repo: Repo, *, message: str | None, abort: bool) -> None:
    """Conclude or drop what waits for its conflicts to be resolved."""
    if abort:
        repo.abort_merge()
        invocation.say("It is dropped; HEAD is where it was")
    else:
        tell_pick(invocation, repo, repo.continue_merge(message=message), dry_run=False)


def tell_pick(invocation: Invocation, repo: Repo, result: MergeResult, *, dry_run: bool) -> None:
    """Tell what was committed, or what is in conflict."""
    if result.kind == "conflicts":
        for each in result.conflicts:
            invocation.say(f"  {each.path}: {counted(each.unresolved, 'conflict')}")
        if dry_run:
            invocation.say("There would be conflicts")
            return
        invocation.say("Nothing is committed before the conflicts are resolved:")
        invocation.say("  `havasu-vc conflicts` shows them, `havasu-vc resolve` settles them,")
        invocation.say("  `havasu-vc merge --continue` concludes it, `--abort` drops it")
    elif result.kind == "empty":
        invocation.say("Nothing to commit: HEAD has it like that already")
    elif dry_run:
        invocation.say("There would be no conflicts")
    elif result.commit is not None:
        subject = repo.commit_info(result.commit).message.partition("\n")[0]
        where = repo.head_branch or "detached HEAD"
        invocation.say(f"[{where} {result.commit[:ABBREVIATED]}] {subject}")
        for line in change_lines(result.changes):
            invocation.say(line)
