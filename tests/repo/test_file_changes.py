"""Files beside the datasets of a Kart repository: in diffs, and in patches that bring them."""

import io
import json
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.cli.main import cli, run
from havasu_vc.errors import PatchError
from havasu_vc.model.diffs import FileChange
from havasu_vc.store.trees import Change, edit_tree
from havasu_vc.writers import WriterOptions, writer_named
from tests.repo.tables import BY_ID, points, write
from tests.support.templates import empty_repo


def commit(repo: Repo, **files: bytes | None) -> None:
    """Commit files beside datasets with git alone."""
    changes: dict[str, Change] = {name.replace("__", "/"): data for name, data in files.items()}
    with repo.git.writer() as writer:
        tree = edit_tree(writer, repo.head().tree, changes)
        writer.flush()
    made = repo.git.git("commit-tree", tree, "-p", "HEAD", "-m", "Files").text
    repo.git.git("update-ref", "HEAD", made)


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    found = empty_repo(tmp_path / "repo", kart=True)
    found.import_(write(tmp_path / "points.parquet", points(3)), options=BY_ID)
    commit(found, README="Bäume\n".encode(), points__notes=b"old")
    commit(found, README=b"\0\1", points__notes=None, a__b__c=b"new")
    return found


def patch_of(repo: Repo, revision: str) -> bytes:
    info, diffs = repo.create_patch(revision)
    files = repo.file_changes(f"{revision}^...{revision}", contents=True)
    out = io.StringIO()
    writer_named("patch")(diffs, out, WriterOptions(commit=info, files=files))
    return out.getvalue().encode()


def patch(**files: object) -> bytes:
    return json.dumps(
        {"kart.patch/v1": {"message": "It"}, "kart.diff/v1+hexwkb": {"<files>": files}}
    ).encode()


def test_what_differs(repo: Repo) -> None:
    found = repo.file_changes("HEAD^...HEAD")
    assert [(each.path, each.old is None, each.new is None) for each in found] == [
        ("README", False, False),
        ("a/b/c", True, False),
        ("points/notes", False, True),
    ]
    blob = repo.git.git("rev-parse", "HEAD:a/b/c").text
    assert repo.file_changes("HEAD^...HEAD", ["a"], contents=True) == (
        FileChange("a/b/c", None, blob, (None, b"new")),
    )
    assert [each.path for each in repo.file_changes("HEAD^...HEAD", ["points"])] == ["points/notes"]
    assert repo.file_changes("HEAD^...HEAD", ["points:feature"]) == ()
    # Kart's own file at the top, and what is inside of datasets, is none of them.
    everything = repo.file_changes("[EMPTY]...HEAD")
    assert [each.path for each in everything] == ["README", "a/b/c"]


def test_in_other_repositories_they_are_git_s_own(tmp_path: Path) -> None:
    found = empty_repo(tmp_path / "repo")
    found.import_(write(tmp_path / "points.parquet", points(3)), options=BY_ID)
    commit(found, README=b"Hello")
    assert found.file_changes("[EMPTY]...HEAD") == ()


def test_patches_bring_them(repo: Repo) -> None:
    trees = [repo.git.git("rev-parse", f"HEAD{up}^{{tree}}").text for up in ("", "^")]
    patches = [patch_of(repo, revision) for revision in ("HEAD", "HEAD^")]
    repo.git.git("update-ref", "HEAD", "HEAD^^")
    for _ in range(2):
        Repo.open(repo.path).apply_patch(patches.pop())
        assert repo.git.git("rev-parse", "HEAD^{tree}").text == trees.pop()
    with pytest.raises(PatchError, match="'README' is not what the patch says it was"):
        repo.apply_patch(patch(README={"-": "text:other", "+": "text:it"}))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"../x": {"+": "text:"}}, "holds '..'"),
        ({".git/config": {"+": "text:"}}, "belongs to git"),
        ({".kart.repostructure.version": {"-": "text:3\n"}}, "none of the user's files"),
        ({"points/.table-dataset/meta/title": {"+": "text:T"}}, "none of the user's files"),
        ({"x": {"+": "a39253e"}}, "does not say what it holds"),
        ({"x": {"+": "base64:%"}}, "cannot be read"),
        ({"x": {}}, "no old or new content"),
        ({"x": {"++": "text:a"}}, "no old or new content"),
        ({"x": {"+": 3}}, "does not say what it holds"),
    ],
)
def test_patches_that_are_refused(repo: Repo, files: dict[str, object], reason: str) -> None:
    with pytest.raises(PatchError, match=reason):
        repo.apply_patch(patch(**files))


def test_the_command_line(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repo.path)
    short = repo.git.git("rev-parse", "--short=7", "HEAD^:points/notes").text
    assert run(cli, ["diff", "HEAD^...HEAD", "points", "-o", "json:compact"]) == 0
    told = {"kart.diff/v1+hexwkb": {"<files>": {"points/notes": {"-": short}}}}
    assert json.loads(capsys.readouterr().out) == told
    assert run(cli, ["diff", "HEAD^...HEAD", "points", "--diff-files"]) == 0
    assert capsys.readouterr().out == "--- points/notes\n- old\n"
    assert run(cli, ["show", "-o", "json-lines", "--diff-files"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[-3] == {
        "type": "file",
        "path": "README",
        "binary": True,
        "change": {"-": "base64:QsOkdW1lCg==", "+": "base64:AAE="},
    }
    assert run(cli, ["diff", "HEAD^...HEAD", "--exit-code"]) == 1
    assert run(cli, ["diff", "HEAD^...HEAD", "--diff-format", "none", "--exit-code"]) == 0
    capsys.readouterr()
    assert run(cli, ["create-patch"]) == 0
    assert json.loads(capsys.readouterr().out)["kart.diff/v1+hexwkb"]["<files>"]["a/b/c"] == {
        "+": "text:new"
    }
