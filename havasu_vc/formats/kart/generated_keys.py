"""`meta/generated-pks.json`: keys that rows without one were given, and whose they are.

    {"primaryKeySchema": {…the column…}, "generatedPrimaryKeys": {"1": "<id of its feature>", …}}

The document remembers every row that was ever imported, by the git id of its feature. So
when a source comes in again, rows that are as they were get the keys that they had, those
that come twice as many as there are, and others the next numbers.

>>> keys = GeneratedKeys({"name": "auto_pk"})
>>> keys.assign([b"a" * 20, b"b" * 20, b"a" * 20])
[1, 2, 3]
>>> again = parse_generated_keys(keys.format(), "it")
>>> again.assign([b"b" * 20, b"c" * 20, b"a" * 20])
[2, 4, 1]
>>> again.unused()
[3]
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from itertools import chain

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.model.columns import Column

__all__ = ["GENERATED_KEYS", "GeneratedKeys", "parse_generated_keys"]

GENERATED_KEYS = "generated-pks.json"
"""The name of the meta item."""


class GeneratedKeys:
    """Keys that are given to rows by what they hold."""

    def __init__(self, column: Column, known: dict[int, bytes] | None = None) -> None:
        """Go on from keys that are `known`, each with the id of its feature."""
        self.column = column
        """The key column."""
        self._known = dict(known or {})
        self._next = max(self._known, default=0) + 1
        self._free: dict[bytes, deque[int]] = {}
        for key, identity in self._known.items():
            self._free.setdefault(identity, deque()).append(key)

    def assign(self, ids: Sequence[bytes]) -> list[int]:
        """Return the key of each feature, by id: the one it had, or the next number."""
        return [
            self.new(identity) if key is None else key
            for key, identity in zip(self.recall(ids), ids, strict=True)
        ]

    def recall(self, ids: Sequence[bytes]) -> list[int | None]:
        """Return the key that each feature had, None where it had none; none is given twice."""
        free = self._free
        return [left.popleft() if (left := free.get(each)) else None for each in ids]

    def new(self, identity: bytes) -> int:
        """Return the next number, for a feature that is new."""
        self._known[self._next] = identity
        self._next += 1
        return self._next - 1

    def change(self, key: int, identity: bytes) -> None:
        """Say that the row of a key holds something else now."""
        self._known[key] = identity

    def unused(self) -> list[int]:
        """Return the keys of rows that did not come again, in order."""
        return sorted(chain.from_iterable(self._free.values()))

    def format(self) -> bytes:
        """Return the document as Kart writes it."""
        head = json.dumps({"primaryKeySchema": self.column})
        pairs = ", ".join([f'"{key}": "{each.hex()}"' for key, each in self._known.items()])
        return f'{head[:-1]}, "generatedPrimaryKeys": {{{pairs}}}}}'.encode("ascii")


def parse_generated_keys(data: bytes, where: str) -> GeneratedKeys:
    """Return the keys that a document holds."""
    try:
        value = json.loads(data)
        column, pairs = value["primaryKeySchema"], value["generatedPrimaryKeys"]
        if not isinstance(column, dict):
            raise TypeError("no column")
        known = {int(key): bytes.fromhex(identity) for key, identity in pairs.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptDatasetError(where, "it does not say which keys were given") from error
    return GeneratedKeys(column, known)
