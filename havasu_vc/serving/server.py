"""The server that `havasu-vc serve` starts: uvicorn on loopback, unless told otherwise.

How long a connection may take to ask for something.

A server that waits for ever for the rest of a request's headers is held by a client that sends
a byte now and then, or nothing. Bodies are waited for by the application, which takes them in.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp

from havasu_vc.errors import InvalidFileError, StorageError
from havasu_vc.records import dataclass
from havasu_vc.serving.application import app
from havasu_vc.serving.catalog import ServeSettings

__all__ = ["ServerAddress", "impatient", "listen", "run", "serve"]


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server listens."""

    host: str = "127.0.0.1"
    """The name or number of the machine as others see it."""
    port: int = 8181
    """The port; 0 takes one that is free."""
    certificate: Path | None = None
    """The file of the certificate, for TLS."""
    key: Path | None = None
    """The file of its key."""


def serve(
    path: Path | str,
    address: ServerAddress,
    settings: ServeSettings,
    *,
    started: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a repository until the process is told to stop; `started` hears the URL."""
    listening = listen(address)
    host = listening.getsockname()[0]
    application = app(path, replace(settings, loopback=ip_address(host).is_loopback))
    run(application, listening, address, started=started)


def run(
    application: ASGIApp,
    listening: socket.socket,
    address: ServerAddress,
    *,
    started: Callable[[str], None],
) -> None:
    """Let an application answer on a socket until the process is told to stop."""
    host, port = listening.getsockname()[:2]
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        timeout_keep_alive=30,
    )
    _load(config, address)
    config.http_protocol_class = impatient(config.http_protocol_class)
    scheme = "http" if address.certificate is None else "https"
    started(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    uvicorn.Server(config).run(sockets=[listening])


def _load(config: uvicorn.Config, address: ServerAddress) -> None:
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InvalidFileError(
            str(address.certificate), f"TLS cannot be set up with it ({error})"
        ) from error


def listen(address: ServerAddress) -> socket.socket:
    """Return a socket that listens."""
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        # asyncio sends answers at once only on sockets that say they are TCP's.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address.host, address.port))
        listening.listen(128)
        return listening
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"port {address.port} of {address.host} cannot be listened on: {reason}",
            hints=("choose another one: `--port`; 0 takes one that is free",),
        ) from error


SECONDS = 30.0
"""So long the headers of a request may take."""


def impatient(protocol: Callable[..., asyncio.Protocol]) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol of HTTP, which closes connections that ask for nothing."""

    def make(*arguments: Any, **keywords: Any) -> _Impatient:
        return _Impatient(protocol(*arguments, **keywords))

    return cast("type[asyncio.Protocol]", make)


class _Impatient(asyncio.Protocol):
    """Passes everything on, and looks whether a request is there in time."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)
        self._watch()

    def eof_received(self) -> bool | None:
        return cast("bool | None", self._inner.eof_received())

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        self._inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def _waits(self) -> bool:
        """Whether no request is there that is being answered."""
        cycle = self._inner.cycle
        return cycle is None or bool(cycle.response_complete)

    def _watch(self) -> None:
        if not self._waits():
            self._stop()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(SECONDS, self._give_up, self._inner.cycle)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self, cycle: object) -> None:
        self._timer = None
        # Another request may have come and gone, whose answer did not pass here.
        if self._transport is not None and self._inner.cycle is cycle and self._waits():
            self._transport.close()
