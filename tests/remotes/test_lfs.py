"""Git LFS: the real client against servers on loopback, good ones and bad ones."""

import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc import Repo, Settings
from havasu_vc.errors import (
    CorruptDataFileError,
    DataFileNotFoundError,
    HavasuError,
    MissingProgramError,
    StateError,
    StorageError,
)
from havasu_vc.remotes.lfs import _failure
from havasu_vc.sharing.requests import CloneRequest
from havasu_vc.store import command
from tests.conftest import lacking
from tests.remotes.sharing import bare, clone, files, named, reopened, share, spoil, store
from tests.repo.points import assert_clean, make, read, write
from tests.support.git import run_git
from tests.support.servers import giftless, has_giftless
from tests.support.web import FAULTS, WebServer, has_git_lfs, serving

pytestmark = pytest.mark.few(2)

ROWS = {1: ("one", 1), 2: ("two", 2)}


@pytest.fixture(autouse=True)
def needs_git_lfs() -> None:
    if not has_git_lfs():
        lacking("this needs git-lfs: apt install git-lfs")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    (tmp_path / "web").mkdir()
    bare(tmp_path / "web" / "points.git")
    run_git("config", "http.receivepack", "true", cwd=tmp_path / "web" / "points.git")
    with serving(tmp_path / "web") as server:
        yield server


@pytest.fixture
def ours(server: WebServer, tmp_path: Path) -> Repo:
    repo = make(tmp_path / "ours", ROWS)
    share(repo, server.url("points.git"))
    server.requests.clear()
    return repo


def there(server: WebServer) -> set[str]:
    """Return what the LFS server has; everything of it must be right."""
    found = set()
    for path in (server.root / "lfs").iterdir():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == path.name
        found.add(path.name)
    return found


def assert_keeps_its_promise(server: WebServer) -> None:
    assert named(server.root / "points.git") <= there(server)


def test_data_goes_and_comes(ours: Repo, server: WebServer, tmp_path: Path) -> None:
    assert_keeps_its_promise(server)
    theirs = clone(server.url("points.git"), tmp_path / "theirs")

    assert read(theirs) == ROWS
    assert_clean(theirs)
    assert list(theirs.fsck(full=True)) == []
    (file, *_) = files(theirs)
    assert store(theirs).path(file).stat().st_mode & 0o222 == 0
    fsck = run_git("fsck", "--strict", "--dangling", cwd=theirs.path)
    assert fsck == "", "nothing is left in git of what was made for the client"

    write(theirs, {**ROWS, 3: ("three", 3)})
    theirs.push()
    assert_keeps_its_promise(server)
    ours.fetch()
    assert len(read(ours, "origin/main")) == 3
    assert ours.fetch().files == 0


@pytest.mark.thorough
def test_many_files_are_asked_for_in_one_request(
    ours: Repo, server: WebServer, tmp_path: Path
) -> None:
    for number in range(8):
        write(ours, {**read(ours), 10 + number: ("more", number)})
    ours.push()
    batches = [line for line in server.requests if line.endswith("/objects/batch")]
    assert len(batches) == 1
    server.requests.clear()

    clone(server.url("points.git"), tmp_path / "theirs")

    batches = [line for line in server.requests if line.endswith("/objects/batch")]
    assert len(batches) == 1 and len(named(server.root / "points.git")) > 8


@pytest.mark.thorough
def test_a_users_own_lfs_settings_change_nothing(
    ours: Repo, server: WebServer, tmp_path: Path
) -> None:
    theirs = clone(server.url("points.git"), tmp_path / "theirs", on_demand=True)
    for name, value in (("fetchexclude", "*"), ("fetchinclude", "none"), ("storage", "elsewhere")):
        run_git("config", f"lfs.{name}", value, cwd=theirs.path)

    assert reopened(theirs).fetch_data().files

    assert set(files(theirs)) == named(server.root / "points.git")


@pytest.mark.thorough
def test_wrong_bytes_here_are_not_sent(ours: Repo, server: WebServer) -> None:
    before = set(files(ours))
    write(ours, {**ROWS, 3: ("three", 3)})
    spoil(ours, min(set(files(ours)) - before))

    with pytest.raises(CorruptDataFileError):
        ours.push()

    assert there(server) == before
    assert_keeps_its_promise(server)


@pytest.mark.few(1)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "size"])
def test_what_a_bad_server_gives_is_not_taken(
    ours: Repo, server: WebServer, tmp_path: Path, fault: str
) -> None:
    server.fault = fault

    with pytest.raises(HavasuError) as caught:
        clone(server.url("points.git"), tmp_path / "theirs")

    assert caught.value.hints and "\n" not in caught.value.message
    if fault == "missing":
        assert isinstance(caught.value, DataFileNotFoundError)
    theirs = Repo.open(tmp_path / "theirs", settings=ours.settings)
    for file in files(theirs):
        store(theirs).verify(file)
    large = [p for p in (tmp_path / "theirs").rglob("*") if p.stat().st_size > 1 << 20]
    assert large == []
    server.fault = ""
    assert theirs.fetch().files
    assert read(theirs) == ROWS
    assert list(theirs.fsck(full=True)) == []


def test_right_bytes_of_a_size_that_is_told_wrong_are_taken(
    ours: Repo, server: WebServer, tmp_path: Path
) -> None:
    server.fault = "size"
    theirs = clone(server.url("points.git"), tmp_path / "theirs")
    assert list(theirs.fsck(full=True)) == []


def test_an_address_with_404_in_it_is_no_answer() -> None:
    """It may be a port's or an id's digits; a file that is absent is another thing to say."""
    said = f'LFS: Put "http://127.0.0.1:40431/lfs/{"404" + "a" * 61}": EOF\n'
    assert isinstance(_failure(command.GitResult(2, b"", said), "here"), StorageError)
    said = f"[{'a' * 64}] Object does not exist on the server: [404] Object does not exist\n"
    assert isinstance(_failure(command.GitResult(2, b"", said), "here"), DataFileNotFoundError)


@pytest.mark.thorough
def test_an_upload_that_is_cut_moves_no_ref_and_goes_on(ours: Repo, server: WebServer) -> None:
    before = run_git("rev-parse", "main", cwd=server.root / "points.git")
    for number in range(4):
        write(ours, {**read(ours), 10 + number: ("more", number)})
    server.fault, server.fault_from = "cut", server.moved + 2

    with pytest.raises(HavasuError) as caught:
        ours.push()

    assert "doing it again goes on" in caught.value.hints[0]
    assert run_git("rev-parse", "main", cwd=server.root / "points.git") == before
    assert_keeps_its_promise(server)
    server.fault = ""
    server.requests.clear()
    ours.push()
    sent = [line for line in server.requests if line.startswith("PUT")]
    assert 0 < len(sent) < len(there(server))
    assert_keeps_its_promise(server)


@pytest.mark.thorough
def test_what_came_before_the_cut_is_kept(ours: Repo, server: WebServer, tmp_path: Path) -> None:
    for number in range(4):
        write(ours, {**read(ours), 10 + number: ("more", number)})
    ours.push()
    server.fault, server.fault_from = "error", server.moved + 2
    with pytest.raises(HavasuError):
        clone(server.url("points.git"), tmp_path / "theirs")
    theirs = Repo.open(tmp_path / "theirs", settings=ours.settings)
    kept = files(theirs)
    server.fault = ""

    came = theirs.fetch()

    assert kept and came.files == len(named(server.root / "points.git")) - len(kept)
    assert read(theirs) == read(ours)


def test_redirects_to_another_host_take_no_password_along(
    ours: Repo, server: WebServer, tmp_path: Path
) -> None:
    server.password = "me:secret"
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other") as other:
        for file in there(server):
            (other.root / "lfs" / file).write_bytes((server.root / "lfs" / file).read_bytes())
        server.elsewhere = other.url("lfs/").replace("127.0.0.1", "localhost")
        theirs = clone(server.url("points.git", user="me:secret@"), tmp_path / "theirs")

        assert read(theirs) == ROWS
        assert other.requests
        assert all("Authorization" not in headers for headers in other.headers)


@pytest.mark.few(1)
@pytest.mark.parametrize("user", ["me:secret", "secret:", "secret:x-oauth-basic", "ghp_secret9:"])
def test_a_password_is_neither_shown_nor_stored(
    ours: Repo, server: WebServer, tmp_path: Path, user: str
) -> None:
    server.password = user
    notes: list[str] = []
    settings = Settings(engine="local", note=notes.append)
    url = server.url("points.git", user=f"{user.removesuffix(':') if '_' in user else user}@")

    theirs, fetched = Repo.clone(CloneRequest(url, tmp_path / "theirs"), settings=settings)

    assert read(theirs) == ROWS
    assert "secret" not in repr(fetched) and "not kept" in notes[0]
    for path in (tmp_path / "theirs").rglob("*"):
        assert not path.is_file() or b"secret" not in path.read_bytes(), path
    with pytest.raises(StateError) as caught:
        theirs.fetch(server.url("none.git", user=f"{user}@"))
    assert "secret" not in caught.value.message


def test_without_git_lfs(ours: Repo, server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    write(ours, {**ROWS, 3: ("three", 3)})
    folder = ours.path.parent / "bin"
    folder.mkdir()
    git = "/usr/bin/git"
    (folder / "git").symlink_to(git)
    (folder / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(folder))

    with pytest.raises(MissingProgramError, match="git-lfs is not installed"):
        ours.push()


@pytest.mark.thorough
def test_a_host_that_says_nothing_is_given_up(ours: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "SILENT_SECONDS", "1")
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/points.git"
        run_git("remote", "set-url", "origin", url, cwd=ours.path)
        with pytest.raises(StateError) as caught:
            ours.fetch()
    assert "\n" not in caught.value.message and "too slow" in caught.value.message


@pytest.mark.thorough
def test_dropped_files_come_back(ours: Repo, server: WebServer) -> None:
    write(ours, {**ROWS, 3: ("three", 3)})
    ours.push()
    here = set(files(ours))

    dropped = reopened(ours).drop_data(everything=True)

    assert dropped.files == len(here) and files(ours) == []
    assert len(read(reopened(ours))) == 3


@pytest.mark.thorough
def test_a_server_of_others(server: WebServer, tmp_path: Path) -> None:
    if not has_giftless():
        lacking("this needs giftless, as `make setup` installs it")
    with giftless(tmp_path / "giftless") as url:
        repo = make(tmp_path / "ours", ROWS)
        place = f"[lfs]\n\turl = {url}/maps/points.git/info/lfs\n"
        (repo.path / ".lfsconfig").write_text(place)
        run_git("add", ".lfsconfig", cwd=repo.path)
        run_git("commit", "-qm", "Say where files are", cwd=repo.path)
        for number in range(3):
            write(repo, {**read(repo), 10 + number: ("more", number)})

        share(repo, server.url("points.git"))

        assert len([p for p in (tmp_path / "giftless").rglob("*") if p.is_file()]) == len(
            named(server.root / "points.git")
        )
        theirs = clone(server.url("points.git"), tmp_path / "theirs")
        assert read(theirs) == read(repo)
        assert_clean(theirs)
        write(theirs, {**read(theirs), 30: ("thirty", 3)})
        theirs.push()
        assert repo.fetch().files
        assert read(repo, "origin/main") == read(theirs)
    assert there(server) == set()


@pytest.mark.thorough
def test_a_part_is_pushed_beside_what_others_did(
    ours: Repo, server: WebServer, tmp_path: Path
) -> None:
    """A clone without data pushes a branch, though others moved on from where it began."""
    theirs = clone(server.url("points.git"), tmp_path / "theirs", on_demand=True)
    write(ours, {**ROWS, 3: ("three", 3)})
    ours.push()

    theirs.push("origin", ["main:refs/heads/aside"])

    assert files(theirs) == []
    assert run_git("rev-parse", "aside", cwd=server.root / "points.git") == theirs.head().commit
    assert reopened(theirs).push_data().files == 0


@pytest.mark.thorough
def test_a_part_is_pushed_elsewhere(ours: Repo, server: WebServer, tmp_path: Path) -> None:
    """What is not here comes from where it is first."""
    theirs = clone(server.url("points.git"), tmp_path / "theirs", on_demand=True)

    theirs.push(str(bare(tmp_path / "other.git")), ["main"])

    assert set(files(tmp_path / "other.git")) == named(tmp_path / "other.git") == there(server)


@pytest.mark.thorough
def test_a_push_counts_what_it_sends(ours: Repo, server: WebServer) -> None:
    """Also where the server has some of it, as after a push that was cut off."""
    assert ours.push_data().files == 0
    first = write(ours, {**ROWS, 3: ("three", 3)})
    run_git("push", "--quiet", "--no-verify", "origin", f"{first}:refs/heads/other", cwd=ours.path)
    run_git("lfs", "push", "--object-id", "origin", *files(ours), cwd=ours.path)
    had = there(server)
    run_git("update-ref", "-d", "refs/heads/other", cwd=server.root / "points.git")
    run_git("update-ref", "-d", "refs/remotes/origin/other", cwd=ours.path)
    write(ours, {**ROWS, 3: ("three", 3), 4: ("four", 4)})

    sent = ours.push()

    assert sent.files == len(there(server) - had) == 1
    assert sent.size == sum(store(ours).size(name) for name in there(server) - had)
    assert_keeps_its_promise(server)
