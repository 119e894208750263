"""Commits as text and JSON: the header of `show`, and `log`.

Text is git's own form. JSON is Kart's: times in UTC with a `Z`, offsets apart as
`+13:00`. Text from commits is made safe for the terminal; JSON escapes it anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

from havasu_vc.model.commits import CommitInfo, moment_of
from havasu_vc.writers.json_style import LAYOUTS
from havasu_vc.writers.protocol import JsonStyle
from havasu_vc.writers.terminal import printable, styled

__all__ = [
    "commit_object",
    "format_commit",
    "format_oneline",
    "patch_header",
    "write_log",
    "write_log_json",
    "write_log_json_lines",
]

ABBREVIATED = 7
"""Digits of a commit id that are enough for people."""
_DAYS = "Mon Tue Wed Thu Fri Sat Sun".split()
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()


def commit_object(commit: CommitInfo, *, refs: bool = False) -> dict[str, Any]:
    """Return a commit as Kart's JSON object; with `refs`, the names of branches and tags."""
    result: dict[str, Any] = {
        "commit": commit.id,
        "abbrevCommit": commit.id[:ABBREVIATED],
        "message": commit.message,
        "authorName": commit.author_name,
        "authorEmail": commit.author_email,
        "authorTime": format_time(commit.author_time),
        "authorTimeOffset": format_offset(commit.author_offset),
        "committerEmail": commit.committer_email,
        "committerName": commit.committer_name,
        "commitTime": format_time(commit.commit_time),
        "commitTimeOffset": format_offset(commit.commit_offset),
        "parents": list(commit.parents),
        "abbrevParents": [parent[:ABBREVIATED] for parent in commit.parents],
    }
    if refs:
        result["refs"] = list(commit.refs)
    return result


def patch_header(commit: CommitInfo, crs_name: str | None = None) -> dict[str, Any]:
    """Return what a patch says of its commit: what survives applying it elsewhere."""
    result: dict[str, Any] = {
        "authorName": commit.author_name,
        "authorEmail": commit.author_email,
        "authorTime": format_time(commit.author_time),
        "authorTimeOffset": format_offset(commit.author_offset),
        "message": commit.message,
    }
    if commit.parents:
        result["base"] = commit.parents[0]
    if crs_name is not None:
        result["crs"] = crs_name
    return result


def format_time(seconds: int) -> str:
    """Return a time in UTC.

    >>> format_time(0)
    '1970-01-01T00:00:00Z'
    """
    return moment_of(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_offset(minutes: int, separator: str = ":") -> str:
    """Return minutes east of UTC as hours and minutes.

    >>> format_offset(-570)
    '-09:30'
    """
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours:02}{separator}{rest:02}"


def format_date(seconds: int, minutes: int, *, pad: bool = False) -> str:
    """Return a time as git prints it, where its author was; `pad` for days of two places.

    >>> format_date(0, 720)
    'Thu Jan 1 12:00:00 1970 +1200'
    """
    local = moment_of(seconds, minutes)
    minutes = 0 if not local.utcoffset() else minutes
    day, month = _DAYS[local.weekday()], _MONTHS[local.month - 1]
    clock = f"{local.hour:02}:{local.minute:02}:{local.second:02}"
    number = f"{local.day:>2}" if pad else local.day
    return f"{day} {month} {number} {clock} {local.year} {format_offset(minutes, '')}"


def format_commit(commit: CommitInfo, *, color: bool = False, pad: bool = False) -> str:
    """Return a commit's header and message, ending in a blank line, as `git show` does.

    Kart's own has days of one digit padded.
    """
    refs = f" ({', '.join(map(printable, commit.refs))})" if commit.refs else ""
    lines = [styled(f"commit {commit.id}", "yellow", color) + refs]
    if len(commit.parents) > 1:
        lines.append("Merge: " + " ".join(parent[:ABBREVIATED] for parent in commit.parents))
    author = f"{commit.author_name} <{commit.author_email}>"
    lines += [
        f"Author: {printable(author)}",
        f"Date:   {format_date(commit.author_time, commit.author_offset, pad=pad)}",
        "",
        *_indented(commit.message.rstrip()),
        "",
        *(("Notes:", *_indented(commit.notes), "") if commit.notes else ()),
    ]
    return "\n".join(lines) + "\n"


def _indented(text: str) -> list[str]:
    return [f"    {printable(line.expandtabs())}" for line in text.split("\n")]


def format_oneline(commit: CommitInfo, *, color: bool = False) -> str:
    """Return a commit on one line: short id and first line of the message."""
    refs = f" ({', '.join(map(printable, commit.refs))})" if commit.refs else ""
    subject = printable(commit.message.split("\n", 1)[0])
    return f"{styled(commit.id[:ABBREVIATED], 'yellow', color)}{refs} {subject}\n"


def write_log(
    commits: Iterable[CommitInfo], out: TextIO, *, oneline: bool = False, color: bool = False
) -> None:
    """Print commits for a person, a blank line between them."""
    between = ""
    for commit in commits:
        if oneline:
            out.write(format_oneline(commit, color=color))
        else:
            out.write(between + format_commit(commit, color=color).removesuffix("\n"))
            between = "\n"


More = Callable[[CommitInfo], Mapping[str, Any]]
"""More facts of a commit, by name."""


def _object(commit: CommitInfo, more: More | None) -> dict[str, Any]:
    return {**commit_object(commit, refs=True), **(more(commit) if more is not None else {})}


def write_log_json(
    commits: Iterable[CommitInfo],
    out: TextIO,
    style: JsonStyle = JsonStyle.PRETTY,
    more: More | None = None,
) -> None:
    """Print commits as one JSON list, as they come."""
    layout = LAYOUTS[style]
    out.write("[")
    empty = True
    for commit in commits:
        out.write(layout.line(1) if empty else layout.between(1))
        out.write(layout.dumps(_object(commit, more), 1))
        empty = False
    out.write(("" if empty else layout.line(0)) + "]\n")


def write_log_json_lines(
    commits: Iterable[CommitInfo], out: TextIO, more: More | None = None
) -> None:
    """Print each commit as a JSON object on one line."""
    layout = LAYOUTS[JsonStyle.COMPACT]
    for commit in commits:
        out.write(layout.dumps(_object(commit, more)) + "\n")
