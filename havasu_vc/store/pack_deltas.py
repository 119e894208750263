"""What a tree differs in from the one before, as packs have it.

A delta (gitformat-pack) begins with both sizes; then `1xxxxxxx` copies a piece of the
base, its offset and size in the bytes that follow as far as they are not zero, and `0nnnnnnn`
inserts the n bytes that follow. Two versions of a folder of many files have long pieces in
common in one order, so it is enough to go along both.
"""

from __future__ import annotations

__all__ = ["tree_delta"]

_ANCHOR = 24
"""Bytes by which both sides are found to agree again: a name and half of an id."""
_PIECE = 1 << 10
"""Bytes that are compared at once."""
_NEAR = 1 << 12
"""How far ahead they are looked for."""
_SKIPS = (0, 20, 40, 80, 160, 320, 640, 1280)
_MOST_COPIED, _MOST_INSERTED = 0xFFFF, 127


def tree_delta(base: bytes, target: bytes, most: int) -> bytes | None:
    """Return the delta that makes `target` of `base`; None where it has over `most` bytes."""
    made = bytearray(_size(len(base)) + _size(len(target)))
    here = there = 0
    while there < len(target):
        same = _common(base, here, target, there)
        _copy(made, here, same)
        here, there = here + same, there + same
        if there == len(target):
            break
        here, after = _agreeing(base, here, target, there)
        _insert(made, target[there:after])
        there = after
        if len(made) > most:
            return None
    return bytes(made) if len(made) <= most else None


def _common(base: bytes, here: int, target: bytes, there: int) -> int:
    """Return how many bytes are the same from two places on."""
    most, low = min(len(base) - here, len(target) - there), 0
    while low < most:
        first = base[here + low : here + min(low + _PIECE, most)]
        second = target[there + low : there + min(low + _PIECE, most)]
        if first != second:
            # The highest bit that differs is in the first byte that does.
            differing = int.from_bytes(first) ^ int.from_bytes(second)
            return low + len(first) - (differing.bit_length() + 7) // 8
        low += _PIECE
    return most


def _agreeing(base: bytes, here: int, target: bytes, there: int) -> tuple[int, int]:
    """Return where both sides agree again, soon after they did not; else the end of the target."""
    for skip in _SKIPS:
        anchor = base[here + skip : here + skip + _ANCHOR]
        if len(anchor) < _ANCHOR:
            break
        found = target.find(anchor, there, there + _NEAR)
        if found >= 0:
            return here + skip, found
    return here, len(target)


def _copy(made: bytearray, offset: int, size: int) -> None:
    while size:
        piece = min(size, _MOST_COPIED)
        at, flags = len(made), 0x80
        made.append(0)
        for bit, byte in enumerate((*offset.to_bytes(4, "little"), *piece.to_bytes(3, "little"))):
            if byte:
                flags |= 1 << bit
                made.append(byte)
        made[at] = flags
        offset, size = offset + piece, size - piece


def _insert(made: bytearray, data: bytes) -> None:
    for start in range(0, len(data), _MOST_INSERTED):
        piece = data[start : start + _MOST_INSERTED]
        made.append(len(piece))
        made += piece


def _size(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    found.append(number)
    return bytes(found)
