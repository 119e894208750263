"""Commits that nothing names any more once HEAD leaves them: they are named, as git does.

Only a HEAD that is on no branch can leave commits behind, and the same goes for a branch or a
tag that is deleted by force; who reads the note can still give them a name.
"""

from __future__ import annotations

from havasu_vc.checkouts.keeping_bases import PREFIX
from havasu_vc.repo.opened import OpenRepo
from havasu_vc.store.commits import read_commit
from havasu_vc.store.refs import Head

__all__ = ["left_behind"]

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
