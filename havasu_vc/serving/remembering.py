"""Results of earlier work, as far as there is room: the oldest goes first.

What clients were told of stays; of the rest as much as there is room for.

    <data folder>/catalog/tables    manifests and deletes of datasets' versions
    <data folder>/catalog/feeds     changes of commits

All of it can be made again. So what was handed out is noted now and then, which also shows
whether it is still there, and where too much has gathered the oldest goes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from havasu_vc.errors import HavasuError, StorageError
from havasu_vc.store.room import make_room, want

if TYPE_CHECKING:
    from havasu_vc.serving.shared_place import SharedPlace

__all__ = ["MOST_BYTES", "Remembered", "Wanted"]

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class Remembered(Generic[_K, _V]):
    """Values by key, for all threads."""

    def __init__(self, most: int, size: Callable[[_V], int] = lambda _: 1) -> None:
        """Keep as many as together have a size."""
        self._most, self._size = most, size
        self._values: OrderedDict[_K, _V] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()
        self._making: dict[_K, threading.Lock] = {}

    def get(self, key: _K) -> _V | None:
        """Return a value that is remembered."""
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: _K, value: _V) -> None:
        """Remember a value."""
        with self._lock:
            old = self._values.pop(key, None)
            self._held += self._size(value) - (0 if old is None else self._size(old))
            self._values[key] = value
            while self._held > self._most and len(self._values) > 1:
                self._held -= self._size(self._values.popitem(last=False)[1])

    def forget(self) -> None:
        """Remember nothing any more."""
        with self._lock:
            self._values.clear()
            self._held = 0

    def made(self, key: _K, make: Callable[[], _V]) -> _V:
        """Return the value of a key, made by whoever asks for it first; others wait for it."""
        found = self.get(key)
        if found is not None:
            return found
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            found = self.get(key)
            if found is None:
                found = make()
                self.put(key, found)
        with self._lock:
            self._making.pop(key, None)
        return found


MOST_BYTES = 1 << 30
"""So much of it is kept, unless the repository says otherwise."""
NOTED_SECONDS = 600.0
"""A result that is handed out again and again is noted so often."""
SWEPT_AFTER = 256
"""Tables that are made until somebody looks how much there is."""
_MOST_NOTED = 10_000
_log = logging.getLogger("havasu_vc.serving")


class Derived(Protocol):
    """A table of which documents were derived."""

    @property
    def location(self) -> str:
        """Where clients are told that it is."""

    @property
    def files(self) -> Sequence[str]:
        """The documents, as paths."""


_D = TypeVar("_D", bound=Derived)


class Wanted:
    """Notes which tables clients were told of, and drops what nobody asked for."""

    def __init__(self, root: Path, most: int = MOST_BYTES) -> None:
        """Look after what is derived below a folder."""
        self.root, self.most = root, most
        self.shared: SharedPlace | None = None
        """Where clients see what is told of, if not here."""
        self._noted: dict[str, float] = {}
        self._made = 0
        self._sweeping = threading.Lock()

    def told(self, find: Callable[[], _D], forget: Callable[[], None]) -> _D:
        """Return a table whose documents are there, and stay for a while.

        `forget` makes what finds the table work out everything anew.
        """
        for _ in range(3):
            table = find()
            now = time.monotonic()
            noted = self._noted.get(table.location)
            if noted is not None and now - noted < NOTED_SECONDS:
                return table
            if want(self.root, table.files):
                if self.shared is not None:
                    self.shared.send(table.files)
                if len(self._noted) >= _MOST_NOTED:
                    self._noted.clear()
                self._noted[table.location] = now
                self._count(first=noted is None)
                return table
            forget()
        raise StorageError("what the catalog derives goes as fast as it is made")

    def _count(self, *, first: bool) -> None:
        self._made += first
        if self._made >= SWEPT_AFTER:
            self._made = 0
            threading.Thread(target=self.sweep, name="havasu-vc-sweep", daemon=True).start()

    def sweep(self) -> None:
        """Drop what is too much; another thread or server may be at it."""
        if not self._sweeping.acquire(blocking=False):
            return
        try:
            make_room(self.root, self.most)
        except HavasuError as error:
            _log.warning("%s", error.message)
        finally:
            self._sweeping.release()
