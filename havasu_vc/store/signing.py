"""Storing commits, signed where git's settings want that: `commit.gpgsign`.

A signature is git's to make: it knows the key, the program and the form (`gpg.format`). Where
none is wanted, as nearly always, no process is started.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from havasu_vc.errors import StateError
from havasu_vc.store.commits import Signature, format_commit
from havasu_vc.store.objects import ObjectId, ObjectWriter

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = ["store_commit"]

_SETTING = "commit.gpgsign"


def store_commit(
    git: GitRepository,
    writer: ObjectWriter,
    tree: ObjectId,
    parents: tuple[ObjectId, ...],
    *,
    author: Signature,
    committer: Signature,
    message: str,
) -> ObjectId:
    """Store a commit, and all that was written before it, and return its id."""
    document = format_commit(tree, parents, author=author, committer=committer, message=message)
    if not git.config.boolean(_SETTING):
        commit = writer.write("commit", document)
        writer.flush()
        return commit
    writer.flush()
    named = [word for parent in parents for word in ("-p", parent)]
    people = {**_environment("AUTHOR", author), **_environment("COMMITTER", committer)}
    done = git.git(
        "commit-tree",
        "-S",
        tree,
        *named,
        stdin=message.encode("utf-8", "surrogateescape"),
        environment=people,
        check=False,
    )
    if done.code:
        lines = [line.removeprefix("error: ") for line in done.error_lines]
        said = [line for line in lines if not line.startswith(("fatal: ", "hint: "))]
        raise StateError(
            f"the commit could not be signed: {'; '.join(said[-2:]) or done.message}",
            hints=(
                f"`git config {_SETTING} false` makes commits without a signature",
                "`git config user.signingkey KEY` and `gpg.format` say how they are signed",
            ),
        )
    return done.text.strip()


def _environment(role: str, who: Signature) -> dict[str, str]:
    text = str(who)
    return {
        f"GIT_{role}_NAME": who.name,
        f"GIT_{role}_EMAIL": who.email,
        f"GIT_{role}_DATE": "@" + text.rpartition("> ")[2],
    }
