"""`havasu-vc merge`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.arguments import parse_policy
from havasu_vc.cli.as_kart import is_called_kart
from havasu_vc.cli.branches import head_object, tell_update
from havasu_vc.cli.completing import complete_branches
from havasu_vc.cli.editor import asks_editor, edit_message
from havasu_vc.cli.errors import EXIT_CODES
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import (
    Command,
    engine_option,
    json_option,
    may_ask_editor,
    message_options,
    no_edit_option,
)
from havasu_vc.cli.requests import DRY_RUN, POLICY, Spelt, takes
from havasu_vc.cli.results import merged_lines
from havasu_vc.errors import ErrorKind, InvalidArgumentError, RevisionNotFoundError, StateError
from havasu_vc.merging import MergeRequest, require_no_merge_of_kart

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Fetched, Pulled
    from havasu_vc.library import Repo
    from havasu_vc.merging import MergeResult
    from havasu_vc.model.diffs import MergeContext
    from havasu_vc.writers.conflicts import MergeReport

__all__ = ["command", "configured_fast_forward", "merge_and_tell"]

CONFLICT = EXIT_CODES[ErrorKind.CONFLICT]


@click.command("merge", cls=Command)
@click.argument("revisions", metavar="[REV]...", nargs=-1, shell_complete=complete_branches)
@click.option(
    "--ff/--no-ff",
    "ff",
    default=None,
    help="Only move the branch where it has no commits of its own.  [default: merge.ff, or yes]",
)
@click.option("--ff-only", is_flag=True, help="Refuse what is no fast-forward.")
@takes(
    MergeRequest,
    dry_run=DRY_RUN,
    policy=POLICY,
    into=Spelt(metavar="BRANCH"),
    without=("revision", "message", "fast_forward"),
)
@message_options
@no_edit_option
@click.option(
    "--fail-on-conflict", is_flag=True, help=f"Exit with {CONFLICT} on conflicts, and keep none."
)
@click.option("--continue", "go_on", is_flag=True, help="Conclude the merge that waits.")
@click.option("--abort", is_flag=True, help="Drop the merge that waits.")
@engine_option
@json_option
@click.pass_obj
def command(
    invocation: Invocation,
    /,
    request: MergeRequest,
    revisions: tuple[str, ...],
    ff: bool | None,
    ff_only: bool,
    fail_on_conflict: bool,
    go_on: bool,
    abort: bool,
) -> int:
    """Bring the changes of REV, usually a branch, into the current branch.

    Rows are merged cell by cell: different columns of one row merge, equal edits count
    once. What both sides changed differently waits until `resolve` decides it; nothing
    moves before `merge --continue`. The exit code is 0 then, as in Kart.
    """
    several = sum((bool(revisions), go_on, abort)) != 1
    # Kart passes over a revision beside these, and aborts where it is asked for both.
    if several and not ((go_on or abort) and is_called_kart()):
        raise click.UsageError("give a revision to merge, --continue or --abort")
    repo = invocation.open_repo()
    if abort or go_on:
        if is_called_kart():
            # Of these Kart tells in text, whatever form is asked for.
            invocation = replace(invocation, json=None)
            click.get_current_context().obj = invocation
        _abort(invocation, repo) if abort else _continue(invocation, repo, request.message)
        return 0
    if len(revisions) > 1:
        raise InvalidArgumentError(
            f"only one revision can be merged at a time, not {' '.join(revisions[1:])} as well",
            hints=("merge one after the other: " + ", then ".join(revisions),),
        )
    if is_called_kart() and request.into == "HEAD":
        request = replace(request, into=None)  # which to Kart is the same
    if is_called_kart() and request.into is None:
        require_no_merge_of_kart(repo.git)
        repo.workspace.require_clean_in_karts()  # of which Kart tells before all else
    if ff_only and ff is False:
        raise click.UsageError("--no-ff and --ff-only contradict each other")
    if ff_only and request.message and is_called_kart():
        raise click.BadParameter(
            "Conflicting parameters: --message & --ff-only", param_hint="--ff-only"
        )
    wanted = {None: configured_fast_forward(repo, "merge.ff"), True: "auto", False: "never"}
    (name,) = revisions
    if is_called_kart():
        name = _known(repo, name)
    request = replace(
        request,
        revision=name,
        policy=request.policy or parse_policy(()),
        fast_forward="only" if ff_only else wanted[ff],
    )
    fails = fail_on_conflict or request.into is not None
    return merge_and_tell(invocation, repo, request, fail_on_conflict=fails)


def _known(repo: Repo, name: str) -> str:
    """Return the revision that Kart merges, a branch by its short name.

    Where there is no commit yet, Kart tells of this one that it is not there.
    """
    if repo.head().commit is None:
        raise RevisionNotFoundError(name)
    branch = name.removeprefix("refs/").removeprefix("heads/")
    if branch != name and any(each.name == branch for each in repo.branches()):
        return branch
    return name or "HEAD"


def configured_fast_forward(repo: Repo, *names: str) -> str:
    """Return what git's settings say of fast-forwards, the first that says something."""
    for name in names:
        if (value := repo.config.get(name)) is not None:
            return "only" if value == "only" else "auto" if repo.config.boolean(name) else "never"
    return "auto"


def merge_and_tell(
    invocation: Invocation,
    repo: Repo,
    request: MergeRequest,
    *,
    fail_on_conflict: bool = False,
    fetched: Fetched | None = None,
) -> int:
    """Merge a revision into HEAD or a branch, tell what came of it, and return the exit code.

    What was `fetched` before stands in the JSON with it.
    """
    context = repo.merge_context(request.revision, into=request.into)
    if is_called_kart() and context is not None and request.fast_forward == "only":
        _require_forward(context)
    if context is not None and not request.dry_run and _asks(repo, request.message):
        request = _with_message(repo, request, context)
    if context is not None and request.message is None and is_called_kart():
        request = replace(request, message=_karts_message(context, request.squash))
    result = repo.merge.by(request)
    refused = bool(result.conflicts) and fail_on_conflict
    if refused and not request.dry_run and repo.status().waiting is not None:
        repo.abort_merge()
    if context is not None:
        text = _message(repo, result, request.message, request.revision, context)
        # Kart says that the merge waits where it dropped it, too.
        waits = not refused or (is_called_kart() and invocation.json is None)
        report = _report(result, context, text, dry_run=request.dry_run, waits=waits)
        _tell(invocation, repo, report, result, fetched)
    if refused and is_called_kart():
        click.echo("Error: Merge failed due to conflicts", err=True)
    return CONFLICT if refused else 0


def _require_forward(context: MergeContext) -> None:
    """Raise where Kart does: to it what HEAD has already is no fast-forward."""
    ours, theirs = context.ours.commit, context.theirs.commit
    if context.ancestor.commit == theirs != ours:
        raise StateError(f"{ours} cannot be fast-forwarded to {theirs}")


def _asks(repo: Repo, message: str | None) -> bool:
    """Whether an editor is asked for the message of a merge, as Kart asks: called so alone."""
    return message is None and is_called_kart() and may_ask_editor() and asks_editor(repo)


def _with_message(repo: Repo, request: MergeRequest, context: MergeContext) -> MergeRequest:
    """Return a request with the message that was written, where it will make a commit."""
    planned = repo.merge.by(replace(request, dry_run=True))
    if planned.conflicts or planned.kind in ("up-to-date", "fast-forward"):
        return request
    text = _message(repo, planned, None, request.revision, context) or ""
    if is_called_kart():
        text = _karts_message(context, request.squash) or text
    lines = ["Changes to be committed:", *merged_lines(repo, planned)]
    return replace(request, message=edit_message(repo.git, lines, text=text))


def _abort(invocation: Invocation, repo: Repo) -> None:
    repo.abort_merge()
    invocation.result("havasu.head/v1", head_object(repo))
    invocation.say("The merge is dropped; HEAD is where it was")
    tell_update(invocation, repo)


def _continue(invocation: Invocation, repo: Repo, message: str | None) -> None:
    waiting = repo.status().waiting
    if waiting is not None and not waiting.conflicts and _asks(repo, message):
        message = edit_message(repo.git, (), text=waiting.message)
    result = repo.continue_merge(message=message)
    if result.conflicts:
        # Git stopped; it is now that it is known what is in conflict.
        waiting = repo.status().waiting
    if waiting is not None:
        text = message or waiting.message
        report = _report(result, waiting.context, text, dry_run=False, waits=True)
        _tell(invocation, repo, report, result)
    elif result.commit is not None:
        invocation.result("havasu.head/v1", head_object(repo))
        invocation.say(f"Merge committed as {result.commit}")
        tell_update(invocation, repo)


def _message(
    repo: Repo, result: MergeResult, given: str | None, name: str, context: MergeContext
) -> str | None:
    if result.kind == "up-to-date" and is_called_kart():
        return None
    if result.kind in ("up-to-date", "fast-forward"):
        return given
    if result.commit is not None:
        return repo.commit_info(result.commit).message
    if given is not None:
        return given
    branch = context.ours.branch
    what = "Squash" if result.kind == "squash" else "Merge"
    return f'{what} branch "{name}" into {branch}' if branch else f'{what} "{name}"'


def _karts_message(context: MergeContext, squash: bool) -> str | None:
    """Return Kart's message of a merge, which names what is no branch by its id."""
    if squash:
        return None  # Kart makes no such merges
    ours, theirs = context.ours, context.theirs
    merged = theirs.commit if theirs.branch is None else f'branch "{theirs.branch}"'
    return f"Merge {merged} into {ours.branch or ours.commit}"


def _report(
    result: MergeResult, context: MergeContext, message: str | None, *, dry_run: bool, waits: bool
) -> MergeReport:
    from havasu_vc.merging import conflict_counts
    from havasu_vc.writers.conflicts import MergeReport

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
    repo: Repo,
    report: MergeReport,
    result: MergeResult,
    fetched: Fetched | None = None,
) -> None:
    from havasu_vc.writers.conflicts import merge_lines, merge_object

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
    moved = result.commit is not None and report.kind != "up-to-date" and not report.dry_run
    if moved and report.context.ours.branch == repo.head_branch:
        tell_update(invocation, repo)
    if not (report.conflicts or is_called_kart()):  # Kart says nothing of what came
        for line in merged_lines(repo, result):
            invocation.say(line)
