"""Sets of keys, by their hashes: some keys, or all but some.

Looking back through history, most rows of a table are never named: what has been found
is small, and what is still looked for is all the rest.
"""

from __future__ import annotations

from dataclasses import field

import numpy as np
import numpy.typing as npt

from havasu_vc.model.arrays import distinct
from havasu_vc.model.hashing import Hashes
from havasu_vc.records import dataclass

__all__ = ["ALL", "NONE", "KeySet"]


@dataclass(frozen=True, slots=True)
class KeySet:
    """Some keys, or all but some.

    >>> KeySet.of(np.array([1, 2], np.uint64)) & ALL - KeySet.of(np.array([2], np.uint64))
    KeySet(hashes=array([1], dtype=uint64), but=False)
    """

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    """Hashes of keys, ascending, each once."""
    but: bool = False
    """Whether it is all keys but these."""

    @classmethod
    def of(cls, hashes: Hashes) -> KeySet:
        """Return the set of some keys, given in any order."""
        return cls(distinct(hashes))

    @property
    def empty(self) -> bool:
        """Whether nothing is in it."""
        return not self.but and not len(self.hashes)

    def __invert__(self) -> KeySet:
        return KeySet(self.hashes, not self.but)

    def __and__(self, other: KeySet) -> KeySet:
        if self.but and other.but:
            return KeySet(_united(self.hashes, other.hashes), True)
        if self.but:
            return other & self
        inside = np.isin(self.hashes, other.hashes, assume_unique=True, invert=other.but)
        return KeySet(self.hashes[inside])

    def __or__(self, other: KeySet) -> KeySet:
        if not self.but and not other.but:
            return KeySet(_united(self.hashes, other.hashes))
        return ~(~self & ~other)

    def __sub__(self, other: KeySet) -> KeySet:
        return self & ~other

    def has(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return which keys are in it."""
        return np.isin(hashes, self.hashes, invert=self.but)


def _united(first: Hashes, second: Hashes) -> Hashes:
    return distinct(np.concatenate([first, second]))


NONE = KeySet()
"""No key."""
ALL = KeySet(but=True)
"""Every key."""
