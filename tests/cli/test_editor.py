"""A message is what a person leaves in the editor, without the comments."""

from pathlib import Path

import pytest

from havasu_vc.cli.editor import edit_message
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.store.repository import GitRepository


@pytest.fixture
def git(repo: Path) -> GitRepository:
    return GitRepository.open(repo)


def test_comments_go_and_the_rest_stays(
    git: GitRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    editor = f'sh -c \'cp "$1" {seen}; printf "Title\\n\\nBody\\n" | cat - {seen} > "$1"\' x'
    monkeypatch.setenv("GIT_EDITOR", editor)

    assert edit_message(git, ["  points: 1 update"]) == "Title\n\nBody"
    assert "#   points: 1 update\n" in seen.read_text()


def test_another_comment_sign(git: GitRepository, monkeypatch: pytest.MonkeyPatch) -> None:
    git.git("config", "core.commentChar", ";")
    monkeypatch.setenv("GIT_EDITOR", 'sh -c \'echo "#1 fixed" >> "$1"\' x')

    assert edit_message(GitRepository.open(git.path), []) == "#1 fixed"


@pytest.mark.parametrize("editor", ["true", "false", "no-such-editor-here"])
def test_nothing_written_or_no_editor(
    git: GitRepository, monkeypatch: pytest.MonkeyPatch, editor: str
) -> None:
    monkeypatch.setenv("GIT_EDITOR", editor)

    with pytest.raises(InvalidArgumentError, match="nothing is committed"):
        edit_message(git, [])
