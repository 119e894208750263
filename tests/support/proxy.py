"""A proxy on loopback by which the requests of a real server go wrong.

    with between(url) as proxy:
        proxy.url                                   what to ask instead of `url`
        proxy.fault = Fault("cut answer", after=10)

A fault begins after so many requests that it fits have passed, and ends after so many.
"""

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.support.web import read_body

__all__ = ["PROXY_FAULTS", "Fault", "Proxy", "between"]

PROXY_FAULTS = {
    "cut request": "the connection is cut before the server has all of a request",
    "lost answer": "the server does what it is asked, and nobody hears so",
    "cut answer": "the connection is cut in the middle of an answer",
    "wrong bytes": "other bytes of the same number",
    "missing": "the server says that it has no such thing",
    "refused": "nothing may be written",
    "full": "there is no room to write",
    "error": "every request fails",
    "slow": "every answer takes its time",
}
_WRITING = ("PUT", "POST", "DELETE")
_READING = ("wrong bytes", "missing", "cut answer")
_CODES = {"missing": 404, "refused": 403, "full": 507, "error": 500}
_HOP = ("connection", "transfer-encoding", "keep-alive", "expect")


@dataclass
class Fault:
    """What goes wrong."""

    kind: str
    after: int = 0
    """Requests that pass before."""
    times: int = 1_000_000
    """Requests that it happens to."""

    def fits(self, method: str, path: str) -> bool:
        if self.kind in _READING:
            return method == "GET" and "/objects/" in path
        return self.kind not in ("refused", "full") or method in _WRITING


class Proxy(ThreadingHTTPServer):
    """Stands between a server and those who ask it."""

    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = urlsplit(target).netloc
        self.fault: Fault | None = None
        self.turn = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fault_of(self, method: str, path: str) -> str:
        """Count a request, and return what goes wrong with it."""
        with self.turn:
            fault = self.fault
            if fault is None or not fault.fits(method, path):
                return ""
            if fault.after > 0:
                fault.after -= 1
                return ""
            fault.times -= 1
            return fault.kind if fault.times >= 0 else ""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        fault = self.server.fault_of(self.command, self.path)
        if fault == "cut request":
            self.cut()
            return
        body = read_body(self)
        if fault in _CODES:
            self.give(_CODES[fault], [], b"")
            return
        connection = http.client.HTTPConnection(self.server.target, timeout=30)
        try:
            headers = {n: v for n, v in self.headers.items() if n.lower() not in _HOP}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            data = answer.read()
        finally:
            connection.close()
        if fault == "lost answer":
            self.cut()
            return
        if fault == "slow":
            time.sleep(0.05)
        if fault == "wrong bytes":
            data = bytes(byte ^ 1 for byte in data)
        kept = len(data) // 2 if fault == "cut answer" else None
        self.give(answer.status, answer.getheaders(), data, kept)

    do_PUT = do_POST = do_DELETE = do_HEAD = do_GET

    def give(
        self, status: int, headers: list[tuple[str, str]], data: bytes, kept: int | None = None
    ) -> None:
        self.send_response_only(status)
        known = {name.lower() for name, _ in headers}
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        if "content-length" not in known:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data[:kept])
        if kept is not None:
            self.cut()

    def cut(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def between(url: str) -> Iterator[Proxy]:
    """Stand between a server and those who ask it, as long as this lasts."""
    proxy = Proxy(url)
    thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield proxy
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()
