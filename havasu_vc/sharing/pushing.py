"""Push: data files first, then the refs that name them.

git is asked what it would do, by its own settings, before a byte of data goes. What it
then is told to do names commits by their ids, so that a branch that moves meanwhile takes
nothing along whose data was not sent. What the remote has is what its refs reach now, not
what they reached when they were last seen.

Data files that come when something reads them, from whichever remote has them.

The remote that the current branch follows is asked first, then the others. What a remote
lacks the next one is asked for; what none has is an error that says where was looked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial

from havasu_vc.errors import (
    CorruptDatasetError,
    DataFileNotFoundError,
    HavasuError,
    InvalidArgumentError,
    NotFoundError,
    StateError,
    StorageError,
)
from havasu_vc.looking import lost_values
from havasu_vc.records import dataclass
from havasu_vc.remotes.protocol import Claim, DataRemote, WantedFile, total_size
from havasu_vc.remotes.urls import hidden_secrets
from havasu_vc.remotes.wanted import (
    commits_here,
    files_at,
    files_of_commits,
    where_new_begins,
)
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.setting_up import set_up
from havasu_vc.repo.soundness import ALLOW, require_sound
from havasu_vc.sharing.answers import refusal, remote_words
from havasu_vc.sharing.data_remotes import (
    DATA_ELSEWHERE,
    default_remote,
    download,
    far_place,
    is_here,
    local_folder,
    remote_address,
    remote_data,
    send_data,
)
from havasu_vc.sharing.requests import PushRequest
from havasu_vc.store.command import GitResult, is_locked
from havasu_vc.store.locks import lock_in_message
from havasu_vc.store.refs import read_ref
from havasu_vc.store.repository import LOCK_PATIENCE, GitRepository

__all__ = ["PushResult", "RemoteFetcher", "commits_there", "push", "push_data"]

TAB = "\t"
SENT = {"HAVASU_VC_DATA_SENT": "1"}
"""Set for the hook of a push whose data was sent by us."""
_LEASES = ("--force-with-lease", "--force-if-includes")
MOST_ASKED = 200
"""Of so many files of a commit a place is asked whether it has them, though it should."""
LOCKS = 5
"""How many locks that nobody holds are removed of a remote that is a folder, one at a time."""
# What chooses refs, or is done here; the rest is for git when the refs move.
_CHOOSING = (
    "--all",
    "--tags",
    "--mirror",
    "--delete",
    "--set-upstream",
    "--force",
    "--follow-tags",
)


@dataclass(frozen=True, slots=True)
class PushResult:
    """The outcome of a push, or of one that was only tried."""

    remote: str
    """To where."""
    refs: tuple[str, ...] = ()
    """The words of git on each ref."""
    files: int = 0
    """Data files that went."""
    size: int = 0
    """Their bytes."""
    followed: tuple[tuple[str, str], ...] = ()
    """The branches here that follow one there from now on, and which one."""
    same: tuple[str, ...] = ()
    """The words of git on each ref that is there already."""
    seen: tuple[str, ...] = ()
    """The refs here that say where those of the remote are."""


@dataclass(frozen=True, slots=True)
class _Update:
    """The change of one ref of the remote."""

    flag: str
    """git's: `*` new, `+` forced, `-` deleted, `=` up to date, a space for the rest."""
    source: str
    """The ref here; nothing for a deletion."""
    target: str
    """The ref there."""
    commit: str
    """The commit that the ref here is at."""
    line: str
    """All that git says."""


def push(repo: OpenRepo, request: PushRequest) -> PushResult:
    """Send data, then move the remote's refs."""
    set_up(repo)
    if request.remote == "":
        raise InvalidArgumentError("an empty text is no remote")
    name = request.remote or default_remote(repo)
    shown = hidden_secrets(remote_address(repo, name, push=True))
    arguments = [*request.options, "--", name, *request.refspecs]
    asked = repo.git.git(
        "push", "--dry-run", "--porcelain", "--verbose", *arguments, check=False, environment=SENT
    )
    if asked.code:
        raise refusal(asked, shown)
    updates = _updates(repo, asked)
    changes = [update for update in updates if update.flag != "="]
    same = tuple(update.line for update in updates if update.flag == "=")
    _require_sound(
        repo, name, {each.commit: each.source for each in changes}, allowed=request.allow_broken
    )
    if request.dry_run:
        return PushResult(shown, tuple(update.line for update in changes), same=same)
    if not changes:
        late = _sent_late(repo, name, [update.commit for update in updates if update.commit])
        _note_moved(repo, name, updates)
        followed = _follow(repo, request, name, updates)
        seen = _seen(repo, name, updates)
        return PushResult(shown, (), len(late), total_size(late), followed, same, seen)
    wanted = sorted({update.commit for update in changes if update.commit})
    with _sent(repo, name, wanted, allow_broken=request.allow_broken) as (sent, claim):
        # From here on refs may move even if nobody is told so.
        claim.outlasting = True
        answer = _move_refs(repo, request, name, changes)
        for _ in range(LOCKS):
            if not answer.code or not _freed(repo, name, answer):
                break
            answer = _move_refs(repo, request, name, changes)
        claim.outlasting = answer.code != 0 and not _is_refused(answer, changes)
    if answer.code:
        raise _named(refusal(answer, shown), changes)
    for line in remote_words(answer):
        repo.settings.note(line)
    _note_moved(repo, name, changes)
    followed = _follow(repo, request, name, updates)
    lines = tuple(update.line for update in changes)
    seen = _seen(repo, name, updates)
    return PushResult(shown, lines, len(sent), total_size(sent), followed, same, seen)


def _named(error: StateError, changes: Sequence[_Update]) -> StateError:
    """Return an error whose lines name the refs here, of which the commits were pushed."""
    lines = "\n".join(error.said)
    for each in changes:
        lines = lines.replace(f"{each.commit}:{each.target}\t", f"{each.source}:{each.target}\t")
    error.said = tuple(lines.split("\n")) if lines else ()
    return error


def push_data(
    repo: OpenRepo, remote: str | None = None, lines: Sequence[str] | None = None
) -> PushResult:
    """Send the data of all refs here, or of those that git's `pre-push` hook names.

    With no lines, every file is looked for, also those that the remote should have.
    """
    set_up(repo)
    name = remote or default_remote(repo)
    if lines is None:
        named = repo.git.git("for-each-ref", "--format=%(objectname)").lines
    else:
        # What was pushed may be written with spaces in it, as `HEAD@{1 day ago}`.
        told = [words for line in lines if len(words := line.rsplit(" ", 3)) == 4]
        named = [words[1] for words in told]
        _require_sound(repo, name, {words[1]: words[0] for words in told})
    wanted = sorted({commit for commit in named if set(commit) != {"0"}})
    shown = hidden_secrets(remote_address(repo, name, push=True))
    with _sent(repo, name, wanted, everything=lines is None) as (sent, claim):
        # The refs move after this, if at all: the hook is asked before.
        claim.outlasting = lines is not None
    return PushResult(shown, (), len(sent), total_size(sent))


def _require_sound(
    repo: OpenRepo, remote: str, names: Mapping[str, str], *, allowed: bool = False
) -> None:
    """Raise where what is pushed has broken datasets; `names` are its refs by commit or tag.

    Older commits may have them: a repair does not rewrite what was.
    """
    heads = [
        replace(repo.resolve(commit), name=name.removeprefix("refs/heads/") or commit[:10])
        for commit, name in names.items()
        if commits_here(repo.git, [commit])
    ]
    require_sound(repo, *heads, what="this push", allowed=allowed)
    for path, error in lost_values(repo, heads, (f"--remotes={remote}",)):
        if not allowed:
            hints = (*error.hints, f"`{ALLOW}` carries it on as it is")
            raise StateError(f"this push would carry it on: {error.message}", hints=hints)
        repo.tell(path, error.message)


@contextmanager
def _sent(
    repo: OpenRepo,
    name: str,
    wanted: Sequence[str],
    *,
    everything: bool = False,
    allow_broken: bool = False,
) -> Iterator[tuple[Sequence[WantedFile], Claim]]:
    """Send what commits name and the refs of a remote do not, and keep it from being pruned.

    What the remote has is told by the commits of it that were seen last. Whether its refs
    are there still is looked at when nothing that these reach can go any more.
    """
    if not wanted:
        yield (), Claim()
        return
    named = partial(files_of_commits, repo.git, wanted, allow_broken=allow_broken)
    refs = f"refs/remotes/{name}/"
    seen = repo.git.git("for-each-ref", "--format=%(objectname)", refs).lines
    begins = where_new_begins(repo.git, wanted, seen)
    files: Sequence[WantedFile] = named(begins)
    try:
        place = remote_data(repo, name, push=True)
    except StateError:
        # Texts may go all the same where the place of the data is none that the user allows.
        if files or everything or named(commits_there(repo, name)):
            raise
        place = None
    if place is None:
        yield (), Claim()
        return
    with ExitStack() as held:
        claim, reached = Claim(), True
        try:
            claim = held.enter_context(place.sending(files, begins))
        except StorageError:
            if files or everything:
                raise  # who has no access to the data may push texts all the same
            reached = False
        there = [] if everything else commits_there(repo, name)
        if everything or where_new_begins(repo.git, wanted, there) != begins:
            files = named(there)
        if not place.knows and _away(repo, files):
            files = _asked(repo, name, named, files, everything=everything)
        if repo.on_demand and (away := _away(repo, place.lacking(files))):
            RemoteFetcher(repo).fetch([(file.sha256, file.size) for file in away])
        if reached and not everything:
            files = sorted({*files, *_unsent(repo, place, wanted, files)})
        yield send_data(repo, place, files) if files else (), claim


def _sent_late(repo: OpenRepo, name: str, commits: Sequence[str]) -> Sequence[WantedFile]:
    """Send data of commits that are at a remote already: a plain `git push` may have left it.

    Only a place that says what it has is asked, and only for the files of these very commits.
    """
    if not commits:
        return ()
    try:
        place = remote_data(repo, name, push=True)
        files = () if place is None else _unsent(repo, place, commits)
    except (StateError, StorageError, CorruptDatasetError):
        return ()  # who has no access to the data has nothing to push either
    if place is None or not files:
        return ()
    with place.sending(files):
        return send_data(repo, place, files)


def _unsent(
    repo: OpenRepo,
    place: DataRemote,
    commits: Sequence[str],
    besides: Sequence[WantedFile] = (),
) -> Sequence[WantedFile]:
    """Return the files of commits' own trees, `besides` others, that are here and a place lacks."""
    if not place.knows:
        return ()
    files = set(files_at(repo.git, commits, MOST_ASKED)).difference(besides)
    return place.lacking([file for file in sorted(files) if is_here(repo.storage.files, file)])


def _away(repo: OpenRepo, files: Sequence[WantedFile]) -> list[WantedFile]:
    """Return those files that are not here, as a clone of a part has them."""
    return [file for file in files if not is_here(repo.storage.files, file)]


def _asked(
    repo: OpenRepo,
    name: str,
    named: Callable[[Sequence[str]], Sequence[WantedFile]],
    files: Sequence[WantedFile],
    *,
    everything: bool,
) -> Sequence[WantedFile]:
    """Find out more of what a remote has, which says nothing of single files.

    Where its branches are at commits that are not here, these may well contain what is
    pushed: they are brought, and stay without a name.
    """
    if everything:
        return [file for file in files if is_here(repo.storage.files, file)]
    address = remote_address(repo, name, push=True)
    listed = repo.git.git("ls-remote", "--quiet", "--heads", "--", address).lines
    heads = "".join(f"{line.partition(TAB)[2]}\n" for line in listed)
    bring = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
    told = heads.encode("utf-8", "surrogateescape")
    repo.git.git(*bring, "--refmap=", "--stdin", "--", address, stdin=told, check=False)
    return named([line.partition(TAB)[0] for line in listed])


def commits_there(repo: OpenRepo, remote: str) -> list[str]:
    """Return what the refs of a remote are at now."""
    address = remote_address(repo, remote, push=True)
    answer = repo.git.git("ls-remote", "--quiet", "--", address, check=False)
    if answer.code:
        raise refusal(answer, hidden_secrets(address))
    return sorted({line.partition(TAB)[0] for line in answer.lines})


def _is_refused(answer: GitResult, changes: Sequence[_Update]) -> bool:
    """Whether the remote has said of every ref that it does not move."""
    lines = [line for line in answer.lines if line.count(TAB) == 2]
    refused = {line.split(TAB)[1].rpartition(":")[2] for line in lines if line.startswith("!")}
    return {update.target for update in changes} <= refused


def _updates(repo: OpenRepo, asked: GitResult) -> list[_Update]:
    """Return what `git push --porcelain` says: `flag <tab> from:to <tab> summary`."""
    lines = [line for line in asked.lines if line.count(TAB) == 2]
    pairs = [line.split(TAB)[1].rpartition(":") for line in lines]
    # In one go: there may be thousands of tags.
    ids = _ids(repo, sorted({source for source, _, _ in pairs if source}))
    return [
        _Update(line.split(TAB)[0].strip(), source, target, ids.get(source, ""), line)
        for line, (source, _, target) in zip(lines, pairs, strict=True)
    ]


def _ids(repo: OpenRepo, names: Sequence[str]) -> dict[str, str]:
    """Return what refs, or whatever else git takes for a source, are at."""
    asked = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
    answer = repo.git.git("cat-file", "--batch-check=%(objectname)", stdin=asked)
    return dict(zip(names, answer.lines, strict=True))


def _move_refs(
    repo: OpenRepo, request: PushRequest, name: str, changes: Sequence[_Update]
) -> GitResult:
    leased = any(option.startswith(_LEASES) for option in request.options)
    refspecs = [
        f"{'+' if update.flag == '+' and not leased else ''}{update.commit}:{update.target}"
        for update in changes
    ]
    options = [option for option in request.options if option not in _CHOOSING]
    return repo.git.git(
        "-c",
        f"remote.{name}.mirror=false",
        "push",
        "--porcelain",
        "--no-follow-tags",
        *options,
        "--",
        name,
        *refspecs,
        check=False,
        environment=SENT,
    )


def _note_moved(repo: OpenRepo, name: str, updates: Sequence[_Update]) -> None:
    """Note where branches of a remote are now, where a git that was stopped has not."""
    for update in updates:
        for seen in _seen(repo, name, [update]) if update.commit else ():
            if read_ref(repo.git, seen) != update.commit:
                repo.git.git("update-ref", "-m", "update by push", seen, update.commit)


def _seen(repo: OpenRepo, name: str, updates: Sequence[_Update]) -> tuple[str, ...]:
    """Return the refs here that say where branches of a remote are, in the order of names."""
    if f"+refs/heads/*:refs/remotes/{name}/*" not in repo.git.config.all(f"remote.{name}.fetch"):
        return ()
    prefix = "refs/heads/"
    targets = sorted(each.target for each in updates if each.target.startswith(prefix))
    return tuple(f"refs/remotes/{name}/{each.removeprefix(prefix)}" for each in targets)


def _freed(repo: OpenRepo, name: str, answer: GitResult) -> bool:
    """Whether a ref of a remote that is a folder here was locked by nobody, and is not now."""
    place = local_folder(remote_address(repo, name, push=True), repo.git)
    if place is None or not is_locked(answer):
        return False
    with suppress(HavasuError):
        server = GitRepository.open(place)
        server.note = repo.git.note
        lock = lock_in_message(answer.errors, server.git_directory)
        return lock is not None and server.frees(lock, time.monotonic() + LOCK_PATIENCE)
    return False


def _follow(
    repo: OpenRepo, request: PushRequest, name: str, updates: Sequence[_Update]
) -> tuple[tuple[str, str], ...]:
    """Have branches follow what they were pushed to, where that was asked for; return them."""
    automatic = repo.git.config.boolean("push.autoSetupRemote") and not request.refspecs
    if "--set-upstream" not in request.options and not automatic:
        return ()
    followed = []
    prefix = "refs/heads/"
    for update in updates:
        source = update.source
        if source == "HEAD" and repo.head_branch is not None:
            source = prefix + repo.head_branch
        if source.startswith(prefix) and update.target.startswith(prefix):
            branch = source.removeprefix(prefix)
            if automatic and repo.git.config.get(f"branch.{branch}.remote") is not None:
                continue
            repo.git.config.set(f"branch.{branch}.remote", name)
            repo.git.config.set(f"branch.{branch}.merge", update.target)
            followed.append((branch, f"{name}/{update.target.removeprefix(prefix)}"))
    return tuple(followed)


class RemoteFetcher:
    """Brings data files from the remotes of a repository."""

    def __init__(self, repo: OpenRepo) -> None:
        self._repo = repo
        self._there: set[tuple[str, int]] = set()
        """Files that the bucket is known to have."""

    def fetch(self, files: Sequence[tuple[str, int]]) -> None:
        """Bring files, given by name and size."""
        repo = self._repo
        missing = [WantedFile(name, size) for name, size in files]
        failure: HavasuError | None = None
        hints = ["no remote has it; `havasu-vc data push` in a clone that has it sends it"]
        is_told = False  # where the data is, if not with git's objects
        for name in self._remotes():
            try:
                remote = remote_data(repo, name)
                is_told = is_told or remote.has_url
                there = missing
                if remote.knows:
                    lacking = set(remote.lacking(missing))
                    there = [file for file in missing if file not in lacking]
                download(repo, remote, there)
            except HavasuError as error:
                failure = failure or error
            store = repo.storage.files
            missing = [file for file in missing if not is_here(store, file)]
            if not missing:
                return
        if failure is not None:
            raise failure
        if not is_told:
            hints.append(DATA_ELSEWHERE)
        raise DataFileNotFoundError(missing[0].sha256, hints=tuple(hints))

    def bucket(self) -> str | None:
        """Return the bucket that has the data; None where it is elsewhere or not told."""
        return far_place(self._repo)

    def share(self, files: Sequence[tuple[str, int]]) -> None:
        """Put files that are here, given by name and size, into the bucket, if it lacks them."""
        url = self.bucket()
        wanted = [WantedFile(*file) for file in sorted({*files} - self._there)]
        if url is not None and wanted:
            from havasu_vc.remotes.object_store import ObjectStoreRemote

            send_data(self._repo, ObjectStoreRemote(url), wanted)
            self._there.update(files)

    def _remotes(self) -> list[str]:
        names = self._repo.git.git("remote").lines
        try:
            first = default_remote(self._repo)
        except NotFoundError:
            return names
        return [first, *(name for name in names if name != first)]
