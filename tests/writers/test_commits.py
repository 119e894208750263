"""Commits as git and Kart print them."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from havasu_vc.model.commits import CommitInfo
from havasu_vc.writers.commits import (
    commit_object,
    format_commit,
    format_date,
    patch_header,
    write_log,
    write_log_json,
    write_log_json_lines,
)
from havasu_vc.writers.protocol import JsonStyle
from tests.writers.cases import COMMIT


def test_the_log_is_git_log(tmp_path: Path, git: Callable[..., str]) -> None:
    git("init", "-q", cwd=tmp_path)
    commits = []
    for number, (subject, time, offset) in enumerate(
        [
            ("First", 0, "+0000"),
            ("Second\n\nwith a body\n\n  indented\tby tabs", 1_560_000_000, "-0930"),
        ]
    ):
        stamp = f"{time} {offset}"
        (tmp_path / "file").write_text(str(number))
        git("add", "file", cwd=tmp_path)
        git(
            *("-c", "user.name=Ana", "-c", "user.email=ana@example.org"),
            *("commit", "-q", "-m", subject, f"--date=@{stamp}"),
            cwd=tmp_path,
        )
        minutes = -570 if offset == "-0930" else 0
        commits.append(
            replace(
                COMMIT,
                id=git("rev-parse", "HEAD", cwd=tmp_path).strip(),
                parents=(),
                message=subject + "\n",
                author_name="Ana",
                author_email="ana@example.org",
                author_time=time,
                author_offset=minutes,
                refs=(),
            )
        )
    commits.reverse()

    for oneline, options in ((False, ()), (True, ("--oneline", "--abbrev=7"))):
        out = io.StringIO()
        write_log(commits, out, oneline=oneline)
        assert out.getvalue().removesuffix("\n") == git(
            "log", "--no-decorate", *options, cwd=tmp_path
        )


def test_dates_that_no_calendar_has() -> None:
    assert format_date(2**62, 720).startswith("Fri Dec 31 23:59:59 9999")
    assert format_date(0, 10**6).startswith("Thu Jan 1 23:59:00 1970")
    assert format_date(0, -600) == "Wed Dec 31 14:00:00 1969 -1000"


def test_json_of_a_commit_is_karts() -> None:
    assert list(commit_object(COMMIT, refs=True).items()) == [
        ("commit", COMMIT.id),
        ("abbrevCommit", "0123456"),
        ("message", COMMIT.message),
        ("authorName", "Ana Rā"),
        ("authorEmail", "ana@example.org"),
        ("authorTime", "2019-06-08T13:20:00Z"),
        ("authorTimeOffset", "-09:30"),
        ("committerEmail", "ben@example.org"),
        ("committerName", "Ben"),
        ("commitTime", "2019-06-08T13:21:00Z"),
        ("commitTimeOffset", "+12:00"),
        ("parents", ["a" * 40, "b" * 40]),
        ("abbrevParents", ["a" * 7, "b" * 7]),
        ("refs", ["HEAD -> main", "tag: v1"]),
    ]


def test_a_first_commit_has_no_base() -> None:
    assert "base" not in patch_header(replace(COMMIT, parents=()))
    assert patch_header(COMMIT)["base"] == "a" * 40


def test_log_as_json() -> None:
    commits: list[CommitInfo] = [COMMIT, replace(COMMIT, refs=())]
    expected = [commit_object(commit, refs=True) for commit in commits]
    for style, options in ((JsonStyle.PRETTY, {"indent": 2}), (JsonStyle.COMPACT, {})):
        out = io.StringIO()
        write_log_json(commits, out, style)
        assert out.getvalue() == json.dumps(expected, **options) + "\n"  # type: ignore[arg-type]
    out = io.StringIO()
    write_log_json_lines(commits, out)
    assert out.getvalue().splitlines() == [json.dumps(value) for value in expected]


def test_an_empty_log_is_an_empty_list() -> None:
    out = io.StringIO()
    write_log_json([], out)

    assert out.getvalue() == "[]\n"


def test_a_message_cannot_control_the_terminal() -> None:
    text = format_commit(replace(COMMIT, author_name="A\x1b[2J", message="x\x07\r\n\x9b"))

    assert text.replace("\n", "").isprintable()
