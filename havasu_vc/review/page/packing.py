"""Numbers and text of a page as few bytes, in a form that a browser takes in without parsing.

Everything is laid one after another and deflated as one; a part is known by where it
begins and how long it is. Numbers are 32 bits wide, cut into four planes of bytes, so
that high bytes, which are mostly alike, stand together; those that grow slowly are kept
as differences. Text is UTF-8; the lengths beside it count UTF-16, as scripts do.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from havasu_vc.model import compute as pc

__all__ = ["Packer", "Part", "Wide", "sound_texts", "text_parts"]

Part: TypeAlias = tuple[int, int]
"""Where something begins and how much of it there is: numbers, or bytes of text."""
Wide: TypeAlias = tuple[Part, Part | None]
"""Where the halves of wide numbers are; no higher ones where all of these are 0."""
Ints: TypeAlias = npt.NDArray[np.int64]


class Packer:
    """Lays parts one after another."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(6)
        self._packed: list[bytes] = []
        self._size = 0

    def raw(self, data: bytes) -> Part:
        """Add bytes as they are."""
        start = self._size
        self._packed.append(self._deflate.compress(data))
        self._size += len(data)
        return start, len(data)

    def text(self, pieces: Sequence[bytes]) -> Part:
        """Add pieces of text as one; how much is counted in bytes."""
        start = self._size
        for piece in pieces:
            self.raw(piece)
        return start, self._size - start

    def numbers(self, values: npt.NDArray[Any]) -> Part:
        """Add numbers of at most 32 bits; floats keep 32."""
        kind = np.float32 if values.dtype.kind == "f" else np.uint32
        words = np.ascontiguousarray(values.astype(kind, copy=False)).view(np.uint8)
        start, _ = self.raw(np.ascontiguousarray(words.reshape(-1, 4).T).tobytes())
        return start, len(values)

    def differences(self, values: npt.NDArray[Any], of: Ints | None = None) -> Part:
        """Add numbers of at most 32 bits, signed or not, each as its distance from another.

        That is the one of index `of`, always an earlier one; from 0 where it is negative. Left
        out, it is the last one.
        """
        words = values.astype(np.int64).astype(np.uint32)
        if of is None:
            of = np.arange(len(words)) - 1
        steps = (words - np.where(of < 0, np.uint32(0), words[of])).view(np.int32)
        return self.numbers(((steps << 1) ^ (steps >> 31)).view(np.uint32))

    def wide(self, values: npt.NDArray[np.int64]) -> Wide:
        """Add signed numbers of 64 bits, the lower halves of all of them first."""
        words = ((values << 1) ^ (values >> 63)).view(np.uint64)
        high = (words >> np.uint64(32)).astype(np.uint32)
        return self.numbers(words.astype(np.uint32)), self.numbers(high) if high.any() else None

    def finish(self) -> str:
        """Return everything, deflated, in base64."""
        self._packed.append(self._deflate.flush())
        return base64.b64encode(b"".join(self._packed)).decode("ascii")


def text_parts(texts: pa.Array) -> tuple[bytes, Ints]:
    """Return texts, none of them null, as one text and the length of each in UTF-16.

    Those that are no `large_string` yet may hold other bytes than UTF-8, which are replaced.

    >>> content, lengths = text_parts(pa.array(["a", "", "é𝄞"]))
    >>> content.decode(), lengths.tolist()
    ('aé𝄞', [1, 0, 3])
    """
    if texts.type != pa.large_string():
        texts = sound_texts(texts)
    _, offset_buffer, data_buffer = texts.buffers()
    if not len(texts) or data_buffer is None:
        return b"", np.zeros(len(texts), np.int64)
    offsets = np.frombuffer(offset_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    content = data.tobytes()
    if content.isascii():
        return content, np.diff(offsets)
    # A byte that begins a character counts one unit, one that begins a long one two.
    units = ((data & 0xC0) != 0x80).astype(np.int64) + (data >= 0xF0)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(units)])
    return content, np.diff(ends[offsets - offsets[0]])


def sound_texts(texts: pa.Array) -> pa.Array:
    """Return texts, none of them null, whose bytes are UTF-8; others are replaced."""
    texts = pc.cast(texts, pa.large_binary())
    try:
        found = pc.cast(texts, pa.large_string())
        found.validate(full=True)
    except pa.ArrowInvalid:
        return _replaced(texts)
    return found


def _replaced(texts: pa.Array) -> pa.Array:
    sound = [value.decode("utf-8", "replace") for value in texts.to_pylist()]
    return pa.array(sound, pa.large_string())
