"""Messages of commits: their words on the request that each was made for.

    append parcels (PyIceberg/0.12.0)

    Iceberg-Snapshot: 3055729675574597004 parcels
    Iceberg-Application: local-1732320000000
    Iceberg-Request: 0190b5c5-7c7b-7e5a-9d1c-1f2e3d4c5b6a

The last lines let a request that comes again be answered as before, by any server, and let
a client find the snapshot that it sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field

from havasu_vc.records import dataclass
from havasu_vc.serving.updates import TableChange
from havasu_vc.store.objects import Signature

__all__ = ["MessageFacts", "Writing", "facts_of", "message_of"]

SNAPSHOT, APPLICATION, REQUEST = "Iceberg-Snapshot", "Iceberg-Application", "Iceberg-Request"
LARGEST = 1 << 63
"""Ids of snapshots are below it."""
MESSAGE = "commit-message"
"""The summary's name for the message that its writer wants."""
_LINE = re.compile(r"(Iceberg-[A-Za-z]+): (.+)")
_SNAPSHOT = re.compile(r"(\d{1,19}) (.+)")
_LONGEST = 65_536
_LONGEST_WORD = 200


@dataclass(frozen=True, slots=True)
class Writing:
    """Who writes, and where."""

    branch: str
    """The branch of git."""
    author: Signature | None = None
    """Who it is by; None for whom git's configuration names."""
    message: str | None = None
    """The message that is wanted; None for a line made up."""
    agent: str = ""
    """The program, as it calls itself."""
    request: str | None = None
    """The name of the request."""


@dataclass(frozen=True, slots=True)
class MessageFacts:
    """The facts in a message."""

    snapshots: Mapping[int, str] = field(default_factory=dict)
    """Datasets by the id of the client's snapshot."""
    request: str | None = None
    """The request's name."""


def facts_of(message: str) -> MessageFacts:
    r"""Return what the last lines of a message tell.

    >>> facts_of("append parcels\n\nIceberg-Snapshot: 7 parcels\n").snapshots
    {7: 'parcels'}
    """
    snapshots: dict[int, str] = {}
    request = None
    for line in message.rstrip("\n").rpartition("\n\n")[2].split("\n"):
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        if match[1] == SNAPSHOT and (snapshot := _SNAPSHOT.fullmatch(match[2])):
            if int(snapshot[1]) < LARGEST:
                snapshots[int(snapshot[1])] = snapshot[2]
        elif match[1] == REQUEST:
            request = match[2]
    return MessageFacts(snapshots, request)


def message_of(
    changes: Sequence[tuple[str, TableChange]], writing: Writing, done: str | None = None
) -> str:
    """Return the message of a commit; `done` is what a request does that changes no rows."""
    summaries = [change.summary for _, change in changes]
    wanted = next((each[MESSAGE] for each in summaries if each.get(MESSAGE)), writing.message)
    text = (wanted or "").strip()[:_LONGEST] or _made_up(changes, writing, done)
    lines = list(dict.fromkeys(_last_lines(changes, writing)))
    return f"{text}\n\n{''.join(lines)}" if lines else f"{text}\n"


def _made_up(changes: Sequence[tuple[str, TableChange]], writing: Writing, done: str | None) -> str:
    if done is None:
        operations = dict.fromkeys(_operation(change) for _, change in changes)
        done = f"{', '.join(operations)} {', '.join(path for path, _ in changes)}"
    engines = [change.summary.get("engine-name") for _, change in changes]
    engine = _word(next(filter(None, engines), None) or writing.agent)
    return f"{done} ({engine})" if engine else done


def _operation(change: TableChange) -> str:
    if change.creates:
        return "create"
    if change.replaces:
        return "replace"
    operations = {(each.get("summary") or {}).get("operation") for each in change.snapshots}
    return "overwrite" if len(operations) > 1 else _word(change.summary.get("operation", "alter"))


def _last_lines(changes: Sequence[tuple[str, TableChange]], writing: Writing) -> Iterator[str]:
    for path, change in changes:
        for snapshot in change.snapshots:
            yield f"{SNAPSHOT}: {snapshot['snapshot-id']} {path}\n"
    for _, change in changes:
        application = _word(change.summary.get("spark.app.id", ""))
        if application:
            yield f"{APPLICATION}: {application}\n"
    if writing.request is not None:
        yield f"{REQUEST}: {writing.request}\n"


def _word(text: str) -> str:
    """Return a client's name of something as what stands in one line."""
    return "".join(each if each.isprintable() else " " for each in text)[:_LONGEST_WORD].strip()
