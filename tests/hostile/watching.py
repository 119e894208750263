"""What happens to a folder that nobody should touch: who looks, who writes, who calls.

`Watch` hears of each file below a folder that is opened, by whatever program, from the kernel
(inotify); `listed` says what is there; `Calls` is a server on loopback that nobody should ask.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["Calls", "Watch", "listed", "listening"]

_OPEN, _READ, _NONBLOCKING = 0x20, 0x01, 0o4000
_DIRECTORY = 0x40000000
_HEAD = struct.Struct("iIII")


class Watch:
    """Hears which files of some folders are opened."""

    def __init__(self, *folders: Path) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._queue = library.inotify_init1(_NONBLOCKING)
        self._names: dict[int, Path] = {}
        for top in folders:
            for folder, _, _ in os.walk(top):
                number = library.inotify_add_watch(self._queue, os.fsencode(folder), _OPEN | _READ)
                if number < 0:
                    raise OSError(ctypes.get_errno(), "inotify")
                self._names[number] = Path(folder)

    def heard(self) -> list[str]:
        """Return the files that were opened since this was asked last."""
        found: set[str] = set()
        while True:
            try:
                data = os.read(self._queue, 1 << 16)
            except BlockingIOError:
                return sorted(found)
            at = 0
            while at < len(data):
                number, what, _, length = _HEAD.unpack_from(data, at)
                name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
                at += _HEAD.size + length
                if not what & _DIRECTORY and number in self._names:
                    found.add(str(self._names[number] / os.fsdecode(name)))

    def close(self) -> None:
        """Hear no more."""
        os.close(self._queue)


def listed(folder: Path) -> dict[str, str]:
    """Return what is below a folder: names, kinds, modes and content."""
    found = {}
    for at, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(at, name)
            kind = path.lstat().st_mode
            if path.is_symlink():
                what = os.readlink(path)
            elif path.is_file():
                what = hashlib.sha256(path.read_bytes()).hexdigest()
            else:
                what = ""
            found[str(path.relative_to(folder))] = f"{kind:o} {what}"
    return found


class Calls(ThreadingHTTPServer):
    """A server that gives whatever is asked, and remembers who asked."""

    daemon_threads = True

    def __init__(self, data: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.data = data
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def heard(self) -> list[str]:
        """Return what was asked since this was asked last."""
        found, self.asked = self.asked, []
        return found

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Answer(BaseHTTPRequestHandler):
    server: Calls

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.server.data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(self.server.data)

    do_POST = do_PUT = do_HEAD = do_PROPFIND = do_OPTIONS = do_GET


@contextmanager
def listening(data: bytes) -> Iterator[Calls]:
    """Listen as long as this lasts."""
    server = Calls(data)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
