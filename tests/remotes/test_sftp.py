"""Data in a folder of a server of SSH: OpenSSH's own on loopback, and servers gone wrong."""

import hashlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc import Repo
from havasu_vc.errors import DataFileNotFoundError, HavasuError, MissingProgramError, StorageError
from havasu_vc.remotes import sftp
from havasu_vc.remotes.protocol import ALLOWED, WantedFile, check_data_url, login_of
from havasu_vc.remotes.sftp import SftpRemote, SftpSession
from havasu_vc.store.files import DataFileStore
from tests.cli.conftest import invoke, succeed
from tests.conftest import lacking
from tests.remotes.sharing import bare, files, named, reopened, spoil, store
from tests.repo.points import Rows, make, read, write
from tests.support.git import run_git
from tests.support.servers import SshServer, has_sshd, sshd

pytestmark = [pytest.mark.few(1), pytest.mark.usefixtures("own_settings")]

ROWS: Rows = {1: ("one", 1), 2: ("two", 2)}
MORE: Rows = {**ROWS, 3: ("three", 3)}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    if not has_sshd():
        lacking("this needs a server of SSH: apt install openssh-server")
    with sshd(tmp_path_factory.mktemp("sshd")) as server:
        yield server


@pytest.fixture
def host(machine: SshServer, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("GIT_SSH_COMMAND", machine.command)
    return machine.address


def remote(url: str) -> SftpRemote:
    return SftpRemote(url, ["sh", "-c", f'{os.environ["GIT_SSH_COMMAND"]} "$@"', "ssh"])


def there(data: Path) -> set[str]:
    """Return the files that are in a folder, of which everything must be right."""
    found = {path.name: path for path in (data / "objects").glob("*/*/*")}
    for name, path in found.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == name
        assert path.relative_to(data).parts[1:3] == (name[:2], name[2:4])
    assert list((data / "temporary").iterdir()) == []
    return set(found)


def filled(
    folder: Path, count: int = 20, size: int = 1000
) -> tuple[DataFileStore, list[WantedFile]]:
    """Return a store with some files, the first of many blocks and one without a byte."""
    made, wanted = DataFileStore(folder), []
    for number in range(count):
        temporary = made.temporary()
        length = {0: 5 << 20, 1: 0, 2: 32768, 3: 32769}.get(number, size)
        temporary.write_bytes((b"%d" % number * length)[:length])
        wanted.append(WantedFile(*made.put(temporary)))
    return made, wanted


def ignore(count: int) -> None:
    """Take no note of progress."""


@pytest.mark.thorough
def test_a_server_without_lfs_has_the_data_too(host: str, tmp_path: Path) -> None:
    """The whole way of two people, with git and data on one server of SSH."""
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    data = tmp_path / "with space" / "data"
    url = f"ssh://{host}{data}".replace(" ", "%20")
    git = f"ssh://{host}{server}"
    succeed(invoke(["-C", ours.path, "remote", "add", "origin", git]))
    succeed(invoke(["-C", ours.path, "data", "place", url]))
    succeed(invoke(["-C", ours.path, "push", "-u", "origin", "main"]))

    assert there(data) == named(server)
    assert invoke(["clone", git, tmp_path / "refused"]).exit_code
    run_git("config", "--global", "--add", ALLOWED, f"sftp://{host}", cwd=tmp_path)
    succeed(invoke(["clone", git, tmp_path / "theirs"]))
    theirs = Repo.open(tmp_path / "theirs")
    assert read(theirs) == ROWS
    write(theirs, MORE)
    succeed(invoke(["-C", theirs.path, "push"]))
    assert there(data) == named(server)
    succeed(invoke(["-C", ours.path, "pull"]))
    assert read(reopened(ours)) == MORE
    succeed(invoke(["clone", "--filter=data", git, tmp_path / "part"]))
    assert files(tmp_path / "part") == []
    assert read(Repo.open(tmp_path / "part")) == MORE
    done = invoke(["-C", ours.path, "data", "prune"])
    assert done.exit_code and "file://" in done.stderr


@pytest.mark.thorough
def test_files_of_all_sizes_go_and_come(host: str, tmp_path: Path) -> None:
    made, wanted = filled(tmp_path / "store")
    place = remote(f"sftp://{host}{tmp_path}/data")
    moved: list[int] = []

    assert place.lacking(wanted) == wanted
    assert list(place.upload(wanted, made, moved.append)) == wanted

    assert sum(moved) == sum(file.size for file in wanted)
    assert there(tmp_path / "data") == {file.sha256 for file in wanted}
    assert place.lacking(wanted) == []
    one = next((tmp_path / "data" / "objects").glob("*/*/*"))
    assert one.stat().st_mode & 0o222 == 0
    other = DataFileStore(tmp_path / "other")
    moved.clear()
    place.download(wanted, other, moved.append)
    assert sum(moved) == sum(file.size for file in wanted)
    for file in wanted:
        other.verify(file.sha256)


CUT = """
import os
left = 3_000_000
while left > 0 and (data := os.read(0, min(left, 1 << 16))):
    left -= len(data)
    while data:
        data = data[os.write(1, data):]
"""


@pytest.mark.thorough
def test_a_push_that_was_cut_off_goes_on(
    host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, wanted = filled(tmp_path / "store")
    url, whole = f"sftp://{host}{tmp_path}/data", os.environ["GIT_SSH_COMMAND"]
    cut, program = tmp_path / "cut", tmp_path / "cut.py"
    program.write_text(CUT)
    cut.write_text(f'#!/bin/sh\n{sys.executable} {program} | {whole} "$@"\n')
    cut.chmod(0o755)
    monkeypatch.setenv("GIT_SSH_COMMAND", str(cut))
    with pytest.raises(StorageError):
        remote(url).upload(wanted, made, ignore)
    monkeypatch.setenv("GIT_SSH_COMMAND", whole)
    for path in (tmp_path / "data" / "temporary").iterdir():
        path.unlink()
    had = there(tmp_path / "data")
    lacking_now = remote(url).lacking(wanted)
    assert {file.sha256 for file in wanted} - had == {file.sha256 for file in lacking_now}
    assert wanted[0] in lacking_now

    remote(url).upload(lacking_now, made, ignore)

    assert there(tmp_path / "data") == {file.sha256 for file in wanted}


@pytest.mark.thorough
def test_wrong_bytes_pass_in_neither_direction(host: str, tmp_path: Path) -> None:
    ours, server = make(tmp_path / "ours", ROWS), bare(tmp_path / "server.git")
    url = f"sftp://{host}{tmp_path}/data"
    run_git("remote", "add", "origin", server, cwd=ours.path)
    run_git("config", "havasu.data.url", url, cwd=ours.path)
    name = files(ours)[0]
    good = store(ours).path(name).read_bytes()
    spoil(ours, name)

    done = invoke(["-C", ours.path, "push", "-u", "origin", "main"])

    assert done.exit_code and name in done.stderr
    assert there(tmp_path / "data") == set() and named(server) == set()
    store(ours).delete(name)
    spare = store(ours).temporary()
    spare.write_bytes(good)
    store(ours).put(spare)
    succeed(invoke(["-C", ours.path, "push", "-u", "origin", "main"]))
    (path,) = (tmp_path / "data" / "objects").glob("*/*/*")
    for wrong in (bytes(len(good)), good[:-1], good + b"x" * 100_000):
        path.chmod(0o644)
        path.write_bytes(wrong)
        done = invoke(["clone", "--data-url", url, server, tmp_path / f"theirs{len(wrong)}"])
        assert done.exit_code and name in done.stderr, len(wrong)
        assert files(tmp_path / f"theirs{len(wrong)}") == []
    succeed(invoke(["-C", ours.path, "data", "push"]))
    assert there(tmp_path / "data") == {name}
    path.unlink()
    done = invoke(["clone", "--data-url", url, server, tmp_path / "last"])
    assert done.exit_code and "data push" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    "why", ["no key", "no folder", "no host", "no program"], ids=lambda word: word.replace(" ", "-")
)
def test_what_does_not_work_is_one_line(
    host: str, tmp_path: Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, wanted = filled(tmp_path / "store", 5)
    (tmp_path / "file").write_text("x")
    if why == "no key":
        command = os.environ["GIT_SSH_COMMAND"].replace("/user ", "/host ")
        monkeypatch.setenv("GIT_SSH_COMMAND", command)
    place = remote(f"sftp://{'127.0.0.1:1' if why == 'no host' else host}{tmp_path}/file/data")
    if why == "no program":
        place = SftpRemote(f"sftp://{host}/x", [str(tmp_path / "nothing")])

    with pytest.raises(HavasuError) as caught:
        place.upload(wanted, made, ignore)

    assert isinstance(caught.value, MissingProgramError if why == "no program" else StorageError)
    assert "\n" not in str(caught.value) and caught.value.hints


@pytest.mark.parametrize(
    "url",
    [
        "sftp://-oProxyCommand=date/x",
        "sftp://-oProxyCommand=date@host/x",
        "sftp://host:1x/x",
        "sftp://host",
        "sftp://host/",
        "sftp:///x",
        "sftp://host/x?port=1",
        "sftp://host/%0a",
        "sftp://me:secret@host/x",
        "ssh://ho st/x",
    ],
)
def test_urls_that_lead_elsewhere_are_refused(url: str) -> None:
    with pytest.raises(HavasuError) as caught:
        check_data_url(url)
    assert "secret@" not in str(caught.value)


def test_a_url_at_home() -> None:
    assert login_of("ssh://[::1]:22/~/maps") == ("", "::1", "22", "/~/maps")
    assert SftpRemote("sftp://Host/~/maps", ["ssh"])._root == "maps"


SERVER = """
import os, struct, sys
out, into = sys.stdout.buffer, sys.stdin.buffer
FILE = bytes(range(256)) * 1000
def send(kind, data):
    out.write(struct.pack(">IB", len(data) + 1, kind) + data)
    out.flush()
def string(data):
    return struct.pack(">I", len(data)) + data
fault = sys.argv[1]
while head := into.read(4):
    packet = into.read(struct.unpack(">I", head)[0])
    kind, number, rest = packet[0], packet[1:5], packet[5:]
    if kind == 1:
        if fault == "nonsense": out.write(b"Welcome to the machine\\n" * 9); out.flush()
        elif fault == "silent": import time; time.sleep(60)
        elif fault == "ends": print("it is closed today", file=sys.stderr); sys.exit(1)
        else: send(2, struct.pack(">I", 3))
    elif kind == 3: send(102, number + string(b"h"))
    elif kind == 4: send(101, number + struct.pack(">I", 0) + string(b"") * 2)
    elif kind == 5:
        offset, count = struct.unpack(">QI", rest[5:17])
        data = FILE[offset:offset + min(count, 7000)]
        if fault == "endless": data = b"x" * count
        if fault == "number": number = b"\\0\\0\\0\\0"
        if fault == "huge": out.write(struct.pack(">I", 1 << 31)); out.flush()
        elif data: send(103, number + string(data))
        else: send(101, number + struct.pack(">I", 1) + string(b"") * 2)
    else: send(101, number + struct.pack(">I", 4) + string(b"no \\x1b[31m") + string(b""))
"""
FILE = bytes(range(256)) * 1000


def odd(tmp_path: Path, fault: str) -> tuple[SftpRemote, WantedFile, DataFileStore]:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    place = SftpRemote("sftp://host/x", [sys.executable, str(script), fault])
    wanted = WantedFile(hashlib.sha256(FILE).hexdigest(), len(FILE))
    return place, wanted, DataFileStore(tmp_path / "store")


def test_a_server_that_gives_less_than_it_was_asked_for(tmp_path: Path) -> None:
    place, wanted, target = odd(tmp_path, "none")

    place.download([wanted], target, ignore)

    target.verify(wanted.sha256)


@pytest.mark.parametrize("fault", ["nonsense", "silent", "ends", "endless", "number", "huge"])
def test_servers_gone_wrong(tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sftp, "SILENT_SECONDS", 1.0)
    place, wanted, target = odd(tmp_path, fault)

    with pytest.raises(HavasuError) as caught:
        place.download([wanted], target, ignore)

    assert ("it is closed today" in str(caught.value)) is (fault == "ends")
    assert list(target.iter()) == [] and list(target.root.glob("temporary/*")) == []


def test_what_a_server_says_cannot_control_a_terminal(tmp_path: Path) -> None:
    place, wanted, _ = odd(tmp_path, "none")

    with pytest.raises(StorageError) as caught:
        place.lacking([wanted])

    assert "\x1b" not in str(caught.value)


@pytest.mark.thorough
def test_a_file_that_is_not_there(host: str, tmp_path: Path) -> None:
    place = remote(f"sftp://{host}{tmp_path}/data")

    with pytest.raises(DataFileNotFoundError):
        place.download([WantedFile("ab" * 32, 3)], DataFileStore(tmp_path / "store"), ignore)


@pytest.mark.thorough
def test_a_server_without_extensions(tmp_path: Path) -> None:
    """It answers every request; ours are those of the protocol's third version alone."""
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    session = SftpSession([sys.executable, str(script), "none"], "somewhere")
    try:
        handle = session.open("x", 10)
        buffer = memoryview(bytearray(100))
        assert handle.readinto(buffer) == 11 and bytes(buffer[:11]) == FILE[:11]
        handle.close()
    finally:
        session.close()
