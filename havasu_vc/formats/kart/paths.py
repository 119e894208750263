"""Where features stand: from keys to paths below `feature/`, and back.

A feature's file is named by its key: URL-safe base64 of the msgpack of the key's values.
The folders before it spread files out. In the `int` scheme they are the digits of the
key itself, so that neighbours stand together; in `msgpack/hash` they are the first bits
of a hash. Without a `path-structure.json`, it is the one that V2 has.

>>> INT.paths([[77, -1]])
([b'A/A/A/B', b'_/_/_/_'], [b'kU0=', b'kf8='])
>>> LEGACY.paths([[77]])
([b'3c/57'], [b'kU0='])
"""

from __future__ import annotations

import hashlib
import json
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.model.schema import Schema
from havasu_vc.model.types import is_whole
from havasu_vc.records import dataclass

__all__ = [
    "GENERAL",
    "INT",
    "LEGACY",
    "KeyColumns",
    "PathStructure",
    "format_path_structure",
    "parse_keys",
    "parse_path_structure",
    "parse_whole_keys",
    "path_structure_of",
]

KeyColumns = Sequence[Sequence[Any]]
"""Keys as columns: the first value of each, the second, and so on."""

_URL_SAFE = bytes.maketrans(b"+/", b"-_")
_STANDARD = bytes.maketrans(b"-_", b"+/")
_BASE64 = np.frombuffer(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8
)
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)
_MOST_LEVELS = 20
_MOST_NAME = 1 << 16


@dataclass(frozen=True, slots=True)
class PathStructure:
    """How keys become folders."""

    scheme: str
    """`int` or `msgpack/hash`."""
    branches: int
    """How many folders a folder may hold."""
    levels: int
    """How deep folders nest."""
    encoding: str
    """`base64`, or `hex` with 16 or 256 branches."""

    @property
    def width(self) -> int:
        """Bytes in the name of a folder."""
        return 2 if self.branches == 256 else 1

    def paths(self, keys: KeyColumns) -> tuple[list[bytes], list[bytes]]:
        """Return the folder and the file name of each key."""
        pack = msgpack.Packer().pack
        packed = [pack(key) for key in zip(*keys, strict=True)]
        if not packed:
            return [], []
        folders: list[bytes] = self._folders(keys[0], packed).tolist()
        return folders, _names(packed)

    def folders_of_whole(self, keys: Sequence[int] | npt.NDArray[np.int64]) -> list[bytes]:
        """Return the folder of each key of the scheme `int`."""
        digits = self._int_digits(keys)
        folders: list[bytes] = self._spelled(digits).tolist() if len(digits) else []
        return folders

    def _folders(self, keys: Sequence[Any], packed: Sequence[bytes]) -> npt.NDArray[np.bytes_]:
        if self.scheme == "int":
            digits = self._int_digits(keys)
        else:
            sha256 = hashlib.sha256
            joined = b"".join([sha256(each).digest() for each in packed])
            digits = self._bit_digits(np.frombuffer(joined, np.uint8).reshape(-1, 32))
        return self._spelled(digits)

    def _int_digits(self, values: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        try:
            numbers = np.array(values, np.int64) // self.branches
        except OverflowError:
            numbers = np.array([value // self.branches % (1 << 60) for value in values], np.int64)
        digits = np.empty((len(values), self.levels), np.int64)
        for level in range(self.levels - 1, -1, -1):
            digits[:, level] = numbers % self.branches
            numbers //= self.branches
        return digits

    def _bit_digits(self, hashes: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
        size = self.branches.bit_length() - 1
        bits = np.unpackbits(hashes[:, : (size * self.levels + 7) // 8], axis=1)
        bits = bits[:, : size * self.levels].reshape(-1, self.levels, size)
        weights = 1 << np.arange(size - 1, -1, -1)
        found: npt.NDArray[np.int64] = bits.astype(np.int64) @ weights
        return found

    def _spelled(self, digits: npt.NDArray[np.int64]) -> npt.NDArray[np.bytes_]:
        width = self.width
        text = np.full((len(digits), self.levels, width + 1), ord("/"), np.uint8)
        if self.encoding == "base64":
            text[:, :, 0] = _BASE64[digits]
        elif width == 1:
            text[:, :, 0] = _HEX[digits]
        else:
            text[:, :, 0], text[:, :, 1] = _HEX[digits >> 4], _HEX[digits & 15]
        length = self.levels * (width + 1) - 1
        flat = np.ascontiguousarray(text.reshape(len(digits), -1)[:, :length])
        spelled: npt.NDArray[np.bytes_] = flat.view(f"S{length}").ravel()
        return spelled


INT = PathStructure("int", 64, 4, "base64")
"""For a key that is one whole number."""
GENERAL = PathStructure("msgpack/hash", 64, 4, "base64")
"""For any other key."""
LEGACY = PathStructure("msgpack/hash", 256, 2, "hex")
"""The structure of V2, and of a dataset without `path-structure.json`."""


def path_structure_of(schema: Schema) -> PathStructure:
    """Return the structure that Kart chooses for a new dataset."""
    fields = schema.key.fields
    whole = len(fields) == 1 and is_whole(fields[0].type)
    return INT if whole else GENERAL


def format_path_structure(structure: PathStructure) -> bytes:
    """Return the document of a structure."""
    return json.dumps(asdict(structure)).encode()


def parse_path_structure(data: bytes | None, schema: Schema, where: str) -> PathStructure:
    """Return the structure that a document says, or the legacy one where there is none."""
    if data is None:
        return LEGACY
    try:
        value = json.loads(data)
        structure = PathStructure(
            value["scheme"], value["branches"], value["levels"], value["encoding"]
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptDatasetError(where, "it is not a path structure") from error
    reason = _fault(structure, schema)
    if reason is not None:
        raise CorruptDatasetError(where, reason)
    return structure


def _fault(structure: PathStructure, schema: Schema) -> str | None:
    if structure.scheme not in ("int", "msgpack/hash"):
        return f"the scheme {structure.scheme!r} is not supported"
    branches = {"base64": (64,), "hex": (16, 256)}.get(str(structure.encoding))
    if branches is None:
        return f"the encoding {structure.encoding!r} is not supported"
    if type(structure.branches) is not int or structure.branches not in branches:
        return f"{structure.encoding} cannot have {structure.branches!r} branches"
    if type(structure.levels) is not int or not 1 <= structure.levels <= _MOST_LEVELS:
        return f"there cannot be {structure.levels!r} levels"
    if structure.scheme == "int" and path_structure_of(schema) is not INT:
        return "the scheme 'int' needs a key of one whole number"
    return None


def parse_keys(names: Sequence[bytes]) -> list[list[Any]]:
    """Return the keys that files are named by, as columns.

    ValueError, with the position as its argument, for a name that is no key or one with
    another number of values than the first. Names that are spelled otherwise than
    `paths` does are not found here: compare them.
    """
    unpacker = msgpack.Unpacker(max_buffer_size=0, use_list=False, max_array_len=1024)
    try:
        unpacker.feed(b"".join([a2b_base64(name) for name in _translated(names)]))
        # Rows are not kept, since very many tuples are much work for the garbage collector.
        flat = [value for key in unpacker for value in key]
    except (ValueError, TypeError, msgpack.exceptions.UnpackException):
        return _columns([_key(name, index) for index, name in enumerate(names)])
    if len(flat) == len(names):
        return [flat]
    return _columns([_key(name, index) for index, name in enumerate(names)])


def parse_whole_keys(names: Sequence[bytes]) -> npt.NDArray[np.int64] | None:
    """Return the whole numbers that files are named by; None where one is spelled otherwise.

    Those found are spelled as `paths` does. Names of one length are read together.
    """
    sizes = np.fromiter(map(len, names), np.int64, len(names))
    starts = np.cumsum(sizes) - sizes
    text = np.frombuffer(b"".join(names), np.uint8)
    keys = np.empty(len(names), np.int64)
    for size in np.flatnonzero(np.bincount(sizes, minlength=1)).tolist():
        if size % 4 or not 0 < size <= 16:
            return None
        rows = np.flatnonzero(sizes == size)
        letters = text[starts[rows][:, None] + np.arange(size)]
        padding = (letters == ord("=")).sum(axis=1)
        for count in set(padding.tolist()):
            chosen = padding == count
            found = _whole_keys(letters[chosen], count)
            if found is None:
                return None
            keys[rows[chosen]] = found
    return keys


# Nothing but the letters of `paths` is read; padding stands for bits that are zero.
_STRICT = bytes.maketrans(b"-_=+/", b"+/A!!")
# By the first byte of a whole number: how many follow, whether they have a sign, and
# between which numbers it is the shortest way.
_WHOLE = {
    0xCC: (1, 0x80, 0xFF),
    0xCD: (2, 0x100, 0xFFFF),
    0xCE: (4, 0x1_0000, 0xFFFF_FFFF),
    0xCF: (8, 0x1_0000_0000, (1 << 63) - 1),
    0xD0: (1, -0x80, -0x21),
    0xD1: (2, -0x8000, -0x81),
    0xD2: (4, -0x8000_0000, -0x8001),
    0xD3: (8, -(1 << 63), -0x8000_0001),
}


def _whole_keys(letters: npt.NDArray[np.uint8], padding: int) -> npt.NDArray[np.int64] | None:
    """Return the numbers of names that have one length and as much padding at the end."""
    if padding and (letters[:, -padding:] != ord("=")).any():
        return None
    try:
        decoded = a2b_base64(letters.tobytes().translate(_STRICT), strict_mode=True)
    except Base64Error:
        return None
    data = np.frombuffer(decoded, np.uint8).reshape(len(letters), -1)
    whole = data.shape[1] - padding
    if whole < 2 or data[:, whole:].any() or (data[:, 0] != 0x91).any():
        return None
    data = data[:, :whole]
    if whole == 2:
        small: npt.NDArray[np.int64] = data[:, 1].copy().view(np.int8).astype(np.int64)
        return None if (small < -32).any() else small
    keys = np.empty(len(data), np.int64)
    for first in set(data[:, 1].tolist()):
        width, least, most = _WHOLE.get(first, (0, 0, 0))
        if width != whole - 2:
            return None
        rows = data[:, 1] == first
        signed = np.dtype(f">i{width}" if first >= 0xD0 or width == 8 else f">u{width}")
        found = np.ascontiguousarray(data[rows, 2:]).view(signed).ravel().astype(np.int64)
        if (found < least).any() or (found > most).any():
            return None
        keys[rows] = found
    return keys


def _columns(keys: list[tuple[Any, ...]]) -> list[list[Any]]:
    width = len(keys[0]) if keys else 0
    for index, key in enumerate(keys):
        if len(key) != width:
            raise ValueError(index)
    return [list(column) for column in zip(*keys, strict=True)]


def _key(name: bytes, index: int) -> tuple[Any, ...]:
    try:
        if len(name) > _MOST_NAME:
            raise ValueError("it is too long")
        key = msgpack.unpackb(_unname(name), use_list=False, max_array_len=1024)
        if type(key) is tuple:
            return key
    except (Base64Error, ValueError, TypeError, msgpack.exceptions.UnpackException):
        pass
    raise ValueError(index)


def _names(packed: Iterable[bytes]) -> list[bytes]:
    text = b"".join([b2a_base64(each) for each in packed])  # a line each
    return text.translate(_URL_SAFE).split(b"\n")[:-1]


def _translated(names: Sequence[bytes]) -> list[bytes]:
    # No name holds a line feed or a NUL: git would not have them, or base64 refuses them.
    return b"\n".join(names).translate(_STANDARD).split(b"\n") if names else []


def _unname(name: bytes) -> bytes:
    return a2b_base64(name.translate(_STANDARD))
