"""Answers of git about a remote: why it would not fetch or push, and what the other side said."""

from __future__ import annotations

import re

from havasu_vc.errors import ConcurrentChangeError, StateError
from havasu_vc.remotes.urls import without_passwords
from havasu_vc.store.command import GitResult

__all__ = ["refusal", "remote_words"]

TAB = "\t"
_REJECTED = ("[rejected]", "non-fast-forward", "fetch first", "stale info", "remote ref updated")
_NOT_PUSHED = "failed to push some refs"
_MOST_WORDS = 20
"""So many lines of a server or a hook are told."""
_HINTS = (
    (
        re.compile(r"current branch (\S+) has no upstream branch"),
        "`havasu-vc push -u REMOTE {0}` pushes it, and follows it from now on",
    ),
    (
        re.compile("not currently on a branch"),
        "`havasu-vc push REMOTE HEAD:BRANCH` says to which branch the commit goes",
    ),
    (re.compile("src refspec .* does not match any"), "`havasu-vc branch` lists branches"),
    (
        re.compile("couldn't find remote ref"),
        "`git ls-remote` lists the branches of a remote",
    ),
)


def refusal(answer: GitResult, shown: str) -> StateError:
    """Return what it means that git would not fetch or push."""
    error = _refusal(answer, shown)
    if _NOT_PUSHED in answer.errors:
        told = (*answer.lines, *answer.error_lines)
        error.said = tuple(map(without_passwords, told))
    return error


def _refusal(answer: GitResult, shown: str) -> StateError:
    text = answer.errors + answer.text
    if any(word in text for word in _REJECTED):
        return ConcurrentChangeError(
            f"{shown} has commits that are not here",
            hints=("`havasu-vc pull` merges them row by row, then push again",),
        )
    message = answer.message
    for line in answer.lines:
        # `! <tab> from:to <tab> [remote rejected] (reason)`
        if line.startswith("!") and line.count(TAB) == 2:
            _, refs, reason = line.split(TAB)
            message = f"{refs.rpartition(':')[2]}: {reason}"
    for line in answer.error_lines:
        # The reason stands before git's own last words.
        if line.startswith(("ssh: ", "fatal: ")):
            message = line.removeprefix("fatal: ")
            break
    said = remote_words(answer)
    if message.startswith(_NOT_PUSHED):
        # git names no ref: a hook here had it stop.
        said += tuple(f"a hook here says: {line}" for line in answer.hook_words[:_MOST_WORDS])
    return StateError(f"git says: {without_passwords(message)}", hints=said or _hints(message))


def _hints(message: str) -> tuple[str, ...]:
    """Return what to type after what git says."""
    for pattern, hint in _HINTS:
        if found := pattern.search(message):
            return (hint.format(*found.groups()),)
    return ("`havasu-vc remote -v` lists remotes",)


def remote_words(answer: GitResult) -> tuple[str, ...]:
    """Return what the other side said: why it refuses, or where to open a pull request."""
    words = answer.remote_words[:_MOST_WORDS]
    return tuple(f"the remote says: {without_passwords(line)}" for line in words)
