"""Commits as values, and the bytes that they are in git.

`format_commit` writes exactly what git writes, so that the same commit has the same
id whoever makes it. The message is taken as it is, without cleaning.

Storing commits, signed where git's settings want that: `commit.gpgsign`.

A signature is git's to make: it knows the key, the program and the form (`gpg.format`). Where
none is wanted, as nearly always, no process is started.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from havasu_vc.errors import CorruptDatasetError, InvalidArgumentError, StateError
from havasu_vc.records import dataclass
from havasu_vc.store.disk import replace_file
from havasu_vc.store.objects import (
    ObjectId,
    ObjectSource,
    ObjectWriter,
    Signature,
    parse_signature,
    read_object,
)

if TYPE_CHECKING:
    from havasu_vc.store.repository import GitRepository

__all__ = [
    "NO_SIGNATURE",
    "Commit",
    "drop_commits",
    "format_commit",
    "parse_commit",
    "read_commit",
    "store_commit",
]

_ID = re.compile(r"[0-9a-f]{40}")
_BREAKING = re.compile(r"[\0\n<>]")


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a repository."""

    id: ObjectId
    """Its id."""
    tree: ObjectId
    """The id of its tree."""
    parents: tuple[ObjectId, ...]
    """The ids of its parents, the branch's own first."""
    author: Signature
    """Who made the change."""
    committer: Signature
    """Who made the commit."""
    message: str
    """The whole message."""

    @property
    def subject(self) -> str:
        """Return the first paragraph of the message as one line."""
        return " ".join(self.message.strip().split("\n\n", 1)[0].split("\n"))


def format_commit(
    tree: ObjectId,
    parents: tuple[ObjectId, ...],
    *,
    author: Signature,
    committer: Signature,
    message: str,
) -> bytes:
    """Return the bytes of a commit."""
    for who in (author, committer):
        # git could not read a commit whose lines these break.
        if _BREAKING.search(who.name + who.email) or who.time < 0:
            raise InvalidArgumentError(
                f"no commit can be of {str(who)!r}",
                hints=("`git config user.name NAME` says who you are",),
            )
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents)]
    lines += [f"author {author}", f"committer {committer}", "", message]
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def parse_commit(identity: ObjectId, data: bytes) -> Commit:
    """Return the commit that `data` is; raise ValueError if it is none."""
    head, separator, body = data.partition(b"\n\n")
    if not separator and not head.endswith(b"\n"):
        raise ValueError("its header does not end")
    encoding = "utf-8"
    fields: dict[str, list[str]] = {}
    for line in head.decode("utf-8", "surrogateescape").split("\n"):
        name, _, value = line.partition(" ")
        if name:  # a continued line, of a signature for instance, begins with a space
            fields.setdefault(name, []).append(value)
    if "encoding" in fields:
        encoding = fields["encoding"][0]
    try:
        message = body.decode(encoding, "replace" if encoding != "utf-8" else "surrogateescape")
    except (LookupError, UnicodeError):
        message = body.decode("utf-8", "replace")  # some encodings have no way to replace
    try:
        parents = tuple(fields.get("parent", ()))
        if not all(map(_ID.fullmatch, (*fields["tree"], *parents))):
            raise ValueError("it names something that is not an id")
        return Commit(
            identity,
            fields["tree"][0],
            parents,
            _who(fields["author"][0]),
            _who(fields["committer"][0]),
            message,
        )
    except KeyError as error:
        raise ValueError(f"it has no {error.args[0]}") from error


def _who(text: str) -> Signature:
    """Return the signature of a commit; whatever else stands there, as git takes it, is a name."""
    try:
        return parse_signature(text)
    except ValueError:
        return Signature(text, "", 0)


def read_commit(source: ObjectSource, identity: ObjectId) -> Commit:
    """Return a commit by id."""
    try:
        return parse_commit(identity, read_object(source, identity, "commit"))
    except ValueError as error:
        if isinstance(error, CorruptDatasetError):
            raise
        raise CorruptDatasetError(f"git object {identity}", f"as a commit, {error}") from error


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
        lines = [line.removeprefix("error:").strip() for line in done.error_lines]
        said = [line for line in lines if line and not line.startswith(("fatal: ", "hint: "))]
        raise unsigned("; ".join(said[-2:]) or "the program that signs failed without a word")
    commit = done.text.strip()
    # git takes whatever that program wrote, and neither git nor we could read the commit again.
    if not _SIGNED.search(read_object(git.objects, commit, "commit")):
        drop_commits(git, [commit])
        raise unsigned(NO_SIGNATURE)
    return commit


def commits_known(git: GitRepository, *revisions: str) -> list[ObjectId]:
    """Return commits by which all of a repository is reached, and those that are named besides."""
    known = git.git("for-each-ref", "--format=%(objectname)").output.split()
    with suppress(OSError):
        lines = (git.git_directory / "FETCH_HEAD").read_bytes().splitlines()
        known += [line[:40] for line in lines]
    for revision in ("HEAD", *revisions):
        if not revision.startswith("-"):
            name = f"{revision}^{{commit}}"
            known += git.git("rev-parse", "--verify", "--quiet", name, check=False).output.split()
    return [each.decode("ascii", "replace") for each in known]


def spoilt_commits(
    git: GitRepository, commits: Collection[ObjectId], *, known: Collection[ObjectId]
) -> set[ObjectId]:
    """Return which of some commits were made since others were `known`, and are not signed.

    Of a signature that is empty git makes a commit without any, and says nothing. What others made
    came by what was known, and stays as it is.
    """
    unsigned = {each for each in commits if not _is_signed(git, each)}
    if not unsigned:
        return unsigned
    asked = "\n".join((*sorted(unsigned), *(f"^{each}" for each in known), ""))
    listed = git.git("rev-list", "--ignore-missing", "--stdin", stdin=asked.encode()).output
    return unsigned & set(listed.decode().split())


def _is_signed(git: GitRepository, commit: ObjectId) -> bool:
    return _SIGNED.search(read_object(git.objects, commit, "commit")) is not None


def drop_commits(git: GitRepository, commits: Collection[ObjectId]) -> None:
    """Remove commits that were made a moment ago, and what is noted of HEAD having been there."""
    logs = [git.git_directory / "logs" / "HEAD"]
    if git.head_branch is not None:
        logs.append(git.common_directory / "logs" / "refs" / "heads" / git.head_branch)
    names = [commit.encode() for commit in commits]
    for log in logs:
        with suppress(FileNotFoundError):
            lines = log.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if not any(name in line[:81] for name in names)]
            if len(kept) < len(lines):
                replace_file(log, b"".join(kept))
    for commit in commits:
        (git.common_directory / "objects" / commit[:2] / commit[2:]).unlink(missing_ok=True)


NO_SIGNATURE = "what the program that signs wrote is no signature"
_SIGNED = re.compile(
    rb"\A(?:[a-z][^\0\n]*\n)+?gpgsig(?:-sha256)? -----BEGIN "
    rb"[^\0\n]*\n(?: [^\0\n]*\n)* -----END [^\0\n]*\n"
)


def unsigned(reason: str) -> StateError:
    """Return the error for a commit that could not be signed."""
    return StateError(
        f"the commit could not be signed: {reason}",
        hints=(
            f"`git config {_SETTING} false` makes commits without a signature",
            "`git config user.signingkey KEY` and `gpg.format` say how they are signed",
        ),
    )


def _environment(role: str, who: Signature) -> dict[str, str]:
    text = str(who)
    return {
        f"GIT_{role}_NAME": who.name,
        f"GIT_{role}_EMAIL": who.email,
        f"GIT_{role}_DATE": "@" + text.rpartition("> ")[2],
    }
