"""`snapshot.json`: the sums of a dataset, and the guard that keeps git from merging it.

    {"guard": {"path": "parcels", "files": "<tree>", "data": …, "meta": …, "below": "<hash>"},
     "format": 1,
     "rows": 1000000,
     "deleted-rows": 0,
     "bytes": 35126211,
     "digests": {
      "1": "<two lanes of 64 bits in hex>",
      "2": "…"
     }
    }

The guard stands on one line, the first. It names the dataset's path, the git tree ids
of `files/`, of `data/` and of what `meta/` would be without title and description, and
a hash of the lines below it. Whatever two sides change that must agree changes this
line on both, so a plain git merge stops here; and a merge that git was made to finish
leaves ids that do not match, which every reader sees.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from havasu_vc.errors import CorruptDatasetError, UnsupportedVersionError
from havasu_vc.formats.havasu.json_text import expect, parse_json
from havasu_vc.records import dataclass

__all__ = ["Digest", "Guard", "Snapshot", "format_snapshot", "parse_snapshot"]

FORMAT = 1
"""The version of the dataset format that this code writes."""

Digest = tuple[int, int]
"""Two lanes of 64 bits."""

_DIGEST = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Guard:
    """What must agree for the entries of a dataset to be one snapshot."""

    path: str
    """The dataset's path when this was written."""
    files: str
    """Tree id of `files/`; empty when there are none."""
    data: str
    """Tree id of `data/`; empty when there are none."""
    meta: str
    """Tree id of `meta/` without title and description."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The sums of a dataset."""

    rows: int
    """Live rows."""
    deleted_rows: int
    """Rows in data files that delete files take away."""
    size: int
    """Bytes of all files."""
    digests: Mapping[int, Digest] = field(default_factory=dict)
    """By field id: the sum of the hashes of its live cells."""


def format_snapshot(snapshot: Snapshot, guard: Guard) -> bytes:
    """Return the document."""
    body = {
        "format": FORMAT,
        "rows": snapshot.rows,
        "deleted-rows": snapshot.deleted_rows,
        "bytes": snapshot.size,
        "digests": {
            str(number): f"{first:016x}{second:016x}"
            for number, (first, second) in sorted(snapshot.digests.items())
        },
    }
    below = json.dumps(body, indent=1)[2:] + "\n"
    line = {
        "path": guard.path,
        "files": guard.files,
        "data": guard.data,
        "meta": guard.meta,
        "below": _hash(below.encode()),
    }
    return f'{{"guard": {json.dumps(line, ensure_ascii=False)},\n{below}'.encode()


def parse_snapshot(data: bytes, where: str) -> tuple[Snapshot, Guard]:
    """Return the sums and the guard, after checking that the lines below it are its own."""
    value = expect(parse_json(data, where), dict, "the snapshot", where)
    version = expect(value.get("format"), int, "format", where)
    if version != FORMAT:
        raise UnsupportedVersionError(
            f"{where}: dataset format {version!r} is not known to this version",
            hints=("upgrade havasu-vc",),
        )
    guard = expect(value.get("guard"), dict, "the guard", where)
    _, _, below = data.partition(b"\n")
    if guard.get("below") != _hash(below):
        raise CorruptDatasetError(where, "its lines were changed without its guard")
    return _snapshot(value, where), Guard(
        *(expect(guard.get(name), str, name, where) for name in ("path", "files", "data", "meta"))
    )


def _snapshot(value: dict[str, Any], where: str) -> Snapshot:
    digests = expect(value.get("digests"), dict, "digests", where)
    for number, text in digests.items():
        if not number.isdecimal() or not _DIGEST.fullmatch(expect(text, str, "a digest", where)):
            raise CorruptDatasetError(where, f"digest {number!r} is not one")
    rows, deleted, size = (
        expect(value.get(name), int, name, where) for name in ("rows", "deleted-rows", "bytes")
    )
    return Snapshot(
        rows,
        deleted,
        size,
        {int(number): (int(text[:16], 16), int(text[16:], 16)) for number, text in digests.items()},
    )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
