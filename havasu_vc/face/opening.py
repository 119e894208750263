"""The server that `havasu-vc open` starts, on loopback alone."""

from __future__ import annotations

from collections.abc import Callable

from havasu_vc.face.application import Face
from havasu_vc.face.guard import TOKEN, Guard
from havasu_vc.library import Repo
from havasu_vc.serving.server import ServerAddress, listen, run

__all__ = ["open_face"]


def open_face(open_repo: Callable[[], Repo], port: int, *, started: Callable[[str], None]) -> None:
    """Show a repository until the process is told to stop; `started` hears the address."""
    address = ServerAddress("127.0.0.1", port)
    listening = listen(address)
    guard = Guard(listening.getsockname()[1])
    token = guard.new_token()
    run(
        Face(open_repo, guard),
        listening,
        address,
        started=lambda url: started(f"{url}/?{TOKEN}={token}"),
    )
