"""Taking over what git stopped half-way: a merge, cherry-pick, revert, rebase step or squash.

git cannot merge two edited snapshots of a dataset, so it stops there. Whatever it did
to the entries until then, or somebody by hand, is thrown away: every dataset is merged
from its rows in the commits, and put into the index. Then git itself concludes, so the
commit has the parents, the author and the message that git gives it, hooks run, and the
rest of a rebase follows. The user's own files are taken as they are in the index.

Conflicts of rows wait and are resolved as in a merge of ours; meanwhile git waits too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeGuard

from havasu_vc.datasets.commit_plans import MergedTree
from havasu_vc.errors import (
    ConflictError,
    CorruptionError,
    HavasuError,
    StateError,
)
from havasu_vc.history.conflicts import MergePolicy
from havasu_vc.history.merge_datasets import markers_of
from havasu_vc.merging import merge_commits as merging
from havasu_vc.merging.merge_commits import MergeResult, base_of, merge_datasets, require_resolved
from havasu_vc.merging.state import (
    MergeState,
    begun_before,
    drop_state,
    forget,
    put_back,
    read_cut_off,
    read_state,
    read_waiting,
    require_not_cut_off,
    set_waiting,
    write_state,
)
from havasu_vc.merging.waiting import merge_waits, require_no_merge_of_kart
from havasu_vc.model.commits import ChangeCounts
from havasu_vc.model.names import HAVASU_MARKER, TABLES
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.repo.transaction import Transaction
from havasu_vc.store.command import raise_for
from havasu_vc.store.commits import (
    NO_SIGNATURE,
    commits_known,
    drop_commits,
    spoilt_commits,
    unsigned,
)
from havasu_vc.store.disk import replace_file
from havasu_vc.store.index import sweep
from havasu_vc.store.locks import without_git_gc
from havasu_vc.store.refs import read_head
from havasu_vc.store.revisions import Stopped, read_stopped, unmerged_files

if TYPE_CHECKING:
    from havasu_vc.store.command import GitResult

__all__ = ["abort_merge", "asked_of_git", "continue_merge", "go_on"]


def continue_merge(repo: OpenRepo, *, message: str | None = None) -> MergeResult:
    """Conclude the merge that waits, whoever began it."""
    require_no_merge_of_kart(repo.git)
    require_not_cut_off(repo.git)
    stopped = read_stopped(repo.git)
    if stopped is None:
        return merging.conclude_merge(repo, message=message)
    state = read_state(repo.git) if merge_waits(repo.git) else None
    if state is not None and not state.takes_over:
        raise StateError(
            f"two merges wait: one of havasu-vc, and a {stopped.kind} of git",
            hints=("`havasu-vc merge --abort` drops the first",),
        )
    policy = None if state is None else state.policy
    return _take_over(repo, stopped, message=message, policy=policy)


def asked_of_git(repo: OpenRepo, *command: str, kind: str) -> GitResult:
    """Let git make commits in a merge, rebase or the like; where it spoilt one, all is put back.

    Whatever the program that signs wrote is in git's commit, and nobody could read it again.
    """
    if not repo.git.config.boolean("commit.gpgsign"):
        return repo.git.git(*command, check=False, environment=_NO_EDITOR, once=True)
    begun, logged = begun_before(repo.git, kind), _logged(repo)
    known = commits_known(repo.git, *command[1:])
    answer = repo.git.git(*command, check=False, environment=_NO_EDITOR, once=True)
    made = {*_logged(repo)[len(logged) :], read_head(repo.git).commit or ""} - {""}
    spoilt = spoilt_commits(repo.git, made, known=known)
    if spoilt:
        put_back(repo, begun)
        _forget_squash(repo)
        repo.git.git("update-ref", "ORIG_HEAD", begun.commit)
        drop_commits(repo.git, spoilt)
        raise unsigned(f"{NO_SIGNATURE}; the {kind} is dropped, and HEAD is where it was")
    return answer


_NO_EDITOR = {"GIT_EDITOR": ":"}
"""Nobody is asked about the message: that is for `--message`."""


def _logged(repo: OpenRepo) -> list[str]:
    """Return the commits that HEAD went to, the oldest first, as far as git notes that."""
    with suppress(OSError):
        lines = (repo.git.git_directory / "logs" / "HEAD").read_bytes().splitlines()
        return [line[41:81].decode("ascii", "replace") for line in lines]
    return []


def go_on(
    repo: OpenRepo,
    stopped: Stopped | None,
    answer: GitResult,
    *,
    command: Sequence[str] = (),
    policy: MergePolicy | None = None,
) -> MergeResult:
    """Go on from what git answered: it is through, or it stopped at rows that are ours to merge.

    `stopped` is where it waited before, and `command` what it was asked for where nowhere.
    """
    following = read_stopped(repo.git) if answer.code or stopped is None else None
    kind = command[0] if stopped is None else stopped.kind
    if not answer.code and following is None:
        return _through(repo, kind, {})
    if following is None:
        if read_cut_off(repo.git) is None:
            forget(repo.git)
        raise_for(answer, command, str(repo.git.path))
    if not _stopped_at_rows(following, repo, answer, stopped):
        raise _cut_off(kind, answer, following)
    return _take_over(repo, following, policy=policy)


def _take_over(
    repo: OpenRepo,
    stopped: Stopped,
    *,
    message: str | None = None,
    policy: MergePolicy | None = None,
) -> MergeResult:
    """Merge the rows of each commit at which git stops, until it is through."""
    changes: dict[str, ChangeCounts] = {}
    while True:
        set_waiting(repo.git, True)
        result = _step(repo, stopped, message, policy)
        message = None  # of the commits that follow, it is none
        for path, counts in result.changes.items():
            changes[path] = changes.get(path, ChangeCounts()) + counts
        if result.kind == "conflicts":
            return replace(result, changes=changes)
        if stopped.kind == "squash" and _is_empty(repo):
            _forget_squash(repo)
            drop_state(repo.git)
            return MergeResult("empty", read_head(repo.git).commit, changes)
        before = read_head(repo.git).commit
        answer = _conclude(repo, stopped)
        following = read_stopped(repo.git) if answer.code else None
        if answer.code > 0 and following == stopped and read_head(repo.git).commit == before:
            raise _refused(repo, stopped.kind, answer)
        drop_state(repo.git)
        if not answer.code:
            return _through(repo, stopped.kind, changes)
        if not _stopped_at_rows(following, repo, answer, stopped):
            raise _cut_off(stopped.kind, answer, following)
        stopped = following


def _through(repo: OpenRepo, kind: str, changes: dict[str, ChangeCounts]) -> MergeResult:
    forget(repo.git)
    # What git applied since as patches, it wrote into the work tree too.
    sweep(repo.git, tuple(repo.folders(repo.head())))
    return MergeResult(kind, read_head(repo.git).commit, changes)


def _stopped_at_rows(
    following: Stopped | None, repo: OpenRepo, answer: GitResult, stopped: Stopped | None
) -> TypeGuard[Stopped]:
    """Whether git went on and stopped at a commit in conflict, from where we can go on.

    It ends with 1 there. Whatever else ends it (a full disk, a signal, a command of the user's
    in a rebase) may have come when a commit was off git's list and not made yet: who went on
    from there would leave it out.
    """
    if answer.code != 1 or following is None or following.theirs is None or following == stopped:
        return False
    # Patches that do not apply leave nothing in the index, nor does a commit that brings nothing.
    patches = (repo.git.git_directory / "rebase-apply").is_dir()
    empty = "empty" in f"{answer.text}{answer.errors}"
    return patches or empty or bool(unmerged_files(repo.git))


def _refused(repo: OpenRepo, kind: str, answer: GitResult) -> StateError:
    """Return the error for a commit that git did not make: a hook refused it, or nobody signed.

    Nothing moved, so it waits as before, with what is resolved.
    """
    set_waiting(repo.git, True)
    verb = "merge" if kind == "squash" else kind
    # What a hook or a signing program says stands before git's own last words.
    lines = [line for line in answer.error_lines if not line.startswith("hint: ")]
    said = [line.removeprefix("error: ").removeprefix("fatal: ") for line in lines[-3:]]
    return StateError(
        f"git made no commit: {'; '.join(said) or answer.message}",
        hints=(
            f"once that is mended, `havasu-vc {verb} --continue` goes on",
            f"`havasu-vc {verb} --abort` puts back what was before it",
        ),
    )


def _cut_off(kind: str, answer: GitResult, following: Stopped | None) -> StateError:
    """Return the error for a git that neither is through nor stopped where we can go on."""
    hint = f"`havasu-vc {kind} --abort` puts back what was before it"
    known = following is not None and kind in ("cherry-pick", "rebase", "revert")
    return StateError(f"git says: {answer.message}", hints=(hint,) if known else ())


def _step(
    repo: OpenRepo, stopped: Stopped, message: str | None, policy: MergePolicy | None
) -> MergeResult:
    """Put the merged datasets into the index, or tell what is in conflict."""
    if stopped.theirs is None:
        return MergeResult(stopped.kind, None)
    _require_files(repo)
    state = _state(repo, stopped, policy)
    require_resolved(state)
    if message is not None:
        _set_message(repo, message)
    with Transaction(repo) as transaction:
        merged = merge_datasets(repo, transaction, base_of(repo, transaction, state), state)
        waiting = tuple(each.conflicts for each in merged.values() if each.conflicts is not None)
        edits = [each.edit for each in merged.values() if each.edit is not None and each.edit.blobs]
        changes = {edit.path: edit.counts for edit in edits}
        if waiting:
            write_state(repo.git, state.with_conflicts(waiting))
            return MergeResult("conflicts", None, changes, waiting)
        internals = {path: each.internals for path, each in merged.items()}
        merge = MergedTree({}, internals, (), markers_of(merged))
        # Until the index names them, git would take what is staged for left over.
        with without_git_gc(repo.git.common_directory):
            wanted = transaction.stage(edits, merge)
            _fill_index(repo, wanted)
    sweep(repo.git, wanted)
    return MergeResult(stopped.kind, None, changes)


def _require_files(repo: OpenRepo) -> None:
    """Raise unless all files in conflict are of datasets."""
    files = [
        path for path in unmerged_files(repo.git) if set(path.split("/")[:-1]).isdisjoint(TABLES)
    ]
    if files:
        listed = ", ".join(files[:3]) + (" …" if len(files) > 3 else "")
        raise ConflictError(
            f"files beside the datasets are in conflict: {listed}",
            hints=("edit them, `git add` them, then `havasu-vc merge --continue`",),
        )


def _state(repo: OpenRepo, stopped: Stopped, policy: MergePolicy | None) -> MergeState:
    """Return the merge that waits with its resolutions, or a new one."""
    ours = repo.resolve("HEAD").commit
    theirs = stopped.theirs
    if ours is None or theirs is None:
        raise ValueError("there is nothing to merge")
    known = read_state(repo.git)
    if known is not None and (known.ours, known.theirs, known.base) == (ours, theirs, stopped.base):
        return known
    return MergeState(
        ours,
        theirs,
        theirs[:10],
        _message(repo),
        policy or MergePolicy(),
        kind=stopped.kind,
        base=stopped.base,
        takes_over=True,
    )


def _message(repo: OpenRepo) -> str:
    with suppress(FileNotFoundError):
        text = (repo.git.git_directory / "MERGE_MSG").read_text("utf-8", "replace")
        return "\n".join(line for line in text.split("\n") if not line.startswith("#")).strip()
    return ""


def _set_message(repo: OpenRepo, message: str) -> None:
    for name in ("MERGE_MSG", "SQUASH_MSG", "rebase-merge/message"):
        path = repo.git.git_directory / name
        if path.exists():
            # git puts the two of a squash together.
            replace_file(
                path,
                b"" if name == "SQUASH_MSG" else message.encode("utf-8", "surrogateescape") + b"\n",
            )


def _fill_index(repo: OpenRepo, wanted: dict[str, dict[str, str]]) -> None:
    """Make the index hold just these blobs of each dataset, none of them in conflict."""
    lines, hidden = [], []
    for path, blobs in wanted.items():
        first = next(iter(blobs), f"{path}/{HAVASU_MARKER}/")
        folder = f"{path}/{first.removeprefix(path + '/').partition('/')[0]}"
        present = _listed(repo, folder)
        gone = present.keys() - blobs.keys()
        lines += [b"0 %s\t%s" % (b"0" * 40, os.fsencode(name)) for name in gone]
        for name, blob in blobs.items():
            if present.get(name) == [(b"0", blob.encode())]:
                continue
            raw = os.fsencode(name)
            if name in present:
                lines.append(b"0 %s\t%s" % (b"0" * 40, raw))
            lines.append(b"100644 %s 0\t%s" % (blob.encode(), raw))
            hidden.append(raw)
    if lines:
        repo.git.git("update-index", "-z", "--index-info", stdin=b"\0".join(lines) + b"\0")
    if hidden:
        # As a sparse checkout has them: git does not miss them in the work tree.
        command = ("update-index", "-z", "--skip-worktree", "--stdin")
        repo.git.git(*command, stdin=b"\0".join(hidden) + b"\0")


def _listed(repo: OpenRepo, folder: str) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return stage and blob of what the index has below a folder, by path."""
    found: dict[str, list[tuple[bytes, bytes]]] = {}
    for line in repo.git.git("ls-files", "--stage", "-z", "--", folder).output.split(b"\0"):
        if line:
            facts, _, name = line.partition(b"\t")
            _, blob, stage = facts.split()
            found.setdefault(os.fsdecode(name), []).append((stage, blob))
    return found


def _conclude(repo: OpenRepo, stopped: Stopped) -> GitResult:
    """Let git make the commit, and go on with what comes after."""
    command = stopped.resume
    if stopped.kind in ("cherry-pick", "revert") and stopped.theirs and _is_empty(repo):
        command = (stopped.kind, "--skip")
    set_waiting(repo.git, False)
    return asked_of_git(repo, *command, kind=stopped.kind)


def _is_empty(repo: OpenRepo) -> bool:
    """Whether a commit of the index would change nothing."""
    return not repo.git.git("diff-index", "--cached", "--quiet", "HEAD", "--", check=False).code


def _forget_squash(repo: OpenRepo) -> None:
    for name in ("SQUASH_MSG", "MERGE_MSG"):
        (repo.git.git_directory / name).unlink(missing_ok=True)


def abort_merge(repo: OpenRepo) -> None:
    """Give up the merge that waits, whoever began it; HEAD is where it was before."""
    require_no_merge_of_kart(repo.git)
    begun = read_cut_off(repo.git)
    if begun is None and (waiting := read_waiting(repo.git)) is not None:
        begun = waiting[0]
    if begun is not None:
        put_back(repo, begun)
        return
    own = merge_waits(repo.git)
    stopped = read_stopped(repo.git)
    if stopped is None or (own and not _takes_over(repo)):
        merging.drop_merge(repo)
        return
    datasets = _datasets_around(repo, stopped)
    repo.git.git(*stopped.abort)
    forget(repo.git)
    drop_state(repo.git)
    if stopped.kind == "squash":
        _forget_squash(repo)
    sweep(repo.git, datasets)


def _takes_over(repo: OpenRepo) -> bool:
    try:
        state = read_state(repo.git)
    except CorruptionError:
        return False
    return state is None or state.takes_over


def _datasets_around(repo: OpenRepo, stopped: Stopped) -> Sequence[str]:
    names = [name for name in (stopped.theirs, stopped.base) if name is not None]
    paths: set[str] = set()
    for name in ("HEAD", "ORIG_HEAD", *names):
        with suppress(HavasuError):
            paths |= repo.folders(repo.resolve(name)).keys()
    return sorted(paths)
