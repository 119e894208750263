"""Conflicts in a comment: they keep to their room, whatever the data hold."""

from dataclasses import replace

import pytest

from havasu_vc.review.markdown import COMMENT_LIMIT, LEAST_LIMIT, conflict_lines, format_markdown
from havasu_vc.review.markdown_parts import size_of
from havasu_vc.review.report import Review
from tests.review.reviews import HOSTILE, conflicts


@pytest.mark.few(1)
@pytest.mark.parametrize("room", [900, 4_000, 16_000])
def test_they_keep_to_their_room(room: int) -> None:
    for text in HOSTILE:
        found = conflicts(text)
        many = replace(found, datasets=found.datasets * 50, ours=text, files=(text,) * 20)
        lines = conflict_lines(many, room)
        assert size_of(lines) <= room
        assert lines[0].startswith("❌ **1,201 rows, 2 meta items and 20 files are in conflict")
        assert "more datasets are left out" in "\n".join(lines)


@pytest.mark.parametrize("limit", [LEAST_LIMIT, COMMENT_LIMIT])
def test_a_review_of_nothing_else_tells_them(limit: int) -> None:
    text = format_markdown(Review("main", "survey", (), conflicts=conflicts()), limit=limit)
    assert len(text.encode()) <= limit
    assert "are in conflict with `main`" in text
    assert ("havasu-vc pull origin main\n" in text) or limit == LEAST_LIMIT


def test_commands_that_would_act_on_a_terminal_are_not_shown() -> None:
    found = replace(conflicts(), commands=("git switch 'a\x1b[201~b'",))
    assert "```sh" not in conflict_lines(found, 16_000)


def test_a_fence_is_longer_than_what_it_holds() -> None:
    found = replace(conflicts(), commands=("git switch 'a````b'",))
    assert "`````sh" in conflict_lines(found, 16_000)
