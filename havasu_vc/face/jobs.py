"""Long work while it lasts: how far it is, and an end to it when nobody wants it any more.

A request may name itself by the header `x-havasu-job`. While it is answered, another may ask how
far it is, or cancel it: the work then ends at its next step, as one that failed there does, and
leaves all as it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from havasu_vc.errors import InvalidArgumentError

__all__ = ["JOB", "CancelledError", "Job", "Jobs"]

JOB = "x-havasu-job"
LONGEST = 64
MOST = 200


class CancelledError(Exception):
    """Work was told to end: no error, so none of the tree's."""


class Job:
    """One request that is being answered; hears of progress from the engine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = time.monotonic()
        self._total = self._done = 0
        self._description = ""
        self._bytes = self._ends = False

    def start(self, total_tasks: int, description: str, *, in_bytes: bool = False) -> None:
        """Hear that a run of so many tasks begins."""
        with self._lock:
            self._total, self._done, self._bytes = total_tasks, 0, in_bytes
            self._description = description
        self._check()

    def advance(self, tasks: int) -> None:
        """Hear that so many more tasks are done."""
        with self._lock:
            self._done += tasks
        self._check()

    def finish(self) -> None:
        """Hear that a run is over."""

    def cancel(self) -> None:
        """End the work at its next step."""
        with self._lock:
            self._ends = True

    def _check(self) -> None:
        if self._ends:
            raise CancelledError("this was cancelled; all is as it was")

    def value(self) -> dict[str, Any]:
        """Return how far the work is."""
        with self._lock:
            return {
                "what": self._description,
                "done": self._done,
                "total": self._total,
                "bytes": self._bytes,
                "seconds": round(time.monotonic() - self._since, 1),
            }


class Jobs:
    """The requests that are being answered, by the name that they gave themselves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Job] = {}

    @contextmanager
    def running(self, name: str) -> Iterator[Job]:
        """Know a request while it is answered; one without a name is known to nobody."""
        if len(name) > LONGEST or not name.isascii():
            raise InvalidArgumentError("the name of a job is a short text")
        job = Job()
        with self._lock:
            if name in self._known or len(self._known) >= MOST:
                raise InvalidArgumentError("there is a job of that name")
            if name:
                self._known[name] = job
        try:
            yield job
        finally:
            with self._lock:
                self._known.pop(name, None)

    def value(self, name: str) -> dict[str, Any] | None:
        """Return how far a job is; None where it is done, or waits for its turn."""
        with self._lock:
            job = self._known.get(name)
        return None if job is None else job.value()

    def cancel(self, name: str) -> bool:
        """End a job; return whether it was under way."""
        with self._lock:
            job = self._known.get(name)
        if job is not None:
            job.cancel()
        return job is not None
