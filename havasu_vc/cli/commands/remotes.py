"""`havasu-vc remote`, `fetch`, `pull` and `push`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from havasu_vc.cli.as_kart import (
    is_called_kart,
    is_in_karts_place,
    results_on_stdout,
    stop_while_merging,
)
from havasu_vc.cli.completing import complete_branches, complete_remotes
from havasu_vc.cli.counts import counted, format_size
from havasu_vc.cli.errors import visible
from havasu_vc.cli.invocation import Invocation
from havasu_vc.cli.options import Command, json_option, no_edit_option
from havasu_vc.cli.requests import DRY_RUN, Spelt, takes, without_it
from havasu_vc.errors import NoBranchError, StateError
from havasu_vc.formats.repository_config import CONFIG_FILE
from havasu_vc.library import Repo
from havasu_vc.merging import MergeRequest, RebaseRequest
from havasu_vc.sharing import FetchRequest, PushRequest

if TYPE_CHECKING:
    from havasu_vc.cli.forms.results import Fetched, Pushed, PushedRef, Remote
    from havasu_vc.sharing import FetchResult, PushResult

__all__ = ["fetch", "fetch_object", "pull", "push", "remote", "tell_fetch"]

_LEASE = "--force-with-lease"


@click.command("remote", cls=Command, context_settings={"ignore_unknown_options": True})
@click.argument(
    "arguments",
    metavar="[add NAME URL | remove NAME | ...]",
    nargs=-1,
    type=click.UNPROCESSED,
)
@click.option("-v", "--verbose", is_flag=True, help="Also the URLs, without passwords.")
@click.option("--data", metavar="URL", help="With `add` and `set-url`: where the data files are.")
@json_option
@click.pass_obj
def remote(
    invocation: Invocation, arguments: tuple[str, ...], verbose: bool, data: str | None
) -> None:
    """List, add and change remotes, as `git remote` does.

    The data files of a remote that is a folder lie beside its refs, those of others on
    its Git LFS server, unless `--data` names a folder or a bucket (file, sftp, s3, gs, abfs).
    Of the first remote, that is committed for all clones, as `havasu-vc data place` does.
    """
    from havasu_vc.remotes.urls import hidden_secrets

    repo = invocation.open_repo(rows=False)
    if data is not None and (len(arguments) < 2 or arguments[0] not in ("add", "set-url")):
        raise click.UsageError("--data goes with `add NAME URL` and `set-url NAME URL`")
    if data is not None:
        from havasu_vc.remotes.protocol import check_data_url

        check_data_url(data)
    if not arguments and invocation.json is None:
        for name, url, place in repo.remotes():
            shown = visible(name)
            if not verbose:
                click.echo(shown)
                continue
            to = repo.git.config.get(f"remote.{name}.pushurl") or url
            for each, what in ((url, "fetch"), (to, "push"), (place, "data")):
                if each is not None:
                    click.echo(f"{shown}\t{visible(hidden_secrets(each))} ({what})")
        return
    text = repo.git.git("remote", *arguments).text if arguments else ""
    if data is not None:
        repo.git.config.set(f"remote.{arguments[1]}.havasuData", data)
        _tell_all(invocation, repo, arguments[1], data)
    for line in text.split("\n") if text else ():
        click.echo(visible(line), err=invocation.json is not None)
    listed: list[Remote] = [
        {
            "name": name,
            "url": hidden_secrets(url),
            "data": None if place is None else hidden_secrets(place),
        }
        for name, url, place in repo.remotes()
    ]
    invocation.result("havasu.remote/v1", listed)


def _tell_all(invocation: Invocation, repo: Repo, name: str, data: str) -> None:
    """Commit where the data of the only remote is, unless the commits say something already."""
    known = repo.stated_data_place(name)
    if known == data:
        return
    if known is None and len(repo.remotes()) == 1 and repo.git.work_tree is not None:
        if repo.set_data_place(data):
            invocation.say(f"Committed {CONFIG_FILE}: clones know where the data is")
        return
    invocation.note(f"`havasu-vc data place {shlex.quote(data)}` commits it, for all clones")


@click.command("fetch", cls=Command)
@click.argument("remote", required=False, shell_complete=complete_remotes)
@click.argument("refspecs", metavar="[REFSPEC...]", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Fetch from each remote in turn.")
@click.option("-p", "--prune", is_flag=True, help="Drop remote branches that are gone there.")
@click.option("-t", "--tags", is_flag=True, help="Bring all tags.")
@click.option("--depth", metavar="N", type=click.IntRange(1), help="Bring the newest N commits.")
@click.option("--unshallow", is_flag=True, help="Bring all commits that a shallow clone lacks.")
@click.option("-v", "--verbose", is_flag=True, help="Also tell of branches that did not move.")
@click.option("--dry-run", is_flag=True, help="Only tell what would come.")
@takes(
    FetchRequest,
    data=Spelt("--no-data", parse=without_it, help="Bring git's part alone."),
    without=("remote", "refspecs", "options"),
)
@json_option
@click.pass_obj
def fetch(
    invocation: Invocation,
    /,
    request: FetchRequest,
    every: bool,
    prune: bool,
    tags: bool,
    depth: int | None,
    unshallow: bool,
    verbose: bool,
    dry_run: bool,
) -> None:
    """Fetch what REMOTE has: its branches, then the data files that they name."""
    if depth is not None and unshallow:
        raise click.UsageError("--depth and --unshallow contradict each other")
    if every and request.remote is not None:
        raise click.UsageError("--all is for each remote; name none")
    options = [f"--depth={depth}"] if depth is not None else []
    options += ["--unshallow"] if unshallow else []
    options += [*(["--prune"] if prune else []), *(["--tags"] if tags else [])]
    options += [*(["--verbose"] if verbose else []), *(["--dry-run"] if dry_run else [])]
    if dry_run:
        request = replace(request, data=False)
    repo = invocation.open_repo(rows=False)
    names = [name for name, _, _ in repo.remotes()] if every else [request.remote]
    if names == [None] and repo.git.follows_kart and not repo.remotes():
        # In Kart this is git's fetch, to which it is no error.
        if not is_called_kart():
            invocation.note("there is no remote: `havasu-vc remote add origin URL` adds one")
        names = []
    results = []
    for name in names:
        results.append(repo.fetch.by(replace(request, remote=name, options=options)))
        tell_fetch(invocation, results[-1])
    invocation.result("havasu.fetch/v1", fetch_object(_together(results)))


def _together(results: Sequence[FetchResult]) -> FetchResult:
    """Return what came from several remotes as if it had come from one."""
    from havasu_vc.sharing import FetchResult

    return FetchResult(
        ", ".join(each.remote for each in results),
        tuple(ref for each in results for ref in each.refs),
        sum(each.files for each in results),
        sum(each.size for each in results),
    )


def fetch_object(result: FetchResult) -> Fetched:
    """Return what came for programs."""
    return {
        "remote": result.remote,
        "refs": list(result.refs),
        "files": result.files,
        "size": result.size,
    }


def tell_fetch(invocation: Invocation, result: FetchResult) -> None:
    """Tell what came."""
    if is_called_kart() and not invocation.progress:
        return  # Kart tells git to be quiet
    if result.refs:
        # git leaves the end of an address out.
        shown = result.remote.rstrip("/").removesuffix(".git")
        invocation.say(f"From {shown}", aside=True)
    for line in result.refs:
        # Before what moved stands what git tells of how it did; nothing if it went on.
        flag = " " if line[1:2] == " " else "   "
        invocation.say(f"{flag}{line}", aside=True)
    if result.files:
        invocation.say(f"Fetched {counted(result.files, 'data file')}, {format_size(result.size)}")


@click.command("pull", cls=Command)
@click.argument("remote", required=False, shell_complete=complete_remotes)
@click.argument("branches", metavar="[BRANCH]", nargs=-1)
@click.option("--ff-only", "only", is_flag=True, help="Only fast-forward.")
@click.option("--ff/--no-ff", "ff", default=None, help="Whether a fast-forward may stand alone.")
@click.option(
    "-r/ ",
    "--rebase/--no-rebase",
    "rebase",
    default=None,
    help="Rebase rather than merge.  [default: pull.rebase, or no]",
)
@no_edit_option
@json_option
@click.pass_obj
def pull(
    invocation: Invocation,
    remote: str | None,
    branches: tuple[str, ...],
    only: bool,
    ff: bool | None,
    rebase: bool | None,
) -> int:
    """Fetch, then merge what the current branch follows, row by row, or rebase upon it.

    With REMOTE and BRANCH, that branch is merged. git's settings pull.rebase, pull.ff and
    merge.ff count.
    """
    if only and ff is False:
        raise click.UsageError("--no-ff and --ff-only contradict each other")
    if branches[1:] and not is_called_kart():
        raise click.UsageError(f"Got unexpected extra argument ({' '.join(branches[1:])})")
    fast_forward = "only" if only else {None: None, True: "auto", False: "never"}[ff]
    repo = invocation.open_repo()
    stop_while_merging(repo.git)
    # Of several branches the first is merged, as in Kart.
    name = "FETCH_HEAD" if branches else _followed(repo, remote)
    came = repo.fetch(remote, branches)
    tell_fetch(invocation, came)
    fetched = fetch_object(came)
    rebases = _rebases(repo) if rebase is None else "true" if rebase else None
    if rebases == "interactive":
        raise StateError(
            "pull.rebase asks for an interactive rebase, which is git's",
            hints=(
                f"what came is fetched: `git rebase -i {name}`, or `havasu-vc rebase "
                f"{shlex.quote(name)}`",
            ),
        )
    if rebases is not None and fast_forward is None:
        from havasu_vc.cli.commands.rebase import rebase_and_tell

        asked = RebaseRequest(name, merges=rebases == "merges", fork_point=not branches)
        rebase_and_tell(invocation, repo, asked, fetched)
        return 0
    from havasu_vc.cli.commands.merge import configured_fast_forward, merge_and_tell

    wanted = fast_forward or configured_fast_forward(repo, "pull.ff", "merge.ff")
    request = MergeRequest(name, fast_forward=wanted)
    return merge_and_tell(invocation, repo, request, fetched=fetched)


def _followed(repo: Repo, remote: str | None) -> str:
    """Return the branch that the current one follows.

    In Kart's place one that follows none takes the branch of its name of the remote, or origin.
    """
    try:
        return repo.upstream(remote)
    except NoBranchError:
        if not is_in_karts_place(repo.git) or repo.head_branch is None:
            raise
        if (remote or "origin") not in {name for name, _, _ in repo.remotes()}:
            raise
        # Of a bare clone branches are not followed, and git fetches the remote's HEAD.
        if repo.git.config.get(f"remote.{remote or 'origin'}.fetch") is None:
            return "FETCH_HEAD"
        return f"{remote or 'origin'}/{repo.head_branch}"


def _rebases(repo: Repo) -> str | None:
    """Return what git's settings say: `true`, `merges` or `interactive`; None where to merge."""
    value = repo.config.get(f"branch.{repo.head_branch}.rebase")
    value = repo.config.get("pull.rebase") if value is None else value
    if value is None or value.lower() in ("false", "no", "off", "0"):
        return None
    known = {"m": "merges", "merges": "merges", "i": "interactive", "interactive": "interactive"}
    return known.get(value.lower(), "true")


class _Push(Command):
    """The command `push`, of which a lease may have a value behind `=` alone, as in git."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Give a lease without a value the empty one."""
        return super().parse_args(ctx, [f"{arg}=" if arg == _LEASE else arg for arg in args])


@click.command("push", cls=_Push)
@click.argument("remote", required=False, shell_complete=complete_remotes)
@click.argument("refspecs", metavar="[REFSPEC...]", nargs=-1, shell_complete=complete_branches)
@click.option("-u", "--set-upstream", is_flag=True, help="Follow the branch from now on.")
@click.option("-f", "--force", is_flag=True, help="Move branches whatever they have.")
@click.option(
    _LEASE,
    "leases",
    metavar="[=BRANCH[:COMMIT]]",
    multiple=True,
    help="The same, unless others moved them: one of them, or from where it should be.",
)
@click.option("--tags", is_flag=True, help="Push all tags.")
@click.option("--all", "every", is_flag=True, help="Push all branches.")
@click.option(
    "--mirror", is_flag=True, help="Make the refs there what they are here; others there go."
)
@click.option("-d", "--delete", is_flag=True, help="Delete the refs there.")
@click.option("--no-verify", is_flag=True, help="Run no hook of git's before it.")
@click.option("--atomic", is_flag=True, help="Move all refs there, or none.")
@click.option("--follow-tags", is_flag=True, help="Push tags with messages that it reaches, too.")
@click.option("--porcelain", is_flag=True, help="Tell of refs in lines for programs, as git does.")
@click.option("-v", "--verbose", is_flag=True, help="Also tell where to, before all else.")
@takes(PushRequest, dry_run=DRY_RUN, without=("remote", "refspecs", "options"))
@json_option
@click.pass_obj
def push(
    invocation: Invocation,
    /,
    request: PushRequest,
    porcelain: bool,
    verbose: bool,
    leases: tuple[str, ...],
    **flags: bool,
) -> None:
    """Send commits to REMOTE: the data files that they name, then the branches.

    What to push where nothing is named, and how to get in, is as in `git push`. Branches with
    a broken dataset are refused.
    """
    flags["all"] = flags.pop("every")
    options = [f"--{name.replace('_', '-')}" for name, given in flags.items() if given]
    options += [f"{_LEASE}={lease}" if lease else _LEASE for lease in leases]
    repo = invocation.open_repo(rows=False)
    try:
        result = repo.push.by(replace(request, options=options))
    except StateError as error:
        error.said = tuple(_said(error.said, verbose=verbose))
        raise
    if verbose:
        invocation.say(f"Pushing to {result.remote}", aside=True)
    refs = [_ref(line) for line in result.refs]
    value: Pushed = {
        "remote": result.remote,
        "refs": refs,
        "files": result.files,
        "size": result.size,
        "dryRun": request.dry_run,
    }
    invocation.result("havasu.push/v1", value)
    if results_on_stdout():
        for branch, there in result.followed:  # as git tells it, on the stream where Kart has it
            invocation.say(f"branch '{branch}' set up to track '{there}'.")
    if porcelain and invocation.json is None:
        for line in (
            f"To {result.remote}",
            *(result.same if verbose else ()),
            *result.refs,
            "Done",
        ):
            click.echo("\t".join(map(visible, line.split("\t"))))
        _tell_seen(invocation, result, verbose=verbose)
        return
    if result.files:
        invocation.say(f"Sent {counted(result.files, 'data file')}, {format_size(result.size)}")
    _tell_push(invocation, result, tried=request.dry_run, verbose=verbose)


def _tell_push(invocation: Invocation, result: PushResult, *, tried: bool, verbose: bool) -> None:
    """Tell which refs moved, and with `verbose` which ones were there already."""
    shown = [*(result.same if verbose else ()), *result.refs]
    quiet = is_called_kart() and not invocation.progress  # which Kart tells git to be
    if shown and not (quiet and result.refs):
        verb = "Would push to" if tried and result.refs else "To"
        invocation.say(f"{verb} {result.remote}", aside=True)
        for line in _moved([_ref(each) for each in shown]):
            invocation.say(line, aside=True)
        _tell_seen(invocation, result, verbose=verbose)
    if not result.refs and result.files:
        invocation.say(f"Its commits were at {result.remote} already, without that data")
    elif not (result.refs or quiet):
        invocation.say(f"Everything is at {result.remote} already", aside=True)


def _tell_seen(invocation: Invocation, result: PushResult, *, verbose: bool) -> None:
    """Tell, as git does, which refs here say where those of the remote are."""
    for ref in result.seen if verbose else ():
        invocation.say(f"updating local tracking ref '{ref}'", aside=True)


def _said(lines: Sequence[str], *, verbose: bool) -> list[str]:
    """Return what git said for programs, as it says it to people."""
    refs = [_ref(line) for line in lines if line.count("\t") == 2 and line[0] != "="]
    others = [line for line in lines if "\t" not in line and line != "Done"]
    others = [line for line in others if verbose or not line.startswith("Pushing to ")]
    to = [line for line in others if line.startswith("To ")]
    far = [line for line in others if line.startswith("remote: ") or line == "remote:"]
    rest = [line for line in others if line not in (*to, *far)]
    return [*far, *to, *_moved(refs), *rest]


def _moved(refs: Sequence[PushedRef]) -> list[str]:
    """Return the line of each ref that moved, as git lays them out."""
    # Wide enough for `old...new`, of ids as short as they can be.
    ids = (ref["summary"].partition("..")[0] for ref in refs if ".." in ref["summary"])
    wide = 3 + 2 * max([7, *map(len, ids)])
    lines = []
    for ref in refs:
        source, target = (_shortened(ref[side]) for side in ("source", "target"))
        names = f"{source} -> {target}" if source else target
        # After what happened, why it did.
        what, bracket, why = ref["summary"].partition(" (")
        lines.append(f" {ref['flag'] or ' '} {what:{wide}} {names}{bracket}{why}")
    return lines


def _shortened(name: str) -> str:
    return re.sub("^refs/(heads|tags|remotes)/", "", name)


def _ref(line: str) -> PushedRef:
    """Return what git says of a ref in a line of `git push --porcelain`."""
    flag, refs, summary = line.split("\t")
    source, _, target = refs.partition(":")
    return {"flag": flag, "source": source, "target": target, "summary": summary}
