"""The server that `havasu-vc serve` starts: uvicorn on loopback, unless told otherwise."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from havasu_vc.errors import StorageError
from havasu_vc.records import dataclass
from havasu_vc.serving.application import app
from havasu_vc.serving.catalog import ServeSettings

__all__ = ["Address", "serve"]


@dataclass(frozen=True, slots=True)
class Address:
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
    address: Address,
    settings: ServeSettings,
    *,
    started: Callable[[str], None] = lambda url: None,
) -> None:
    """Serve a repository until the process is told to stop; `started` hears the URL."""
    application = app(path, settings)
    listening = _listen(address)
    config = uvicorn.Config(
        application,
        log_level="warning",
        access_log=False,
        server_header=False,
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        timeout_keep_alive=30,
    )
    scheme = "http" if address.certificate is None else "https"
    host, port = listening.getsockname()[:2]
    started(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    uvicorn.Server(config).run(sockets=[listening])


def _listen(address: Address) -> socket.socket:
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(
            f"port {address.port} of {address.host} cannot be listened on: {reason}",
            hints=("choose another one: `--port`; 0 takes one that is free",),
        ) from error
