"""Where the objects of a pack in the making are, and the index that says so to git.

Ids come one by one and are asked for as often. They gather in a dict, move to sorted
arrays in runs, and few runs are merged to larger ones, so that a million ids are 32 bytes
each. A bitmap of the first bits of ids answers for nearly all that are not there.

The index is of version 2: a fan-out of 256 counts, sorted ids, CRCs, offsets, two sha1s.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

__all__ = ["ObjectPlaces"]

RECENT = 1 << 15
"""Ids that the dict holds before they move to arrays."""
TOGETHER = (4, 16)
"""So many runs become one: fresh ones, and larger ones, of which merging takes more room."""

_LARGE = 1 << 31
_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_BITS = 25
_SHIFT = 32 - _BITS

_Run = tuple[npt.NDArray[np.bytes_], npt.NDArray[np.uint64], npt.NDArray[np.uint32]]
"""Sorted ids, the offset of each, its CRC."""


class ObjectPlaces:
    """Offsets and CRCs by object id."""

    def __init__(self) -> None:
        self._recent: dict[bytes, int] = {}
        self._checks = array("I")
        self._runs: list[_Run] = []
        self._settled = 0
        self._seen = bytearray(1 << _BITS - 3)

    def __len__(self) -> int:
        return self._settled + len(self._recent)

    def add(self, identity: bytes, offset: int, check: int) -> None:
        """Take in the place of an object that is not known yet."""
        self._recent[identity] = offset
        self._checks.append(check)
        if len(self._recent) >= RECENT:
            self._settle()

    def take(
        self,
        ids: npt.NDArray[np.bytes_],
        offsets: npt.NDArray[np.uint64],
        checks: npt.NDArray[np.uint32],
    ) -> None:
        """Take in the places of objects of which none is known yet, sorted by id."""
        self._mark(ids)
        self._runs.append((ids, offsets, checks))
        self._settled += len(ids)

    def find(self, identity: bytes) -> int | None:
        """Return the offset of an object, None where it is not known."""
        if (recent := self._recent.get(identity)) is not None:
            return recent
        bit = int.from_bytes(identity[:4]) >> _SHIFT
        if not self._seen[bit >> 3] >> (bit & 7) & 1:
            return None
        # An array of fixed-width bytes ignores trailing zeros on both sides alike.
        wanted = np.array(identity, "S20")
        for ids, offsets, _ in self._runs:
            place = int(np.searchsorted(ids, wanted))
            if place < len(ids) and ids[place] == wanted:
                return int(offsets[place])
        return None

    def index(self, checksum: bytes) -> Iterator[bytes]:
        """Yield, piece by piece, the index of the pack with this checksum; this ends the work."""
        self._settle()
        digest = hashlib.sha1()
        for part in self._parts(checksum):
            digest.update(part)
            yield part
        yield digest.digest()

    def _parts(self, checksum: bytes) -> Iterator[bytes]:
        """Yield the index but for its own sha1; ids are merged one first byte after the other."""
        yield _MAGIC
        yield sum(map(_ends, self._runs), np.zeros(256, np.int64)).astype(">u4").tobytes()
        places = np.zeros(self._settled, np.uint64)
        checks: list[bytes] = []
        done = 0
        if self._settled <= RECENT and self._runs:
            pieces: Iterable[_Run] = [_together(self._runs)]
        else:
            pieces = _by_first_byte(self._runs)
        for ids, offsets, sums in pieces:
            yield ids.tobytes()
            places[done : done + len(ids)] = offsets
            checks.append(sums.astype(">u4").tobytes())
            done += len(ids)
        self._runs.clear()
        yield from checks
        checks.clear()
        large = places >= _LARGE
        short = places.astype(np.uint32)
        short[large] = _LARGE + np.arange(np.count_nonzero(large), dtype=np.uint32)
        yield short.astype(">u4").tobytes()
        yield places[large].astype(">u8").tobytes()
        yield checksum

    def _settle(self) -> None:
        """Move the recent objects to a run, and merge runs where there are several of a size."""
        if not self._recent:
            return
        ids = np.array(list(self._recent), "S20")
        offsets = np.array(list(self._recent.values()), np.uint64)
        self._mark(ids)
        self._runs.append(_sorted((ids, offsets, np.array(self._checks, np.uint32))))
        self._settled += len(ids)
        self._recent, self._checks = {}, array("I")
        while count := self._alike():
            self._runs[-count:] = [_merged(self._runs[-count:])]

    def _alike(self) -> int:
        """Return how many of the last runs are to become one; they stand by size, large first."""
        for count in TOGETHER:
            last = [len(ids) for ids, _, _ in self._runs[-count:]]
            fresh = last[-1] <= RECENT
            if len(last) == count and last[0] < 2 * last[-1] and fresh == (count == TOGETHER[0]):
                return count
        return 0

    def _mark(self, ids: npt.NDArray[np.bytes_]) -> None:
        heads = np.ascontiguousarray(_raw(ids)[:, :4]).view(">u4").ravel()
        bits = (heads >> _SHIFT).astype(np.int64)
        seen = np.frombuffer(self._seen, np.uint8)
        np.bitwise_or.at(seen, bits >> 3, (1 << (bits & 7)).astype(np.uint8))


def _raw(ids: npt.NDArray[np.bytes_]) -> npt.NDArray[np.uint8]:
    return ids.view(np.uint8).reshape(-1, 20)


def _ends(run: _Run) -> npt.NDArray[np.int64]:
    """Return where the ids with each first byte end."""
    return np.cumsum(np.bincount(_raw(run[0])[:, 0], minlength=256))


def _by_first_byte(runs: Sequence[_Run]) -> Iterator[_Run]:
    """Yield what several runs hold, sorted, all of one first byte at a time."""
    if not runs:
        return
    ends = [_ends(run) for run in runs]
    for byte in range(256):
        parts = [slice(end[byte - 1] if byte else 0, end[byte]) for end in ends]
        pieces = list(zip(runs, parts, strict=True))
        ids = np.concatenate([run[0][part] for run, part in pieces])
        offsets = np.concatenate([run[1][part] for run, part in pieces])
        checks = np.concatenate([run[2][part] for run, part in pieces])
        yield _sorted((ids, offsets, checks))


def _together(runs: Sequence[_Run]) -> _Run:
    """Return few ids of several runs as one."""
    ids, offsets, checks = (np.concatenate(parts) for parts in zip(*runs, strict=True))
    return _sorted((ids, offsets, checks))


def _merged(runs: Sequence[_Run]) -> _Run:
    """Return several runs as one, without ever holding a third copy of all."""
    count = sum(len(run[0]) for run in runs)
    ids = np.empty(count, "S20")
    offsets = np.empty(count, np.uint64)
    checks = np.empty(count, np.uint32)
    done = 0
    for piece in _by_first_byte(runs):
        end = done + len(piece[0])
        ids[done:end], offsets[done:end], checks[done:end] = piece
        done = end
    return ids, offsets, checks


def _sorted(run: _Run) -> _Run:
    """Return a run in the order of its ids."""
    ids, offsets, checks = run
    # Numbers sort faster than bytes, and nearly always tell.
    heads = np.ascontiguousarray(_raw(ids)[:, :8]).view(">u8").ravel().astype(np.uint64)
    order = np.argsort(heads, kind="stable")
    ranked = heads[order]
    if (ranked[1:] == ranked[:-1]).any():
        order = np.argsort(ids, kind="stable")
    return ids[order], offsets[order], checks[order]
