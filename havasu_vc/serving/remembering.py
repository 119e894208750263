"""What was worked out before, as far as there is room: the oldest goes first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Remembered"]

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
