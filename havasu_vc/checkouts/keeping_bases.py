"""Refs that keep the commits which checked-out tables are of.

    refs/havasu-vc/workspace/<work tree>/head        the commit that the tables followed last
    refs/havasu-vc/workspace/<work tree>/<table>     the commit of a table that stayed at another

A table with edits stays at its commit when HEAD goes elsewhere, and the edits mean
nothing without it. No branch need have that commit any more, and git removes what no ref
reaches. The refs of work trees that are gone go with the next `gc`.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress

from havasu_vc.errors import HavasuError
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import read_commit
from havasu_vc.store.refs import Head, delete_ref, list_refs, move_ref, read_ref
from havasu_vc.workspace.state import WorkspaceState

__all__ = ["PREFIX", "forget_gone_work_trees", "keep_bases", "left_behind"]


PREFIX = "refs/havasu-vc/workspace/"
_LINKED = "linked-"


def keep_bases(
    repo: OpenRepo, before: WorkspaceState, now: WorkspaceState, head: str | None
) -> None:
    """Let refs name the commits that tables are of, after these became others."""
    git = repo.git
    mine = f"{PREFIX}{_LINKED + git.git_directory.name if git.is_linked else 'main'}"
    wanted = {f"{mine}/head": head}
    for path in before.tables.keys() | now.tables.keys():
        name = hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:16]
        table = now.tables.get(path)
        stayed = table is not None and table.commit != head
        wanted[f"{mine}/{name}"] = table.commit if table is not None and stayed else None
    for ref, commit in wanted.items():
        known = read_ref(repo.git, ref)
        if known == (commit or None):
            continue
        lock = repo.git.common_directory / f"{ref}.lock"
        if lock.exists():
            repo.git.frees(lock, time.monotonic())  # nobody waits for tables to be kept
        # A commit that is gone already cannot be kept; whoever needs it says so.
        with suppress(HavasuError):
            if commit:
                move_ref(repo.git, ref, old=known, new=commit, message="tables", patience=0.5)
            elif known is not None:
                delete_ref(repo.git, ref, known)


def forget_gone_work_trees(repo: OpenRepo) -> None:
    """Remove the refs of linked work trees that are there no more."""
    folder = repo.git.common_directory / "worktrees"
    for ref, commit in list_refs(repo.git, PREFIX).items():
        owner = ref.removeprefix(PREFIX).rpartition("/")[0]
        name = owner.removeprefix(_LINKED)
        if owner != name and not (folder / name).is_dir():
            with suppress(HavasuError):
                delete_ref(repo.git, ref, commit)


# Commits that nothing names any more once HEAD leaves them: they are named, as git does.
#
# Only a HEAD that is on no branch can leave commits behind, and the same goes for a branch or a
# tag that is deleted by force; who reads the note can still give them a name.

MOST_NAMED = 4
"""As many commits are named, as in git."""
MOST_COUNTED = 1000
SHORT = 10


def left_behind(repo: OpenRepo, before: Head) -> str | None:
    """Return a note on the commits that HEAD was on and that no ref reaches now, if there are any.

    What keeps tables in place is no ref of the user's: it moves along.
    """
    if before.branch is not None or before.commit is None:
        return None
    options = [f"--max-count={MOST_COUNTED}", f"--exclude={PREFIX}*", "--all"]
    listed = repo.git.git("rev-list", before.commit, "--not", *options, check=False).lines
    if not listed:
        return None
    named = [
        f"{commit[:SHORT]} {read_commit(repo.git.objects, commit).subject}"
        for commit in listed[:MOST_NAMED]
    ]
    more = f" and {len(listed) - len(named):,} more" if len(listed) > len(named) else ""
    count = "1 commit is" if len(listed) == 1 else f"{len(listed):,} commits are"
    return (
        f"{count} on no branch any more: {', '.join(named)}{more}; "
        f"`havasu-vc branch NAME {before.commit[:SHORT]}` keeps them"
    )
