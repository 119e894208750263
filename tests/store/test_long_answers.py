"""What a store says without end is cut off before it fills the memory, and said in one line."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import urlopen

import pytest

from havasu_vc.errors import StorageError
from havasu_vc.remotes.object_store import ObjectStoreRemote
from havasu_vc.store.object_systems import (
    MOST_OF_AN_ANSWER,
    object_size,
    object_system,
    reporting_store_errors,
)
from tests.support.servers import S3_ENVIRONMENT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what has come")
URL = "s3://maps/data"
TAKEN = 400 << 20
"""Bytes after which the server gives up: nobody cut it off."""
WHOLE = 3 * MOST_OF_AN_ANSWER
"""Bytes of a file that comes as one answer."""


class _Endless(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path == "/whole":
            self.send_response(200)
            self.send_header("Content-Length", str(WHOLE))
            self.end_headers()
            for _ in range(WHOLE >> 20):
                self.wfile.write(bytes(1 << 20))
                time.sleep(0.01)
            return
        if self.command == "HEAD":
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(self.server.code)
        self.send_header("Connection", "close")
        self.end_headers()
        piece = b"<Contents>" * 10_000
        try:
            while self.server.taken < TAKEN:
                self.wfile.write(piece)
                self.server.taken += len(piece)
        except OSError:
            self.close_connection = True

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    code = 200
    taken = 0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Endless) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        url = f"http://127.0.0.1:{made.server_address[1]}"
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": url}.items():
            monkeypatch.setenv(name, value)
        yield made
        made.shutdown()
        thread.join()


QUESTIONS: dict[str, Callable[[], object]] = {
    "listed": lambda: list(ObjectStoreRemote(URL).listed()),
    "looked for": lambda: object_size(f"{URL}/x"),
    "written": lambda: ObjectStoreRemote(URL).write_note("x", b"note"),
    "asked": lambda: ObjectStoreRemote(URL).claims(),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("what", QUESTIONS)
def test_an_answer_without_end_is_cut_off(server: _Server, what: str) -> None:
    with pytest.raises(StorageError) as error:
        QUESTIONS[what]()

    said = str(error.value)
    assert f"cannot be {what}: its answer was longer than {MOST_OF_AN_ANSWER:,} bytes" in said
    assert server.taken < TAKEN


def test_so_is_the_text_of_an_error(server: _Server) -> None:
    server.code = 403

    with pytest.raises(StorageError, match="longer than"):
        list(ObjectStoreRemote(URL).listed())

    assert server.taken < TAKEN


def test_a_file_that_is_read_meanwhile_comes_whole(server: _Server) -> None:
    object_system(URL)  # from then on connections to the server are watched
    with reporting_store_errors(URL, "asked"), reporting_store_errors(URL, "read"):
        with urlopen(f"http://127.0.0.1:{server.server_address[1]}/whole") as answer:
            assert len(answer.read()) == WHOLE


def test_what_a_store_says_in_its_own_document_is_the_reason() -> None:
    """As obstore gives it, with the whole document: on the first line stands how it begins."""
    document = (
        "Error performing PUT http://127.0.0.1/nobucket/x - 404 Not Found: <?xml version='1.0'?>\n"
        "<Error><Code>NoSuchBucket</Code><Message>The specified bucket does not exist</Message>"
        "<BucketName>nobucket</BucketName></Error>"
    )
    with pytest.raises(StorageError) as caught, reporting_store_errors(URL, "written"):
        raise OSError(document)
    said = "NoSuchBucket: The specified bucket does not exist"
    assert caught.value.message == f"{URL} cannot be written: {said}"
    assert caught.value.hints == ("make the bucket, or correct the URL",)
