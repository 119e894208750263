import os
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from havasu_vc.errors import (
    HavasuError,
    InvalidArgumentError,
    NoUserError,
    RepositoryNotFoundError,
    UnsupportedRepositoryError,
)
from havasu_vc.store.preparation import init_repository, is_prepared
from havasu_vc.store.repository import GitRepository, Operation
from tests.store.committing import commit_dataset, entries

Git = Callable[..., str]


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("bare", [False, True])
def test_init_makes_a_repository_and_again_changes_nothing(
    tmp_path: Path, git: Git, bare: bool
) -> None:
    place = tmp_path / "new" / "repo"

    first = init_repository(place, bare=bare, branch="trunk")
    before = snapshot(place)
    again = init_repository(place, bare=bare)

    assert first.head_branch == again.head_branch == "trunk"
    assert first.is_bare is bare
    assert snapshot(place) == before
    if not bare:
        assert git("status", "--porcelain", cwd=place) == ""
        assert git("check-ignore", "tables/roads", cwd=place)


def test_the_branch_is_the_one_that_git_is_configured_to_make(tmp_path: Path) -> None:
    assert init_repository(tmp_path / "repo").head_branch == "main"


def test_init_names_the_unborn_branch_but_does_not_rename_a_born_one(tmp_path: Path) -> None:
    repository = init_repository(tmp_path)
    assert init_repository(tmp_path, branch="trunk").head_branch == "trunk"

    commit_dataset(repository, entries(1))

    with pytest.raises(InvalidArgumentError, match="branch 'trunk' already"):
        init_repository(tmp_path, branch="other")
    with pytest.raises(InvalidArgumentError, match="work tree already"):
        init_repository(tmp_path, bare=True)


def test_init_refuses_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgumentError, match="is a file"):
        init_repository(tmp_path / "file")


def test_a_users_sparse_patterns_stay_in_force(tmp_path: Path, git: Git) -> None:
    for name in ("docs", "src", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    git("init", cwd=tmp_path)
    git("add", ".", cwd=tmp_path)
    git("commit", "-qm", "files", cwd=tmp_path)
    # Cone mode with a sparse index, the settings in the work tree's own file.
    git("sparse-checkout", "set", "--cone", "--sparse-index", "docs", "src", cwd=tmp_path)

    repository = init_repository(tmp_path)
    commit_dataset(repository, entries(3))

    assert is_prepared(repository)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".git", ".gitattributes", "docs", "src"]
    assert git("status", "--porcelain", cwd=tmp_path) == ""
    lines = (tmp_path / ".git/info/sparse-checkout").read_text().splitlines()
    assert "/docs/" in lines and lines[-2:] == ["!**/.havasu-dataset/", "!**/.table-dataset/"]


def test_init_in_a_plain_clone_takes_internals_out_of_the_work_tree(
    repository: GitRepository, tmp_path: Path, git: Git
) -> None:
    commit_dataset(repository, entries(3))
    git("clone", "-q", repository.path, tmp_path / "clone", cwd=tmp_path)
    assert (tmp_path / "clone/roads").exists()

    init_repository(tmp_path / "clone")

    assert not (tmp_path / "clone/roads").exists()
    assert git("status", "--porcelain", cwd=tmp_path / "clone") == ""


def test_open_finds_the_repository_from_below(repository: GitRepository) -> None:
    below = repository.path / "a" / "b"
    below.mkdir(parents=True)
    for place in (below, repository.path, repository.path / ".git", below / "no-such-file"):
        assert GitRepository.open(place).path == repository.path


def test_linked_work_trees_share_the_data_folder(
    repository: GitRepository, tmp_path: Path, git: Git
) -> None:
    commit_dataset(repository, entries(2))
    git("worktree", "add", "-q", "-b", "side", tmp_path / "linked", cwd=repository.path)

    linked = GitRepository.open(tmp_path / "linked")
    commit_dataset(linked, entries(5))

    assert linked.head_branch == "side" and repository.head_branch == "main"
    assert linked.data_folder == repository.data_folder
    assert linked.git_directory != repository.git_directory
    assert linked.path == tmp_path / "linked"
    for folder in (tmp_path / "linked", repository.path):
        assert git("status", "--porcelain", cwd=folder) == ""
        assert git("fsck", "--strict", "--no-dangling", cwd=folder) == ""


def test_a_kart_repository_is_opened_in_place(tmp_path: Path, git: Git) -> None:
    git("init", "-q", cwd=tmp_path)
    (tmp_path / ".git").rename(tmp_path / ".kart")

    for place in (tmp_path, tmp_path / ".kart"):
        repository = GitRepository.open(place)
        assert repository.is_kart and repository.path == tmp_path
    (tmp_path / ".git").write_text("gitdir: .kart\n")
    assert GitRepository.open(tmp_path).is_kart
    before = snapshot(tmp_path)
    init_repository(tmp_path)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("place", [".", "missing/folder", "half"])
def test_where_there_is_none_says_so(tmp_path: Path, place: str) -> None:
    (tmp_path / "half/.git").mkdir(parents=True)
    with pytest.raises(RepositoryNotFoundError, match="not in a havasu-vc repository"):
        GitRepository.open(tmp_path / place)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"extensions.refstorage": "reftable"}, "reftable"),
        ({"extensions.objectformat": "sha256"}, "SHA-256"),
        ({"extensions.fromthefuture": "1"}, "extension"),
        ({"core.repositoryformatversion": "7"}, "newer"),
    ],
)
def test_what_cannot_be_opened_is_refused_with_the_reason(
    repository: GitRepository, git: Git, settings: dict[str, str], reason: str
) -> None:
    for name, value in {"core.repositoryformatversion": "1", **settings}.items():
        git("config", "--file", repository.git_directory / "config", name, value, cwd="/")
    with pytest.raises(UnsupportedRepositoryError, match=reason):
        GitRepository.open(repository.path)


def test_a_damaged_configuration_is_one_line(repository: GitRepository) -> None:
    (repository.git_directory / "config").write_text("[core\n")
    with pytest.raises(UnsupportedRepositoryError, match=r"^[^\n]*config[^\n]*$"):
        GitRepository.open(repository.path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_another_users_repository_needs_the_users_word(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["chown", "-R", "65534:65534", repository.path], check=True)
    with pytest.raises(UnsupportedRepositoryError, match="another user") as caught:
        GitRepository.open(repository.path)
    # What the hint says to type suffices, for us and for the git that we call.
    words = shlex.split(caught.value.hints[0].partition("`")[2].partition("`")[0])
    assert words[:-1] == ["git", "config", "--global", "--add", "safe.directory"]
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", words[-1])
    assert GitRepository.open(repository.path).path == repository.path
    assert subprocess.run(["git", "-C", repository.path, "status"], check=False).returncode == 0


def test_who_commits_comes_from_git(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repository.author.email == "test@example.com"
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Zoë Ärmel")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2020-01-01 00:00 +1300")
    assert str(repository.author) == "Zoë Ärmel <test@example.com> 1577790000 +1300"
    assert repository.committer.name == "Test User"


@pytest.mark.parametrize(
    ("variables", "settings", "runs"),
    [
        ({}, {}, 1),
        ({"GIT_AUTHOR_NAME": "Zoë", "GIT_COMMITTER_NAME": "Zoë"}, {}, 1),
        ({"GIT_AUTHOR_NAME": "Zoë"}, {}, 2),
        ({"GIT_COMMITTER_EMAIL": "ana@example.org"}, {}, 2),
        ({"GIT_AUTHOR_DATE": "2020-01-01 00:00 +1300"}, {}, 2),
        ({}, {"author.name": "Zoë"}, 2),
        ({}, {"committer.email": "ana@example.org"}, 2),
        ({}, {"user.name": "Zoë"}, 1),
    ],
)
def test_git_is_asked_once_who_commits_where_one_person_does(
    repository: GitRepository,
    monkeypatch: pytest.MonkeyPatch,
    variables: dict[str, str],
    settings: dict[str, str],
    runs: int,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for name, value in settings.items():
        repository.config.set(name, value)
    repository.config.names()
    asked = []
    run = subprocess.run

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        return run(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", counted)
        author, committer = repository.people()
    assert len(asked) == runs
    for found, wanted in ((author, repository.author), (committer, repository.committer)):
        assert (found.name, found.email, found.offset) == (wanted.name, wanted.email, wanted.offset)
        assert abs(found.time - wanted.time) < 60


def test_reflogs_name_who_commits(
    repository: GitRepository, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Ana")
    monkeypatch.setenv("GIT_COMMITTER_EMAIL", "ana@example.org")
    assert repository.committer.name == "Ana"
    commit_dataset(repository, entries(1))
    logged = git("log", "-g", "-1", "--format=%gn <%ge>", cwd=repository.path)
    assert logged.strip() == "Ana <ana@example.org>"


def test_nobody_configured_is_said(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NoUserError) as caught:
        _ = repository.author
    assert "user.name" in caught.value.hints[0]


def test_settings_are_gits(repository: GitRepository, git: Git) -> None:
    config = repository.config
    config.set("havasu.Size", 12)
    config.set("havasu.remote.My.Place.url", "a\nb")
    git("config", "--add", "havasu.big", "2k", cwd=repository.path)
    with open(repository.git_directory / "config", "a") as file:
        file.write("[havasu]\n\tflag\n\tempty =\n")
    fresh = GitRepository.open(repository.path).config

    assert fresh.integer("HAVASU.size") == 12 and fresh.integer("havasu.big") == 2048
    assert fresh.get("havasu.remote.My.Place.url") == "a\nb"
    assert fresh.boolean("havasu.flag") and not fresh.boolean("havasu.empty", True)
    assert fresh.get("havasu.none", "x") == "x" and fresh.boolean("havasu.none", True)
    assert fresh.section("havasu.remote") == {"My.Place.url": "a\nb"}
    for read in (fresh.boolean, fresh.integer):
        with pytest.raises(InvalidArgumentError, match=r"havasu\.remote\.My\.Place\.url"):
            read("havasu.remote.My.Place.url")
    fresh.unset("havasu.size")
    fresh.unset("havasu.size")
    assert fresh.get("havasu.size") is None


def test_a_merge_that_stopped_is_seen(repository: GitRepository, git: Git) -> None:
    where = repository.path
    for branch, text in (("main", "0"), ("side", "1"), ("main", "2")):
        if branch != repository.head_branch:
            options = ["-q", "-c"] if text == "1" else ["-q"]
            git("switch", *options, branch, cwd=where)
        (where / "file").write_text(text)
        git("add", "file", cwd=where)
        git("commit", "-qm", text, cwd=where)
    assert repository.operation is Operation.NONE
    git("merge", "side", cwd=where, check=False)
    assert GitRepository.open(where).operation is Operation.MERGE


def test_what_a_hooks_environment_says_is_not_followed(
    repository: GitRepository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    assert repository.git("rev-parse", "--show-toplevel").text == str(repository.path)
    commit_dataset(repository, entries(2))
    assert not (tmp_path / "index").exists()


def test_a_folder_above_is_not_looked_for_below(tmp_path: Path) -> None:
    init_repository(tmp_path / "outside" / "inside")
    inside = GitRepository.open(tmp_path / "outside" / "inside").path
    (tmp_path / "outside" / "link").symlink_to(inside)
    assert GitRepository.open(tmp_path / "outside" / "link" / ".").path == inside
    for place in ("inside/..", "inside/../.", "inside/../../outside"):
        with pytest.raises(RepositoryNotFoundError):
            GitRepository.open(tmp_path / "outside" / place)


@pytest.mark.parametrize("content", [b"garbage\n", b"", b"\0" * 41])
def test_a_damaged_head_is_one_clear_line(content: bytes, tmp_path: Path) -> None:
    repository = init_repository(tmp_path / "a")
    (repository.git_directory / "HEAD").write_bytes(content)
    with pytest.raises(HavasuError) as caught:
        _ = GitRepository.open(tmp_path / "a").head_branch
    assert caught.value.hints and "\n" not in caught.value.message


@pytest.mark.parametrize("name", ["inner", "inner/.kart"])
@pytest.mark.parametrize("linked", [False, True])
def test_a_git_directory_of_a_commit_is_not_opened(
    tmp_path: Path, git: Git, name: str, linked: bool
) -> None:
    """Its settings are whoever made the commit's; one that the user put there is the user's."""
    outer = tmp_path / "outer"
    init_repository(outer)
    init_repository(tmp_path / "made", bare=True)
    (tmp_path / "made" / "refs" / "heads" / "kept").write_text("words\n")
    (tmp_path / "made" / "objects" / "kept").write_text("words\n")
    if linked:
        git("commit", "-q", "--allow-empty", "-m", "one", cwd=outer)
        git("worktree", "add", "-q", tmp_path / "linked", cwd=outer)
        outer = tmp_path / "linked"
    (outer / name).parent.mkdir(exist_ok=True)
    (tmp_path / "made").rename(outer / name)
    assert GitRepository.open(outer / "inner").git_directory == outer / name

    git("add", ".", cwd=outer)

    for place in (outer / "inner", outer / name / "refs", outer / name / "refs" / "heads"):
        with pytest.raises(UnsupportedRepositoryError, match="came with a commit") as refusal:
            GitRepository.open(place)
        assert str(outer) in refusal.value.hints[0]
    assert GitRepository.open(outer).work_tree == outer
