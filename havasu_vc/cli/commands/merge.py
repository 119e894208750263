"""`havasu-vc merge`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.arguments import parse_assignment
from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.commands.switch import head_object
from havasu_vc.cli.completing import complete_branches
from havasu_vc.cli.counts import change_lines
from havasu_vc.cli.errors import EXIT_CODES
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, engine_option, json_option, message_options
from havasu_vc.errors import ErrorKind, InvalidArgumentError

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Fetched, Pulled
    from havasu_vc.history.conflicts import MergePolicy
    from havasu_vc.library import Repo
    from havasu_vc.merging import MergeResult
    from havasu_vc.model.diffs import MergeContext
    from havasu_vc.writers.merges import MergeReport

__all__ = ["command", "configured_fast_forward", "merge_and_tell"]

CONFLICT = EXIT_CODES[ErrorKind.CONFLICT]


@click.command("merge", cls=Command)
@click.argument("revision", metavar="[REV]...", nargs=-1, shell_complete=complete_branches)
@click.option(
    "--ff/--no-ff",
    "fast_forward",
    default=None,
    help="Only move the branch where it has no commits of its own.  [default: merge.ff, or yes]",
)
@click.option("--ff-only", is_flag=True, help="Refuse what is no fast-forward.")
@click.option("--squash", is_flag=True, help="Make a commit with one parent.")
@click.option("-n", "--dry-run", is_flag=True, help="Tell what would happen, and stop.")
@message_options
@click.option(
    "-X",
    "policies",
    metavar="POLICY",
    multiple=True,
    help="Decide conflicts: ours, theirs, COLUMN=ours, COLUMN=theirs, or fill-nulls, by which"
    " a null yields to a value. May be repeated.",
)
@click.option(
    "--fail-on-conflict", is_flag=True, help=f"Exit with {CONFLICT} on conflicts, and keep none."
)
@click.option(
    "--into",
    metavar="BRANCH",
    help="Merge into this branch, and leave HEAD where it is; implies --fail-on-conflict.",
)
@click.option("--continue", "go_on", is_flag=True, help="Conclude the merge that waits.")
@click.option("--abort", is_flag=True, help="Drop the merge that waits.")
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    revision: tuple[str, ...],
    fast_forward: bool | None,
    ff_only: bool,
    squash: bool,
    dry_run: bool,
    message: str | None,
    policies: tuple[str, ...],
    fail_on_conflict: bool,
    into: str | None,
    go_on: bool,
    abort: bool,
) -> int:
    """Bring the changes of REV, usually a branch, into the current branch.

    Rows are merged cell by cell: different columns of one row merge, equal edits count
    once. What both sides changed differently waits until `resolve` decides it; nothing
    moves before `merge --continue`. The exit code is 0 then, as in Kart.
    """
    if sum((bool(revision), go_on, abort)) != 1:
        raise click.UsageError("give a revision to merge, --continue or --abort")
    repo = invocation.open_repo()
    if abort:
        repo.abort_merge()
        invocation.result("havasu.head/v1", head_object(repo))
        invocation.say("The merge is dropped; HEAD is where it was")
        return 0
    if go_on:
        _continue(invocation, repo, message)
        return 0
    if len(revision) > 1:
        raise InvalidArgumentError(
            "only one revision can be merged at a time",
            hints=("merge one after the other: " + ", then ".join(revision),),
        )
    if ff_only and fast_forward is False:
        raise click.UsageError("--no-ff and --ff-only contradict each other")
    wanted = {None: configured_fast_forward(repo, "merge.ff"), True: "auto", False: "never"}
    (name,) = revision
    return merge_and_tell(
        invocation,
        repo,
        name,
        fail_on_conflict=fail_on_conflict or into is not None,
        into=into,
        message=message,
        fast_forward="only" if ff_only else wanted[fast_forward],
        squash=squash,
        dry_run=dry_run,
        policy=parse_policy(policies),
    )


def configured_fast_forward(repo: Repo, *names: str) -> str:
    """Return what git's settings say of fast-forwards, the first that says something."""
    for name in names:
        if (value := repo.config.get(name)) is not None:
            return "only" if value == "only" else "auto" if repo.config.boolean(name) else "never"
    return "auto"


def merge_and_tell(
    invocation: Invocation,
    repo: Repo,
    name: str,
    *,
    fast_forward: str = "auto",
    message: str | None = None,
    squash: bool = False,
    dry_run: bool = False,
    policy: MergePolicy | None = None,
    fail_on_conflict: bool = False,
    into: str | None = None,
    fetched: Fetched | None = None,
) -> int:
    """Merge a revision into HEAD or a branch, tell what came of it, and return the exit code.

    What was `fetched` before stands in the JSON with it.
    """
    context = repo.merge_context(name, into=into)
    result = repo.merge(
        name,
        message=message,
        fast_forward=fast_forward,
        squash=squash,
        dry_run=dry_run,
        policy=policy,
        into=into,
    )
    refused = bool(result.conflicts) and fail_on_conflict
    if refused and not dry_run and repo.status().waiting is not None:
        repo.abort_merge()
    if context is not None:
        text = _message(repo, result, message, name, context)
        report = _report(result, context, text, dry_run=dry_run, waits=not refused)
        _tell(invocation, report, result, fetched)
    if refused and is_called_kart():
        click.echo("Error: Merge failed due to conflicts", err=True)
    return CONFLICT if refused else 0


def parse_policy(texts: Sequence[str]) -> MergePolicy:
    """Return how conflicts are decided without asking.

    >>> parse_policy(["height=theirs", "fill-nulls"]).columns
    {'height': <Side.THEIRS: 'theirs'>}
    """
    from havasu_vc.history.conflicts import MergePolicy, Side

    side, fill_nulls = None, False
    columns = {}
    for text in texts:
        if text == "fill-nulls":
            fill_nulls = True
            continue
        name, choice = ("", text) if "=" not in text else parse_assignment(text)
        if choice not in ("ours", "theirs"):
            raise InvalidArgumentError(
                f"-X {text} decides nothing",
                hints=("write ours, theirs, fill-nulls, COLUMN=ours or COLUMN=theirs",),
            )
        if name:
            columns[name] = Side(choice)
        elif side not in (None, Side(choice)):
            raise InvalidArgumentError("-X ours and -X theirs contradict each other")
        else:
            side = Side(choice)
    return MergePolicy(side, columns, fill_nulls)


def _continue(invocation: Invocation, repo: Repo, message: str | None) -> None:
    waiting = repo.status().waiting
    result = repo.continue_merge(message=message)
    if result.conflicts:
        # Git stopped; it is now that it is known what is in conflict.
        waiting = repo.status().waiting
    if waiting is not None:
        text = message or waiting.message
        report = _report(result, waiting.context, text, dry_run=False, waits=True)
        _tell(invocation, report, result)
    elif result.commit is not None:
        invocation.result("havasu.head/v1", head_object(repo))
        invocation.say(f"Merge committed as {result.commit}")


def _message(
    repo: Repo, result: MergeResult, given: str | None, name: str, context: MergeContext
) -> str | None:
    if result.kind in ("up-to-date", "fast-forward"):
        return given
    if result.commit is not None:
        return repo.commit_info(result.commit).message
    if given is not None:
        return given
    branch = context.ours.branch
    return f'Merge branch "{name}" into {branch}' if branch else f'Merge "{name}"'


def _report(
    result: MergeResult, context: MergeContext, message: str | None, *, dry_run: bool, waits: bool
) -> MergeReport:
    from havasu_vc.merging import conflict_counts
    from havasu_vc.writers.merges import MergeReport

    return MergeReport(
        result.kind,
        result.commit,
        context,
        message,
        conflict_counts(result.conflicts),
        dry_run=dry_run,
        waits=waits,
    )


def _tell(
    invocation: Invocation,
    report: MergeReport,
    result: MergeResult,
    fetched: Fetched | None = None,
) -> None:
    from havasu_vc.writers.merges import merge_lines, merge_object

    if invocation.json is not None:
        merge = merge_object(report)["kart.merge/v1"]
        if fetched is None:
            invocation.result("kart.merge/v1", merge)
        else:
            pulled: Pulled = {"fetch": fetched, "merge": merge, "rebase": None}
            invocation.result("havasu.pull/v1", pulled)
        return
    for line in merge_lines(report):
        invocation.say(line)
    if not report.conflicts:
        for line in change_lines(result.changes):
            invocation.say(line)
