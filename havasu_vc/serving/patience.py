"""How long a connection may take to ask for something.

A server that waits for ever for the rest of a request's headers is held by a client that sends
a byte now and then, or nothing. Bodies are waited for by the application, which takes them in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

__all__ = ["impatient"]

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
