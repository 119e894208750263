"""Servers that lie: Git LFS, git itself, S3 and the API of a host, all on loopback."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from havasu_vc.store.files import DataFileStore
from havasu_vc.store.object_systems import MOST_OF_AN_ANSWER
from havasu_vc.store.repository import GitRepository
from tests.hostile.items import Item
from tests.hostile.scene import Scene
from tests.support.git import run_git
from tests.support.proxy import PROXY_FAULTS, Fault, between
from tests.support.servers import S3_ENVIRONMENT
from tests.support.web import FAULTS, SLOW, WebServer, serving

__all__ = ["ITEMS"]


def _served(scene: Scene) -> WebServer:
    """Serve what the scene's server has over HTTP, and let the peer lack its data."""
    stack = ExitStack()
    scene.closing.append(stack.close)
    web = stack.enter_context(serving(scene.folder))
    store = DataFileStore(GitRepository.open(scene.server).data_folder)
    for file in store.iter():
        shutil.copy(store.path(file), scene.folder / "lfs" / file)
    shutil.rmtree(scene.peer)
    run_git("clone", "-q", scene.server, scene.peer, cwd=scene.folder)
    _point(scene, web.url("server.git"))
    scene.environment["HOSTILE_PATIENCE"] = "1"
    return web


def _point(scene: Scene, url: str) -> None:
    """Let the remote be at a URL."""
    for folder in (scene.peer, scene.repo):
        run_git("remote", "set-url", "origin", url, cwd=folder)
    scene.web = url


def _lfs(fault: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        _served(scene).fault = fault

    return make


def _elsewhere(pattern: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        _served(scene).elsewhere = pattern.format(out=scene.outside, url=scene.url)

    return make


def _proxied(fault: str) -> Callable[[Scene], None]:
    def make(scene: Scene) -> None:
        stack = ExitStack()
        web = _served(scene)
        proxy = stack.enter_context(between(web.url("")))
        scene.closing.append(stack.close)
        proxy.fault = Fault(fault, after=2)
        _point(scene, f"{proxy.url}/server.git")

    return make


Tell = Callable[[BaseHTTPRequestHandler], None]


class _Liar(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, tell: Tell) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.tell = tell

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Answer(BaseHTTPRequestHandler):
    server: _Liar
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.close_connection = True
        self.server.tell(self)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = do_GET


@contextmanager
def _lying(tell: Tell) -> Iterator[str]:
    server = _Liar(tell)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _give(data: bytes, code: int = 200, *, length: int | None = None, **headers: str) -> Tell:
    def tell(request: BaseHTTPRequestHandler) -> None:
        request.send_response(code)
        request.send_header("Content-Length", str(len(data) if length is None else length))
        request.send_header("ETag", '"0"')
        request.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        for name, value in headers.items():
            request.send_header(name, value)
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(data)

    return tell


def _endless(request: BaseHTTPRequestHandler) -> None:
    request.send_response(200)
    request.send_header("Connection", "close")
    request.end_headers()
    with suppress(OSError):
        for _ in range(64_000):  # whoever takes it has no memory left
            request.wfile.write(b"[" * (1 << 16))


def _entities() -> bytes:
    text = '<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "ha">'
    for n in range(1, 30):
        text += f'<!ENTITY a{n} "&a{n - 1};&a{n - 1};">'
    return (text + "]><ListBucketResult><Name>&a29;</Name></ListBucketResult>").encode()


_LIES: dict[str, Tell] = {
    "nonsense": _give(b"<html>\x1b[31m"),
    "nothing": _give(b""),
    "JSON nested deep": _give(b"[" * 1_000_000),
    "a number of 1e6 digits": _give(b"9" * 1_000_000),
    "entities of XML": _give(_entities()),
    "a length of 2^60": _give(b"x", length=2**60),
    "a length of -1": _give(b"x", length=-1),
    "an answer without end": _endless,
    "an error": _give(b"\x1b[31m no", 403),
    "a redirect to a file": _give(b"", 302, Location="file:///etc/passwd"),
    "a redirect to itself": _give(b"", 302, Location="/again"),
}


def _bucket(tell: Tell) -> Callable[[Scene], None]:
    """A bucket with the data files, of a server that lies."""

    def make(scene: Scene) -> None:
        stack = ExitStack()
        scene.closing.append(stack.close)
        url = stack.enter_context(_lying(tell))
        scene.environment |= S3_ENVIRONMENT | {"AWS_ENDPOINT_URL": url, "AWS_MAX_ATTEMPTS": "1"}
        shutil.rmtree(scene.server / "havasu" / "objects")
        run_git("config", "havasu.data.url", "s3://maps/data", cwd=scene.repo)

    return make


def _host(tell: Tell) -> Callable[[Scene], None]:
    """A host's API that lies to a job."""

    def make(scene: Scene) -> None:
        stack = ExitStack()
        scene.closing.append(stack.close)
        url = stack.enter_context(_lying(tell))
        scene.environment |= {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": url,
            "GITHUB_SERVER_URL": url,
            "GITHUB_REPOSITORY": "maps/maps",
            "GITHUB_TOKEN": "token-of-the-job",
        }

    return make


def _named(url: str) -> Callable[[Scene], None]:
    """A remote whose URL is a trap."""

    def make(scene: Scene) -> None:
        filled = url.format(program=scene.program, out=scene.outside)
        for folder in (scene.repo, scene.peer):
            run_git("config", "remote.origin.url", filled, cwd=folder)
        scene.web = filled

    return make


_WEB = "clone-web fetch"

ITEMS = [
    *(Item("lfs", what, _lfs(fault), _WEB) for fault, what in FAULTS.items()),
    *(Item("lfs", what, _lfs(fault), "clone-web") for fault, what in SLOW.items()),
    *(
        Item("lfs", f"a redirect to {what}", _elsewhere(pattern), _WEB, may_call=what == "others")
        for what, pattern in {
            "a file": "file://{out}/secret.txt?",
            "others": "{url}/",
            "a bad address": "http://\x7f/",
            "an odd scheme": "gopher://127.0.0.1:1/",
            "nowhere": "http://127.0.0.1:1/",
        }.items()
    ),
    *(Item("git server", what, _proxied(fault), _WEB) for fault, what in PROXY_FAULTS.items()),
    *(
        Item(
            "bucket",
            what,
            _bucket(tell),
            "clone-bucket push",
            unpacked=MOST_OF_AN_ANSWER if tell == _endless else 0,
        )
        for what, tell in _LIES.items()
    ),
    *(Item("host", what, _host(tell), "ci") for what, tell in _LIES.items()),
    *(
        Item("url", what, _named(url), "clone-web fetch push", may_open=("secret.txt",))
        for what, url in {
            "a program": "ext::sh -c {program}",
            "an option": "--upload-pack={program}",
            "an option of ssh": "ssh://-oProxyCommand={program}/x",
            "an option of ssh, short": "-oProxyCommand={program}:x",
            "a helper": "{program}::x",
            "a file of others": "file://{out}/secret.txt",
            "a line feed": "https://127.0.0.1:1/a\nb",
            "colours": "https://127.0.0.1:1/\x1b[31m\u202e",
        }.items()
    ),
]
