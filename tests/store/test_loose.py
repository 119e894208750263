"""Loose objects that were cut short are told of, and what does not need them goes on."""

import json
import os
import shutil
from pathlib import Path

import pytest

from havasu_vc.errors import CorruptDatasetError, RevisionNotFoundError
from havasu_vc.store.bulk import BulkReader
from havasu_vc.store.log import commits
from havasu_vc.store.repository import GitRepository
from havasu_vc.store.revisions import merge_base, resolve
from tests.support.git import run_git


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A repository of three commits, in loose files."""
    place = tmp_path / "repo"
    run_git("init", "-q", "-b", "main", place, cwd=tmp_path)
    for number in range(3):
        (place / "words.txt").write_text(f"words {number}\n" * 50)
        run_git("add", ".", cwd=place)
        run_git("commit", "-qm", f"commit {number}", cwd=place)
    return place


def cut(place: Path, name: str) -> str:
    """Cut the file of an object short."""
    oid = run_git("rev-parse", name, cwd=place)
    file = place / ".git" / "objects" / oid[:2] / oid[2:]
    file.chmod(0o644)
    os.truncate(file, file.stat().st_size // 2)
    return oid


def history(place: Path) -> list[str]:
    repository = GitRepository.open(place)
    start = resolve(repository, "HEAD").commit
    assert start is not None
    return [commit.subject for commit in commits(repository, start)]


@pytest.mark.parametrize("name", ["HEAD", "main", "HEAD~1", "@^{commit}", "ID"])
def test_a_commit_that_is_cut_short_is_told_of(folder: Path, name: str) -> None:
    name = name.replace("ID", run_git("rev-parse", "HEAD", cwd=folder))
    oid = cut(folder, "HEAD")

    with pytest.raises(CorruptDatasetError, match=f"git object {oid}: .*cut short"):
        resolve(GitRepository.open(folder), name)


@pytest.mark.parametrize("name", ["HEAD", "main", "HEAD~1", "ID"])
def test_a_commit_that_is_gone_is_told_of(folder: Path, name: str) -> None:
    name = name.replace("ID", run_git("rev-parse", "HEAD", cwd=folder))
    oid = run_git("rev-parse", "HEAD", cwd=folder)
    (folder / ".git" / "objects" / oid[:2] / oid[2:]).unlink()

    with pytest.raises(CorruptDatasetError, match=f"git object {oid}: it is missing"):
        resolve(GitRepository.open(folder), name)
    for other in ("nothing", "nothing~1", "ab" * 20):
        with pytest.raises(RevisionNotFoundError):
            resolve(GitRepository.open(folder), other)


def test_names_and_histories_that_do_not_reach_it_are_as_ever(folder: Path) -> None:
    run_git("switch", "-qc", "other", "HEAD^", cwd=folder)
    run_git("commit", "-q", "--allow-empty", "-m", "other", cwd=folder)
    run_git("tag", "-am", "words", "v1", cwd=folder)
    wanted = history(folder)
    assert wanted == ["other", "commit 1", "commit 0"]
    one, base = (run_git("rev-parse", name, cwd=folder) for name in ("other", "main^"))
    main = run_git("rev-parse", "main", cwd=folder)
    repository = GitRepository.open(folder)
    assert merge_base(repository, one, main) == base

    cut(folder, "main^{tree}")

    assert history(folder) == wanted
    repository = GitRepository.open(folder)
    assert resolve(repository, "v1").commit == resolve(repository, one[:9]).commit == one
    assert merge_base(repository, one, main) == base
    with pytest.raises(RevisionNotFoundError):
        resolve(repository, "nothing")
    cut(folder, "main")
    assert history(folder) == wanted


def test_a_history_ends_where_a_commit_is_cut_short(folder: Path) -> None:
    oid = cut(folder, "HEAD~2")

    with pytest.raises(CorruptDatasetError, match=f"git object {oid}: .*cut short"):
        history(folder)


@pytest.mark.parametrize("where", ["its own", "an alternate's"])
def test_many_at_once_are_read_with_the_same_care(folder: Path, where: str) -> None:
    oid = cut(folder, "HEAD:words.txt")
    place = folder
    if where != "its own":
        place = folder.parent / "clone"
        run_git("clone", "-qsn", folder, place, cwd=folder.parent)
    reader = BulkReader(place / ".git" / "objects")

    sound = run_git("rev-parse", "HEAD^:words.txt", cwd=folder)
    assert reader.read([bytes.fromhex(sound)]) == [b"words 1\n" * 50]
    with pytest.raises(CorruptDatasetError, match=oid):
        reader.read([bytes.fromhex(oid)])


def test_what_a_pack_holds_too_is_read_from_there(folder: Path) -> None:
    loose = folder.parent / "loose"
    shutil.copytree(folder / ".git" / "objects", loose)
    run_git("repack", "-adq", cwd=folder)
    shutil.copytree(loose, folder / ".git" / "objects", dirs_exist_ok=True)
    cut(folder, "HEAD")

    assert history(folder) == ["commit 2", "commit 1", "commit 0"]


def test_of_many_it_is_remembered_that_they_are_whole(folder: Path) -> None:
    for number in range(300):
        (folder / f"{number}.txt").write_text(f"{number}\n")
    run_git("add", ".", cwd=folder)
    objects = folder / ".git" / "objects"
    for each in objects.iterdir():
        os.utime(each, (1_700_000_000, 1_700_000_000))
    assert history(folder)
    memory = folder / ".git" / "havasu" / "loose"
    assert json.loads(memory.read_bytes())["folders"] == {str(objects): 1_700_000_000 * 10**9}

    # What came since is looked at, and all of it once the machine began anew.
    oid = cut(folder, "HEAD")
    os.utime(objects / oid[:2], (1_700_000_009, 1_700_000_009))
    with pytest.raises(CorruptDatasetError, match="cut short"):
        history(folder)
    os.utime(objects / oid[:2], (1_600_000_000, 1_600_000_000))
    memory.write_text(memory.read_text().replace('"boot": "', '"boot": "another'))
    with pytest.raises(CorruptDatasetError, match="cut short"):
        history(folder)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"boot": 1}', b"[" * 100_000])
def test_a_memory_of_nonsense_is_none(folder: Path, data: bytes) -> None:
    (folder / ".git" / "havasu").mkdir()
    (folder / ".git" / "havasu" / "loose").write_bytes(data)

    assert history(folder) == ["commit 2", "commit 1", "commit 0"]
