"""Where the objects of a pack in the making are, and the index that says so to git.

Ids come one by one and are asked for as often. They gather in a dict and move to sorted arrays
in runs; few runs are merged to a larger one, which is put away in a file, so that memory holds
some ten thousands of ids however many there are. A bitmap of the first bits of ids answers for
nearly all that are not there.

The index is of version 2: a fan-out of 256 counts, sorted ids, CRCs, offsets, two sha1s.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from havasu_vc.store.spill import Spill

__all__ = ["ObjectPlaces"]

RECENT = 1 << 14
"""Ids that the dict holds before they move to arrays: 2 MB, and as much while they do."""
FEW = 1 << 16
"""Ids that are looked for in arrays alone: clearing the bitmap takes longer."""
TOGETHER = (8, 16)
"""So many runs become one: those in memory, and those on disk, which are written again."""
BLOCK = 1 << 15
"""Ids of which a part of the index is made at once."""
NEAR = 32
"""About so many ids of a run on disk are read to find one."""

_LARGE = 1 << 31
_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_BITS = 25
_SHIFT = 32 - _BITS
_ID, _OFFSET, _CHECK = 20, 8, 4

_Ids = npt.NDArray[np.bytes_]
_Counts = npt.NDArray[np.int64]


class ObjectPlaces:
    """Offsets and CRCs by object id."""

    def __init__(self) -> None:
        self._recent: dict[bytes, int] = {}
        self._checks = array("I")
        self._runs: list[_Run] = []
        self._spill: Spill | None = None
        self._settled = 0
        self._seen: bytearray | None = None

    def __len__(self) -> int:
        return self._settled + len(self._recent)

    def add(self, identity: bytes, offset: int, check: int) -> None:
        """Take in the place of an object that is not known yet."""
        self._recent[identity] = offset
        self._checks.append(check)
        if len(self._recent) >= RECENT:
            self._settle()

    def add_all(
        self, identities: Sequence[bytes], offsets: Sequence[int], checks: Iterable[int]
    ) -> None:
        """Take in the places of many objects that are not known yet."""
        self._recent.update(zip(identities, offsets, strict=True))
        self._checks.extend(checks)
        if len(self._recent) >= RECENT:
            self._settle()

    def fresh(self, identities: Sequence[bytes]) -> dict[bytes, int]:
        """Return which objects are not known, in their order: each one's first position."""
        found: dict[bytes, int] = {}
        recent = self._recent
        for at, identity in enumerate(identities):
            if identity not in recent:
                found.setdefault(identity, at)
        if not found or not self._settled:
            return found
        perhaps = list(found)
        if self._seen is not None:
            bits = _bits(np.array(perhaps, "S20"))
            marked = np.frombuffer(self._seen, np.uint8)[bits >> 3] >> (bits & 7) & 1
            perhaps = [perhaps[place] for place in np.flatnonzero(marked).tolist()]
        for identity in perhaps:
            if self.find(identity) is not None:
                del found[identity]
        return found

    def take(
        self,
        ids: _Ids,
        offsets: npt.NDArray[np.uint64],
        checks: npt.NDArray[np.uint32],
    ) -> None:
        """Take in the places of objects of which none is known yet, sorted by id."""
        self._keep(_Places(ids, offsets, checks))

    def find(self, identity: bytes) -> int | None:
        """Return the offset of an object, None where it is not known."""
        if (recent := self._recent.get(identity)) is not None:
            return recent
        if self._seen is not None:
            bit = int.from_bytes(identity[:4]) >> _SHIFT
            if not self._seen[bit >> 3] >> (bit & 7) & 1:
                return None
        for run in self._runs:
            if (offset := run.find(identity)) is not None:
                return offset
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
        """Yield the index but for its own sha1; each of its sections is all objects in turn."""
        run = self._whole()
        yield _MAGIC
        yield run.ends().astype(">u4").tobytes()
        blocks = [
            (start, min(start + BLOCK, self._settled)) for start in range(0, self._settled, BLOCK)
        ]
        yield from (run.ids_of(*block).tobytes() for block in blocks)
        yield from (run.checks_of(*block).astype(">u4").tobytes() for block in blocks)
        # What a signed number cannot hold stands in a table of its own, and here its row there.
        beyond = 0
        for block in blocks:
            offsets = run.offsets_of(*block)
            large = offsets >= _LARGE
            short = offsets.astype(np.uint32)
            count = int(np.count_nonzero(large))
            short[large] = _LARGE + beyond + np.arange(count, dtype=np.uint32)
            beyond += count
            yield short.astype(">u4").tobytes()
        for block in blocks if beyond else ():
            offsets = run.offsets_of(*block)
            yield offsets[offsets >= _LARGE].astype(">u8").tobytes()
        yield checksum

    def _whole(self) -> _Run:
        """Return all that there is as one run."""
        runs, self._runs = self._runs, []
        if len(runs) == 1:
            return runs[0]
        if self._settled <= FEW:
            return _together([_NOTHING, *(run.part(0, len(run)) for run in runs)])
        return self._merged(runs)

    def _settle(self) -> None:
        """Move the recent objects to a run, and merge runs where there are several of a size."""
        if not self._recent:
            return
        ids = np.array(list(self._recent), "S20")
        offsets = np.array(list(self._recent.values()), np.uint64)
        self._keep(_sorted(ids, offsets, np.array(self._checks, np.uint32)))
        self._recent, self._checks = {}, array("I")
        while count := self._alike():
            self._runs[-count:] = [self._merged(self._runs[-count:])]

    def _keep(self, run: _Places) -> None:
        self._mark(run.ids)
        self._runs.append(run)
        self._settled += len(run)

    def _alike(self) -> int:
        """Return how many of the last runs are to become one; they stand by size, large first."""
        for count, kind in zip(TOGETHER, (_Places, _PutAway), strict=True):
            last = self._runs[-count:]
            alike = len(last) == count and len(last[0]) < 2 * len(last[-1])
            if alike and all(isinstance(run, kind) for run in last):
                return count
        return 0

    def _merged(self, runs: Sequence[_Run]) -> _Run:
        self._spill = self._spill or Spill("havasu-places-")
        return _PutAway(self._spill, runs)

    def _mark(self, ids: _Ids) -> None:
        if self._seen is None:
            if self._settled + len(ids) <= FEW:
                return
            self._seen = bytearray(1 << _BITS - 3)
            for run in self._runs:
                self._mark(run.ids_of(0, len(run)))
        bits = _bits(ids)
        seen = np.frombuffer(self._seen, np.uint8)
        np.bitwise_or.at(seen, bits >> 3, (1 << (bits & 7)).astype(np.uint8))


class _Run(Protocol):
    """Objects in the order of their ids."""

    def __len__(self) -> int: ...

    def find(self, identity: bytes) -> int | None:
        """Return the offset of an object, None where it is not here."""

    def ends(self) -> _Counts:
        """Return where the ids with each first byte end."""

    def ids_of(self, start: int, stop: int) -> _Ids:
        """Return some of the ids."""

    def offsets_of(self, start: int, stop: int) -> npt.NDArray[np.uint64]:
        """Return the offset of each."""

    def checks_of(self, start: int, stop: int) -> npt.NDArray[np.uint32]:
        """Return the CRC of each."""

    def part(self, start: int, stop: int) -> _Places:
        """Return some of the objects."""


class _Places:
    """A run in memory."""

    __slots__ = ("_looked", "checks", "ids", "offsets")

    def __init__(
        self, ids: _Ids, offsets: npt.NDArray[np.uint64], checks: npt.NDArray[np.uint32]
    ) -> None:
        self.ids = ids
        self.offsets = offsets
        self.checks = checks
        self._looked: tuple[bytes, list[int]] | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, identity: bytes) -> int | None:
        if self._looked is None:
            # For a single id a search of bytes takes a fifth of what one of an array does.
            self._looked = self.ids.tobytes(), self.ends().tolist()
        ids, ends = self._looked
        head = identity[0]
        at, stop = _ID * ends[head - 1] if head else 0, _ID * ends[head]
        at = ids.find(identity, at, stop)
        while at % _ID and at != -1:  # the end of one id and the beginning of the next
            at = ids.find(identity, at + 1, stop)
        return None if at == -1 else int(self.offsets[at // _ID])

    def ends(self) -> _Counts:
        return np.cumsum(np.bincount(_raw(self.ids)[:, 0], minlength=256))

    def ids_of(self, start: int, stop: int) -> _Ids:
        return self.ids[start:stop]

    def offsets_of(self, start: int, stop: int) -> npt.NDArray[np.uint64]:
        return self.offsets[start:stop]

    def checks_of(self, start: int, stop: int) -> npt.NDArray[np.uint32]:
        return self.checks[start:stop]

    def part(self, start: int, stop: int) -> _Places:
        return _Places(self.ids[start:stop], self.offsets[start:stop], self.checks[start:stop])


_NOTHING = _Places(np.zeros(0, "S20"), np.zeros(0, np.uint64), np.zeros(0, np.uint32))


class _PutAway:
    """A run on disk: all ids, all offsets, all CRCs. Memory has where the ids of each head end."""

    def __init__(self, spill: Spill, runs: Sequence[_Run]) -> None:
        """Put several runs away as one, which is made one first byte after the other."""
        count = sum(map(len, runs))
        self._spill = spill
        self._count = count
        self._starts = tuple(spill.room(size * count) for size in (_ID, _OFFSET, _CHECK))
        self._shift = 32 - max(8, (count // NEAR).bit_length())
        self._ends: _Counts = np.zeros(1 << 32 - self._shift, np.int64)
        ends = [run.ends() for run in runs]
        done = 0
        for byte in range(256):
            bounds = [(int(end[byte - 1]) if byte else 0, int(end[byte])) for end in ends]
            parts = [run.part(*bound) for run, bound in zip(runs, bounds, strict=True)]
            done = self._write(byte, done, _together(parts))

    def _write(self, byte: int, done: int, part: _Places) -> int:
        """Write the objects whose ids begin with a byte, and return how many there are by then."""
        ids, offsets, checks = self._starts
        self._spill.write(ids + _ID * done, part.ids.tobytes())
        self._spill.write(offsets + _OFFSET * done, part.offsets.tobytes())
        self._spill.write(checks + _CHECK * done, part.checks.tobytes())
        width = len(self._ends) // 256
        heads = (_heads(part.ids) >> self._shift) - byte * width
        counts = np.bincount(heads, minlength=width)
        self._ends[byte * width : (byte + 1) * width] = done + np.cumsum(counts)
        return done + len(part)

    def __len__(self) -> int:
        return self._count

    def find(self, identity: bytes) -> int | None:
        head = int.from_bytes(identity[:4]) >> self._shift
        start, stop = int(self._ends[head - 1]) if head else 0, int(self._ends[head])
        near = self._read(0, _ID, start, stop)
        at = near.find(identity)
        while at % _ID and at != -1:  # the end of one id and the beginning of the next
            at = near.find(identity, at + 1)
        if at == -1:
            return None
        place = start + at // _ID
        return int(self.offsets_of(place, place + 1)[0])

    def ends(self) -> _Counts:
        width = len(self._ends) // 256
        return self._ends[width - 1 :: width]

    def ids_of(self, start: int, stop: int) -> _Ids:
        return np.frombuffer(self._read(0, _ID, start, stop), "S20")

    def offsets_of(self, start: int, stop: int) -> npt.NDArray[np.uint64]:
        return np.frombuffer(self._read(1, _OFFSET, start, stop), np.uint64)

    def checks_of(self, start: int, stop: int) -> npt.NDArray[np.uint32]:
        return np.frombuffer(self._read(2, _CHECK, start, stop), np.uint32)

    def part(self, start: int, stop: int) -> _Places:
        bounds = (start, stop)
        return _Places(self.ids_of(*bounds), self.offsets_of(*bounds), self.checks_of(*bounds))

    def _read(self, section: int, size: int, start: int, stop: int) -> bytes:
        return self._spill.read(self._starts[section] + size * start, size * (stop - start))


def _raw(ids: _Ids) -> npt.NDArray[np.uint8]:
    return ids.view(np.uint8).reshape(-1, _ID)


def _heads(ids: _Ids) -> _Counts:
    """Return the first four bytes of each id as a number."""
    return np.ascontiguousarray(_raw(ids)[:, :4]).view(">u4").ravel().astype(np.int64)


def _bits(ids: _Ids) -> _Counts:
    """Return the place of each id in the bitmap."""
    return _heads(ids) >> _SHIFT


def _together(parts: Sequence[_Places]) -> _Places:
    """Return few objects of several runs as one."""
    return _sorted(
        np.concatenate([part.ids for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.checks for part in parts]),
    )


def _sorted(ids: _Ids, offsets: npt.NDArray[np.uint64], checks: npt.NDArray[np.uint32]) -> _Places:
    """Return objects in the order of their ids."""
    # Numbers sort faster than bytes, and nearly always tell.
    heads = np.ascontiguousarray(_raw(ids)[:, :8]).view(">u8").ravel().astype(np.uint64)
    order = np.argsort(heads, kind="stable")
    ranked = heads[order]
    if (ranked[1:] == ranked[:-1]).any():
        order = np.argsort(ids, kind="stable")
    return _Places(ids[order], offsets[order], checks[order])
