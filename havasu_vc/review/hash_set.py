"""Which hashes of a stream came before, a batch at a time.

Sorted runs, of which two of a size become one: a batch is looked up in a few runs, however
many batches there were, and each hash is sorted a few times. Runs of a million hashes stay
as they are, since joining larger ones would take as much memory again as all of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from havasu_vc.model.hashing import Hashes

__all__ = ["HashSet"]

MOST = 8_000_000
"""Hashes that are kept, 64 MB; what comes later is only compared with them."""
LONGEST = 1 << 20
"""Hashes of a run, beyond which it is not joined with others."""


class HashSet:
    """The hashes seen so far."""

    def __init__(self, most: int = MOST) -> None:
        self._runs: list[Hashes] = []
        self._left = most

    def add(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return which hashes came before, in this batch or in one before, and keep them."""
        run, first = np.unique(hashes, return_index=True)
        again = np.ones(len(hashes), np.bool_)
        again[first] = False
        for known in self._runs:
            places = np.minimum(np.searchsorted(known, hashes), len(known) - 1)
            again |= known[places] == hashes
        if len(run) and self._left >= len(run):
            self._left -= len(run)
            while self._runs and len(self._runs[-1]) <= min(2 * len(run), LONGEST - len(run)):
                run = np.union1d(self._runs.pop(), run)
            self._runs.append(run)
        return again
