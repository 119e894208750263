"""Clients that send too much, or too slowly: refused early, in little memory, and others served."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.repo.points import make
from tests.serving.server import catalog, prefix, serving

HURRIED = """
import havasu_vc.serving.application as a, havasu_vc.serving.server as p
a.SECONDS = a.SECONDS_IN_ALL = p.SECONDS = 1.0
"""
GIB = 1 << 30


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    repo = make(tmp_path_factory.mktemp("patience") / "repo", {1: ("one", 1)})
    with serving(repo.path, "--write", "main", first=HURRIED) as found:
        yield found


def opened(url: str) -> socket.socket:
    place = urlsplit(url)
    return socket.create_connection((str(place.hostname), place.port or 0), timeout=20)


def head(url: str, *lines: str) -> bytes:
    """Return the headers of a commit."""
    path = f"{prefix(url)}/namespaces/tables/tables/points"
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


def answer(connection: socket.socket) -> bytes:
    """Return what comes until the server closes, or the client was cut off."""
    found = b""
    try:
        while piece := connection.recv(65536):
            found += piece
    except ConnectionError:
        pass
    return found


def peak(url: str) -> int:
    """Return the most memory that the server ever held, in bytes."""
    port = urlsplit(url).port
    for place in Path("/proc").glob("[0-9]*"):
        try:
            command = (place / "cmdline").read_bytes()
            if b"serve" in command and _listens(place, port or 0):
                found = re.search(r"VmHWM:\s+(\d+)", (place / "status").read_text())
                return int(found[1]) * 1024 if found else 0
        except OSError:
            continue
    raise AssertionError("there is no such server")


def _listens(place: Path, port: int) -> bool:
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    rows = [line.split() for line in lines]
    (inode,) = {row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
    return any(each.readlink().name == f"socket:[{inode}]" for each in (place / "fd").iterdir())


def served(url: str) -> bool:
    """Whether another client is answered."""
    return bool(catalog(url).load_table("tables.points").scan().to_arrow().num_rows == 1)


def test_a_body_that_says_it_is_large_is_refused_at_once(url: str) -> None:
    with closing(opened(url)) as connection:
        connection.sendall(head(url, f"Content-Length: {GIB}"))
        assert answer(connection).startswith(b"HTTP/1.1 413")


def test_a_body_that_does_not_say_so_is_refused_on_its_way(url: str) -> None:
    before, sent = peak(url), 0
    piece = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
    with closing(opened(url)) as connection:
        connection.sendall(head(url, "Transfer-Encoding: chunked"))
        try:
            while sent < GIB:
                connection.sendall(piece)
                sent += len(piece)
        except ConnectionError:
            pass
        assert sent < 100 << 20
    assert peak(url) - before < 150 << 20
    assert served(url)


@pytest.mark.thorough
@pytest.mark.parametrize("begun", ["", "GET /v1/config HTTP/1.1\r\nHost: loc"])
def test_headers_that_do_not_come_are_not_waited_for(url: str, begun: str) -> None:
    connections = [opened(url) for _ in range(50)]
    for connection in connections:
        connection.sendall(begun.encode())
    assert served(url)
    start = time.monotonic()
    for connection in connections:
        assert answer(connection) == b""
        connection.close()
    assert time.monotonic() - start < 15


def test_headers_after_an_answer_are_not_waited_for(url: str) -> None:
    with closing(opened(url)) as connection:
        connection.sendall(b"GET /v1/config HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /v1/con")
        start = time.monotonic()
        answer(connection)
        assert time.monotonic() - start < 15


@pytest.mark.thorough
@pytest.mark.parametrize("drip", [False, True], ids=["stops", "drips"])
def test_a_body_that_does_not_come_is_not_waited_for(url: str, drip: bool) -> None:
    with closing(opened(url)) as connection:
        connection.sendall(head(url, "Content-Length: 1000") + b"{")
        for _ in range(20 * drip):
            time.sleep(0.1)
            try:
                connection.sendall(b" ")
            except ConnectionError:
                break
        assert answer(connection).startswith(b"HTTP/1.1 408")
    assert served(url)


@pytest.mark.thorough
def test_many_large_bodies_are_held_in_little_memory(url: str, tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", {1: ("one", 1)})
    little = "import havasu_vc.serving.application as a; a.MOST_HELD = 1 << 20"
    with serving(repo.path, "--write", "main", first=little) as other:
        connections = [opened(other) for _ in range(8)]
        for connection in connections:
            connection.sendall(head(other, f"Content-Length: {1 << 19}") + bytes(1 << 18))
        time.sleep(0.5)
        refused = []
        for connection in connections:
            connection.settimeout(0.5)
            try:
                refused.append(connection.recv(65536).startswith(b"HTTP/1.1 503"))
            except TimeoutError:
                refused.append(False)
        assert any(refused) and not all(refused)
        for connection in connections:
            connection.close()
        assert served(other)
