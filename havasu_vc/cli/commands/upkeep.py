"""Upkeep: `havasu-vc optimize`, `fsck`, `validate`, `repair`, `gc` and `upgrade`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from havasu_vc.cli.arguments import parse_names
from havasu_vc.cli.as_kart import is_called_kart, stop_while_merging
from havasu_vc.cli.completing import complete_datasets, complete_datasets_or_files
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.kart.fsck import STOPPED, lines_of_fsck
from havasu_vc.cli.options import (
    Command,
    engine_option,
    format_option,
    json_option,
    message_options,
)
from havasu_vc.cli.passthrough import show_git
from havasu_vc.cli.requests import DRY_RUN, POLICY, Spelt, takes
from havasu_vc.cli.results import print_commit, tell_commit
from havasu_vc.errors import NoChangesError, NoWorkingCopyError, StateError
from havasu_vc.library import Repo
from havasu_vc.repo.results import CommitResult
from havasu_vc.upkeep import Issue, Level, OptimizeRequest, RepairRequest, waits_for_objects

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Removed, Upgraded

__all__ = ["fsck", "gc", "optimize", "repair", "upgrade", "validate"]


@click.command("optimize", cls=Command)
@click.argument("datasets", nargs=-1, metavar="[DATASET...]", shell_complete=complete_datasets)
@takes(OptimizeRequest, dry_run=DRY_RUN, without=("datasets", "message"))
@message_options
@engine_option
@json_option
@click.pass_obj
def optimize(invocation: Invocation, /, request: OptimizeRequest) -> None:
    """Fold small and partly deleted files into a few clean ones.

    No row changes. It is a commit of its own, whose trailer names it; all datasets are
    meant where none is named.
    """
    repo = invocation.open_repo()
    tell_commit(invocation, repo, repo.optimize.by(request), dry_run=request.dry_run)


@click.command("fsck", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", metavar="[ARGUMENT...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--full",
    is_flag=True,
    help="Also read every data file of HEAD and all branches, and compare all rows of the"
    " working copy.",
)
@click.option(
    "--reset-dataset",
    "reset",
    metavar="DATASET",
    multiple=True,
    help="Make the table of DATASET in the working copy anew before; edits in it go.",
)
@engine_option
@format_option("text", "json")
@click.pass_context
def fsck(
    context: click.Context,
    arguments: tuple[str, ...],
    full: bool,
    reset: tuple[str, ...],
    output_format: str,
) -> int:
    """Check that everything stored is sound.

    Each problem is one line on stdout; the exit code is 1 if there is one. Called `kart`, what
    `git fsck` says comes before, where an ARGUMENT is given to it.
    """
    invocation: Invocation = context.obj
    if arguments and not is_called_kart():
        _refuse(arguments[0], context)
    repo, compared = invocation.open_repo(), full or is_called_kart()
    stop_while_merging(repo.git)
    if reset and is_called_kart() and repo.workspace.living is None:
        return _reset_nothing(invocation, repo)
    for path in reset:
        repo.make_table_anew(path)
    stopped = False
    found = chain(repo.fsck(full=full), repo.fsck_working_copy() if compared else ())
    if output_format == "json":
        problems = [
            {"where": problem.where, "message": problem.message, "hint": problem.hint}
            for problem in found
        ]
        click.echo(json.dumps({"havasu.fsck/v1": problems}, indent=2))
        return 1 if problems else 0
    if is_called_kart():
        first, *others = lines_of_fsck(repo, reset)
        invocation.say(first)
        if arguments:
            # Kart passes over the exit code.
            asked = ["fsck", *arguments]
            show_git(asked, repo.git, color=invocation.color, pager=False)
        for line in others:
            invocation.say(line)
        stopped = STOPPED in others
    count = 0
    for problem in found:
        count += 1
        click.echo(f"{visible(problem.where)}: {visible(problem.message)}")
        if problem.hint:
            click.echo(f"  {visible(problem.hint)}")
    asked_for = not repo.git.is_bare and repo.git.config.get("kart.workingcopy.location")
    if is_called_kart() and asked_for and not count and repo.workspace.living is None:
        raise NoWorkingCopyError("the working copy is missing")
    if count or not (is_called_kart() and (stopped or reset or repo.workspace.living is None)):
        invocation.say(f"{counted(count, 'problem')} found" if count else "Everything is sound")
    return 1 if count else 0


def _reset_nothing(invocation: Invocation, repo: Repo) -> int:
    """Tell as Kart does, which is asked to make tables anew, that there is no working copy."""
    for line in lines_of_fsck(repo, ()):
        invocation.say(line)
    if not repo.git.is_bare and repo.git.config.get("kart.workingcopy.location"):
        raise NoWorkingCopyError("the working copy is missing")
    return 0


def _require_source(here: Path, place: str) -> None:
    """Raise as Kart does where a place is no folder."""
    found = here / place
    if not place or not found.is_dir():
        why = "is a file" if found.is_file() else "does not exist"
        raise click.BadParameter(f"Directory '{place}' {why}.", param_hint="'SOURCE'")


def _require_empty(place: Path) -> None:
    """Raise as Kart does, before it looks at the source, where something is at a place."""
    if place.is_dir() and any(place.iterdir()):
        raise StateError(f'"{place}" isn\'t empty')


@click.command("validate", cls=Command)
@click.argument(
    "targets", metavar="[DATASET|FILE]...", nargs=-1, shell_complete=complete_datasets_or_files
)
@click.option(
    "--ref", metavar="REV", default="HEAD", show_default=True, help="The revision of datasets."
)
@click.option(
    "--primary-key",
    metavar="COLUMN,...",
    multiple=True,
    help="The key of a file; by default what the file says.",
)
@click.option("--no-warnings", is_flag=True, help="Leave out what is odd and allowed.")
@click.option("--strict", is_flag=True, help="Exit with 1 for a warning too.")
@engine_option
@format_option("text", "json")
@click.pass_obj
def validate(
    invocation: Invocation,
    targets: tuple[str, ...],
    ref: str,
    primary_key: tuple[str, ...],
    no_warnings: bool,
    strict: bool,
    output_format: str,
) -> int:
    """Check that data is what its columns say.

    Every row of each DATASET, by default of all, is read: geometries are of the declared
    encoding, type and coordinate reference system, rasters are whole, keys are unique,
    required columns have no null, and statistics and bounds are true. A FILE is checked
    as it would be imported. What is wrong is one line on stdout with the key of the row;
    the exit code is 1 if anything but a warning is found.
    """
    found = invocation.open_repo().validation.run(
        targets, ref, primary_key=parse_names(primary_key), warnings=not no_warnings
    )
    issues = []
    counts = dict.fromkeys(Level, 0)
    for issue in found:
        counts[issue.level] += 1
        if output_format == "json":
            issues.append(_as_json(issue))
        else:
            click.echo(_line(issue))
    if output_format == "json":
        click.echo(json.dumps({"havasu.validate/v1": issues}, indent=2))
    elif any(counts.values()):
        errors, warnings = (counted(counts[level], level.value) for level in Level)
        invocation.say(f"{errors}, {warnings}")
    else:
        invocation.say("All data is valid")
    return int(bool(counts[Level.ERROR] or (strict and counts[Level.WARNING])))


def _as_json(issue: Issue) -> dict[str, object]:
    return {
        "dataset": issue.dataset,
        "key": None if issue.key is None else dict(issue.key),
        "column": issue.column,
        "level": issue.level.value,
        "rule": issue.rule,
        "cause": issue.cause,
    }


def _line(issue: Issue) -> str:
    place = issue.dataset
    if issue.key is not None:
        place += ":" + ",".join(str(value) for value in issue.key.values())
    column = "" if issue.column is None else f"column {issue.column!r}: "
    return f"{visible(place)}: {issue.level.value}: {visible(column + issue.cause)}"


@click.command("repair", cls=Command)
@click.argument("datasets", metavar="[DATASET...]", nargs=-1, shell_complete=complete_datasets)
@takes(
    RepairRequest,
    source=Spelt("--from", metavar="COMMIT"),
    policy=POLICY,
    without=("datasets", "message"),
)
@message_options
@json_option
@click.pass_obj
def repair(invocation: Invocation, /, request: RepairRequest) -> None:
    """Mend broken datasets, those named or all, in a commit on top of HEAD.

    A dataset is broken when git or a hand merged it as text, or a document of it is damaged.
    The history is walked back to where it was sound last. Where a merge broke it, the sound
    versions are merged again, row by row; else the last one is taken, and commits whose
    changes could not be kept are named. Nothing is rewritten, so no push need be forced.
    """
    repo = invocation.open_repo()
    try:
        result = repo.repair.by(request)
    except NoChangesError as nothing:
        # To find all sound is no failure.
        print_commit(invocation, repo, CommitResult(None, repo.head_branch))
        invocation.say(f"There is nothing to repair: {nothing.message}")
    else:
        tell_commit(invocation, repo, result)


@click.command("gc", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument("arguments", metavar="[ARGUMENT...]", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--grace-days",
    type=click.FloatRange(0),
    default=14.0,
    show_default=True,
    help="Keep files that are younger, even if nothing needs them.",
)
@click.option("--prune-now", is_flag=True, help="The same as --grace-days 0.")
@click.option("-n", "--dry-run", is_flag=True, help="Tell what would be removed, and stop.")
@json_option
@click.pass_context
def gc(
    context: click.Context,
    arguments: tuple[str, ...],
    grace_days: float,
    prune_now: bool,
    dry_run: bool,
) -> int:
    """Remove data files that nothing needs any more, and pack git's objects anew.

    Needed is what a branch, tag, reflog, stash, index, work tree or unfinished merge
    reaches. Objects of a repository of Kart's are left to `git gc`: called `kart`, that runs as
    well, with each ARGUMENT that it has, but removes nothing while anything waits for it.
    """
    invocation: Invocation = context.obj
    if arguments and not is_called_kart():
        _refuse(arguments[0], context)
    repo = invocation.open_repo()
    by_git = is_called_kart() and repo.git.is_kart and not dry_run
    if arguments and not by_git:
        _refuse(arguments[0], context)
    result = repo.gc(grace_days=0.0 if prune_now else grace_days, dry_run=dry_run)
    value: Removed = {
        "files": result.files,
        "size": result.size,
        "keptYoung": result.kept_young,
        "packed": result.packed,
        "dryRun": dry_run,
    }
    invocation.result("havasu.gc/v1", value)
    verb = "Would remove" if dry_run else "Removed"
    invocation.say(f"{verb} {counted(result.files, 'file')}, {format_size(result.size)}")
    if result.packed > 0:
        invocation.say(f"Packed git's objects anew: {format_size(result.packed)} less")
    if result.kept_young:
        invocation.say(f"{counted(result.kept_young, 'file')} unneeded, kept for now: too young")
    return _gc_by_git(invocation, repo, arguments) if by_git else 0


def _refuse(argument: str, context: click.Context) -> NoReturn:
    if argument.startswith("-"):
        raise click.NoSuchOption(argument.partition("=")[0], ctx=context)
    raise click.UsageError(f"Got unexpected extra argument ({argument})", context)


def _gc_by_git(invocation: Invocation, repo: Repo, arguments: Sequence[str]) -> int:
    """Have git pack a repository of Kart's, as Kart does, and return its exit code."""
    quiet = ["--quiet"] if invocation.quiet else []
    # The last counts. What waits, git does not know to be needed.
    kept = ["--no-prune"] if waits_for_objects(repo.git) else []
    return show_git(
        ["gc", *quiet, *arguments, *kept], repo.git, color=invocation.color, pager=False
    )


@click.command("upgrade", cls=Command)
@click.argument("places", metavar="[[SOURCE] DESTINATION]", type=click.Path(), nargs=-1)
@click.option("--in-place", is_flag=True, help="Move the branches and tags of the old repository.")
@json_option
@click.pass_obj
def upgrade(invocation: Invocation, places: tuple[str, ...], in_place: bool) -> None:
    """Bring the datasets of HEAD to the newest form, in one commit.

    Datasets of format 1 become ones of format 2; no data file is written again. Upgrade the
    main branch, and merge others before that or upgrade them too.

    With DESTINATION, make a Kart V3 repository there of one in Kart's V2: all commits of all
    branches and tags are made again, with their authors and dates. The old repository, which
    is at SOURCE or here, stays as it is. With --in-place it is the one that becomes V3: its
    branches and tags move to the new commits. Whoever has cloned it clones it again.
    """
    paths = tuple(map(Path, places))
    if is_called_kart() and places:
        _require_source(invocation.here, places[0])
    # Kart passes over the other.
    if in_place and not is_called_kart() and len({path.resolve() for path in paths}) > 1:
        raise click.UsageError("--in-place takes one repository")
    if len(paths) > 2:
        raise click.UsageError("two places at most: where it is, and where the new one is to be")
    if is_called_kart() and not paths:
        raise click.UsageError("Missing argument 'SOURCE'.")
    if is_called_kart() and not paths[1:]:
        raise click.UsageError("Missing argument 'DEST'.")
    *source, destination = paths or (None,)
    if in_place:
        source, destination = [*paths[:1]], None
    if source:
        invocation = replace(invocation, folder=invocation.here / str(source[0]))
        if is_called_kart() and destination is not None:
            _require_empty(destination)
        destination = None if destination is None else Path.cwd() / destination
    repo = invocation.open_repo()
    if in_place:
        refs = repo.upgrade_in_place()
        moved: Upgraded = {
            "datasets": list(repo.datasets()),
            "commit": None,
            "path": str(repo.path),
        }
        invocation.result("havasu.upgrade/v1", moved)
        invocation.say(f"Upgraded {counted(refs, 'ref')}")
        _tell_end(invocation)
        return
    if destination is None:
        result = repo.upgrade_datasets()
        names = list(result.changes)
        upgraded: Upgraded = {"datasets": names, "commit": result.commit, "path": None}
        invocation.result("havasu.upgrade/v1", upgraded)
        invocation.say(f"Upgraded {', '.join(names)} to dataset format 2")
        return
    new = repo.upgrade(invocation.folder / destination)
    made: Upgraded = {"datasets": list(new.datasets()), "commit": None, "path": str(new.path)}
    invocation.result("havasu.upgrade/v1", made)
    invocation.say(f"Upgraded {repo.path} to {new.path}")
    _tell_end(invocation)


def _tell_end(invocation: Invocation) -> None:
    if is_called_kart():
        invocation.say("Upgrade complete")
