"""A web server on loopback with git's own `http-backend` and a Git LFS server that can go wrong.

    with serving(folder) as server:
        server.url("points.git")        what to clone, push to, and so on

LFS objects lie in `<folder>/lfs/<sha256>`. `server.fault` names what goes wrong (see
`FAULTS`), `server.requests` lists what was asked. With `server.password`, nothing is given
without it.
"""

import base64
import hashlib
import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__all__ = ["FAULTS", "SLOW", "WebServer", "read_body", "serving"]

FAULTS = {
    "bytes": "other bytes of the same number",
    "longer": "more bytes than a file has, and no end of them",
    "cut": "the connection is cut in the middle of a file",
    "missing": "the server says that it has no such file",
    "size": "the server says another size than the pointer",
    "id": "the server names files by paths",
    "nonsense": "the answer is no JSON",
    "error": "every request for a file fails",
}
SLOW = {
    "stall": "the server says nothing more in the middle of a file",
    "trickle": "a few bytes come now and then",
    "deaf": "the server takes a request and never answers",
}


class WebServer(ThreadingHTTPServer):
    """Serves one folder of bare repositories."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.root = root
        self.fault = ""
        self.fault_from = 0
        """The fault begins after so many files have been asked for."""
        self.moved = 0
        self.turn = threading.Lock()
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.password = ""
        self.elsewhere = ""
        """Where downloads are redirected to."""
        self.patience = threading.Event()
        """Set when slow answers should end."""
        (root / "lfs").mkdir(exist_ok=True)

    def url(self, name: str = "", *, user: str = "") -> str:
        """Return the URL of a repository."""
        return f"http://{user}127.0.0.1:{self.server_address[1]}/{name}"

    def failing(self, fault: str) -> bool:
        """Whether this goes wrong now."""
        return self.fault == fault and self.moved >= self.fault_from

    def fault_of_the_next(self) -> str:
        """Count one file more and return what goes wrong with it, however many come at once."""
        with self.turn:
            fault = self.fault if self.moved >= self.fault_from else ""
            self.moved += 1
        return fault

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: WebServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.answer()

    do_POST = do_PUT = do_GET

    def answer(self) -> None:
        body = read_body(self)
        self.server.requests.append(f"{self.command} {self.path}")
        self.server.headers.append(dict(self.headers))
        if self.server.password and not self.path.startswith("/lfs/"):
            wanted = base64.b64encode(self.server.password.encode()).decode()
            if self.headers.get("Authorization") != f"Basic {wanted}":
                self.give(401, b"", {"WWW-Authenticate": 'Basic realm="git"'})
                return
        path = urlsplit(self.path).path
        if path.endswith("/info/lfs/objects/batch"):
            self.batch(json.loads(body))
        elif path.startswith("/lfs/"):
            self.file(path.rpartition("/")[2], body)
        elif "/info/lfs" in path:
            self.give(404, b"{}")
        else:
            self.git(path, body)

    def give(self, code: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    # Git LFS

    def batch(self, request: Any) -> None:
        if self.server.failing("nonsense"):
            self.give(200, b"<html>", {"Content-Type": "text/html"})
            return
        objects = [self.item(request["operation"], each) for each in request["objects"]]
        answer = {"transfer": "basic", "objects": objects}
        headers = {"Content-Type": "application/vnd.git-lfs+json"}
        self.give(200, json.dumps(answer).encode(), headers)

    def item(self, operation: str, wanted: Any) -> dict[str, Any]:
        name, size = wanted["oid"], wanted["size"]
        place = self.server.root / "lfs" / name
        item: dict[str, Any] = {"oid": name, "size": size, "authenticated": True}
        action = {"href": self.server.url(f"lfs/{name}")}
        if operation == "upload":
            if not place.exists():
                item["actions"] = {"upload": action}
            return item
        if not place.exists() or self.server.failing("missing"):
            return item | {"error": {"code": 404, "message": "Object does not exist"}}
        if self.server.failing("size"):
            item["size"] = size + 1
        if self.server.failing("id"):
            item["oid"] = "../../../../" + name
        if self.server.elsewhere:
            action = {"href": f"{self.server.url('lfs/away')}/{name}"}
        return item | {"actions": {"download": action}}

    def file(self, name: str, body: bytes) -> None:
        fault = self.server.fault_of_the_next()
        if fault == "error":
            self.give(500, b"no")
            return
        place = self.server.root / "lfs" / name
        if self.command == "PUT":
            if fault == "cut":
                self.cut()
            elif hashlib.sha256(body).hexdigest() != name:
                self.give(422, b"wrong bytes")
            else:
                place.write_bytes(body)
                self.give(200, b"")
            return
        if "/away/" in self.path:
            self.give(302, b"", {"Location": f"{self.server.elsewhere}{name}"})
        elif not place.exists():
            self.give(404, b"")
        else:
            self.download(place.read_bytes(), fault)

    def download(self, data: bytes, fault: str) -> None:
        if fault == "bytes":
            self.give(200, bytes(byte ^ 1 for byte in data))
        elif fault == "cut":
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.cut()
        elif fault in SLOW:
            self.dawdle(data, fault)
        elif fault == "longer":
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.wfile.write(data)
            for _ in range(4096):
                self.wfile.write(bytes(1 << 16))
            self.cut()
        else:
            self.give(200, data)

    def dawdle(self, data: bytes, fault: str) -> None:
        if fault != "deaf":
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
        while not self.server.patience.wait(0.05):
            if fault == "trickle":
                self.wfile.write(b"x")
        self.cut()

    def cut(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    # git

    def git(self, path: str, body: bytes) -> None:
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            check=False,
            env={
                **os.environ,
                "GIT_PROJECT_ROOT": str(self.server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": urlsplit(self.path).query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "CONTENT_LENGTH": str(len(body)),
                "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
                "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
                "REMOTE_USER": "somebody",
                "REMOTE_ADDR": "127.0.0.1",
            },
        )
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        code = int(headers.pop("Status", "200").split()[0])
        self.give(code, data, headers)


def read_body(request: BaseHTTPRequestHandler) -> bytes:
    """Return the body of a request, in whichever way it comes."""
    if request.headers.get("Transfer-Encoding") == "chunked":
        data = b""
        while size := int(request.rfile.readline().split(b";")[0], 16):
            data += request.rfile.read(size)
            request.rfile.readline()
        request.rfile.readline()
        return data
    return request.rfile.read(int(request.headers.get("Content-Length") or 0))


@contextmanager
def serving(root: Path) -> Iterator[WebServer]:
    """Serve a folder as long as this lasts."""
    server = WebServer(root)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.patience.set()
        server.shutdown()
        server.server_close()
        thread.join()


def has_git_lfs() -> bool:
    """Return whether git finds the program git-lfs."""
    return shutil.which("git-lfs") is not None
