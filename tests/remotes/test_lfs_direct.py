"""Downloads without git-lfs: from servers that give, and from those that do otherwise."""

import hashlib
import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from havasu_vc.errors import CorruptDataFileError, DataFileNotFoundError, StorageError
from havasu_vc.remotes import lfs_direct
from havasu_vc.remotes.lfs import LfsRemote
from havasu_vc.remotes.lfs_direct import DirectDownloads, direct_downloads, endpoint_of
from havasu_vc.remotes.protocol import WantedFile
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.repository import GitRepository
from tests.conftest import lacking
from tests.support.git import run_git
from tests.support.web import SLOW, WebServer, has_git_lfs, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WebServer]:
    (tmp_path / "web").mkdir()
    with serving(tmp_path / "web") as server:
        yield server


@pytest.fixture
def store(tmp_path: Path) -> DataFileStore:
    return DataFileStore(tmp_path / "store")


def given(server: WebServer, count: int, size: int = 3000) -> list[WantedFile]:
    """Have a server hold some files."""
    found = []
    for number in range(count):
        data = b"%08d" % number * (size // 8)
        name = hashlib.sha256(data).hexdigest()
        (server.root / "lfs" / name).write_bytes(data)
        found.append(WantedFile(name, len(data)))
    return sorted(found)


def direct(server: WebServer) -> DirectDownloads:
    return DirectDownloads(server.url("x.git/info/lfs"))


@pytest.mark.thorough
def test_files_come_a_hundred_at_a_time(server: WebServer, store: DataFileStore) -> None:
    files = given(server, 250)
    moved: list[int] = []

    assert direct(server).download(files, store, moved.append) == []

    assert sum(moved) == sum(file.size for file in files)
    assert sorted(store.iter()) == [file.sha256 for file in files]
    for file in files:
        store.verify(file.sha256)
    batches = [line for line in server.requests if line.endswith("/batch")]
    assert len(batches) == 3 and len(server.requests) == 253
    assert list(store.scratch.iterdir()) == []


def test_the_client_asks_for_a_hundred_at_a_time(server: WebServer, tmp_path: Path) -> None:
    if not has_git_lfs():
        lacking("this needs git-lfs: apt install git-lfs")
    run_git("init", "-q", tmp_path / "repo", cwd=tmp_path)
    run_git("remote", "add", "origin", server.url("x.git"), cwd=tmp_path / "repo")
    repository = GitRepository.open(tmp_path / "repo")
    store, files = DataFileStore(repository.data_folder), []
    for number in range(220):
        temporary = store.temporary()
        temporary.write_bytes(b"content %d" % number)
        files.append(WantedFile(*store.put(temporary)))
    for file in files[:200]:  # what is there does not go again
        (server.root / "lfs" / file.sha256).write_bytes(store.path(file.sha256).read_bytes())

    LfsRemote(repository, "origin", "origin").upload(files, store, lambda count: None)

    assert len([line for line in server.requests if line.endswith("/batch")]) <= 3
    assert len([line for line in server.requests if line.startswith("PUT")]) == 20


@pytest.mark.few(1)
@pytest.mark.parametrize("fault", SLOW)
def test_a_slow_server_is_given_up(
    server: WebServer, store: DataFileStore, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setattr(lfs_direct, "SILENT_SECONDS", 0.3)
    monkeypatch.setattr(lfs_direct, "LEAST_SPEED", 1 << 30)
    files = given(server, 4)
    server.fault, server.fault_from = fault, 2

    with pytest.raises(StorageError) as caught:
        direct(server).download(files, store, lambda count: None)

    assert "silent" in caught.value.message and "goes on" in caught.value.hints[0]
    assert list(store.scratch.iterdir()) == []
    server.patience.set()
    server.fault = ""
    left = [file for file in files if not store.has(file.sha256)]
    assert 0 < len(left) <= 4
    assert direct(server).download(left, store, lambda count: None) == []
    assert len(list(store.iter())) == 4


@pytest.mark.parametrize("fault", ["error", "cut", "id"])
def test_what_may_pass_is_left_to_the_client(
    server: WebServer, store: DataFileStore, fault: str
) -> None:
    files = given(server, 3)
    moved: list[int] = []
    server.fault = fault
    assert direct(server).download(files, store, moved.append) == files
    assert list(store.iter()) == [] and sum(moved) == 0


@pytest.mark.parametrize("fault", ["bytes", "longer"])
def test_wrong_bytes_are_refused(server: WebServer, store: DataFileStore, fault: str) -> None:
    files = given(server, 3)
    server.fault, server.fault_from = fault, 2
    with pytest.raises(CorruptDataFileError):
        direct(server).download(files, store, lambda count: None)
    assert len(list(store.iter())) == 2 and list(store.scratch.iterdir()) == []


def test_a_file_that_is_not_there(server: WebServer, store: DataFileStore) -> None:
    files = [*given(server, 2), WantedFile("ab" * 32, 8)]
    with pytest.raises(DataFileNotFoundError):
        direct(server).download(files, store, lambda count: None)
    assert len(list(store.iter())) == 2


def test_a_server_that_wants_a_password(server: WebServer, store: DataFileStore) -> None:
    files = given(server, 2)
    server.password = "me:secret"
    assert direct(server).download(files, store, lambda count: None) == files


def test_headers_go_to_no_other_host(
    server: WebServer, store: DataFileStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = given(server, 2)
    (tmp_path / "other").mkdir()
    with serving(tmp_path / "other") as other:
        given(other, 2)
        server.elsewhere = other.url("lfs/")
        ask = DirectDownloads._ask

        def secretly(self: DirectDownloads, batch: list[WantedFile]) -> object:
            told = ask(self, batch)
            for each in told.values():
                each["actions"]["download"]["header"] = {"Authorization": "Basic c2VjcmV0"}
            return told

        monkeypatch.setattr(DirectDownloads, "_ask", secretly)
        assert direct(server).download(files, store, lambda count: None) == []

        assert other.requests and all("Authorization" not in each for each in other.headers)
        asked = [
            h for line, h in zip(server.requests, server.headers, strict=True) if "away" in line
        ]
        assert asked and all(each["Authorization"] == "Basic c2VjcmV0" for each in asked)


@pytest.mark.parametrize(
    "told",
    [
        "x",
        {},
        {"error": "x"},
        {"error": {"code": 500}},
        {"actions": {"download": {"href": 7}}},
        {"actions": {"download": {"href": "file:///etc/passwd"}}},
        {"actions": {"download": {"href": "ftp://host/x"}}},
        {"actions": {"download": {"href": "http://me:secret@127.0.0.1/x"}}},
        {"actions": {"download": {"href": "http://127.0.0.1:1/x"}}},
        {"actions": {"download": {"href": "http://127.0.0.1/x", "header": "x"}}},
        {"actions": {"download": {"href": "http://127.0.0.1/x", "header": {"A": "b\r\nC: d"}}}},
        {"actions": {"download": {"href": "http://127.0.0.1/x", "header": {"A": "\u0100"}}}},
        {"actions": {"download": {"href": "http://127.0.0.1/\xe9"}}},
        {"actions": {"download": {"href": "http://[::1/x"}}},
        {"actions": {"download": {"href": f"http://{'a' * 300}/x"}}},
    ],
    ids=json.dumps,
)
def test_answers_that_are_odd_are_left_to_the_client(store: DataFileStore, told: object) -> None:
    file = WantedFile("ab" * 32, 8)
    assert not DirectDownloads("http://127.0.0.1/")._bring(file, told, store, lambda count: None)
    assert list(store.iter()) == []


class Odd(BaseHTTPRequestHandler):
    """Answers every question with one text, and sends those who ask for a file elsewhere."""

    text = b""
    place = ""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.text)))
        self.end_headers()
        self.wfile.write(self.text)

    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", self.place)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture
def odd() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Odd) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/x"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 3_000_000,
        b"9" * 5000,
        b'"' + b"x" * (5 << 20) + b'"',
        b"\xff\xfe",
        b'{"objects": "abc"}',
        b'{"objects": [{"oid": ["x"]}, {"oid": {}}, {"oid": 1}, 7]}',
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_answers_that_are_none(
    odd: str, store: DataFileStore, monkeypatch: pytest.MonkeyPatch, text: bytes
) -> None:
    monkeypatch.setattr(Odd, "text", text)
    files = [WantedFile("ab" * 32, 8)]
    assert DirectDownloads(odd).download(files, store, lambda count: None) == files


@pytest.mark.parametrize(
    "place", ["http://[::1", "//", "\xe9", "file:///etc/passwd", "http://a:b@127.0.0.1/", "/x"]
)
def test_redirects_to_nowhere(
    odd: str, store: DataFileStore, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    file = WantedFile("ab" * 32, 8)
    item = {"oid": file.sha256, "actions": {"download": {"href": odd}}}
    monkeypatch.setattr(Odd, "text", json.dumps({"objects": [item]}).encode())
    monkeypatch.setattr(Odd, "place", place)
    assert DirectDownloads(odd).download([file], store, lambda count: None) == [file]
    assert list(store.iter()) == [] and list(store.scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("https://h/a/b.git", "https://h/a/b.git/info/lfs"),
        ("http://h:8/b/", "http://h:8/b.git/info/lfs"),
        ("https://me@h/b", None),
        ("ssh://h/b", None),
        ("git@h:b", None),
        ("/srv/b", None),
        ("", None),
    ],
)
def test_where_a_server_is(address: str, endpoint: str | None) -> None:
    assert endpoint_of(address) == endpoint


@pytest.mark.parametrize(
    "setting",
    [
        "lfs.url",
        "remote.origin.lfsurl",
        "http.proxy",
        "http.https://h/.extraheader",
        "http.sslverify",
        "lfs.customtransfer.x.path",
        "remote.origin.proxy",
    ],
)
def test_settings_are_the_clients_to_follow(tmp_path: Path, setting: str) -> None:
    run_git("init", "-q", ".", cwd=tmp_path)
    repository = GitRepository.open(tmp_path)
    plain = [name for name in os.environ if name.lower() in lfs_direct._PROXIES]
    if not plain:
        assert direct_downloads(repository, "https://h/x", {}) is not None
    assert direct_downloads(repository, "https://h/x", {"A": "b"}) is None
    run_git("config", setting, "x", cwd=tmp_path)
    assert direct_downloads(GitRepository.open(tmp_path), "https://h/x", {}) is None


def test_a_repository_that_names_a_server(tmp_path: Path) -> None:
    run_git("init", "-q", ".", cwd=tmp_path)
    (tmp_path / ".lfsconfig").write_text("[lfs]\n\turl = https://elsewhere/\n")
    assert direct_downloads(GitRepository.open(tmp_path), "https://h/x", {}) is None
