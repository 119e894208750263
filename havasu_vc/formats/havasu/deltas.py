"""`files/<2 hex>/<40 hex>.json`: a delta, which is what one change adds to a table.

A table is the sum of its live deltas: the rows of their data files, less those that their
delete files carry. A delta is never edited, and its path is never removed: when others
take its place, a tombstone does.

    {"id": "<40 hex>", "table": "<uuid>", "epoch": [0, ""], "rows": 2,
     "digests": {"1": "<two lanes of 64 bits in hex>"},
     "marks": "<128 bits in hex>", "replaces": ["<40 hex>", …],
     "past": {"<32 hex>": "<schema, partition spec or sort order>", …},
     "files": [{"file": "<sha256>", "content": "data", …}, …]}

`rows` and `digests` are what comes less what goes. `marks` is what the delta adds to the
sum of the markers (`markers`). `past` has what its files were written with: in a document
of its own, git would take it from other deltas with the change that brought it. A tombstone
is NUL, `folded ` and the id of the delta that holds the content now.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.havasu.entry import Entry, entry_from_json, entry_to_json
from havasu_vc.formats.havasu.json_text import document_hash, expect, one_line, pack, unpack
from havasu_vc.formats.havasu.properties import Digest
from havasu_vc.records import dataclass

__all__ = [
    "ChangedDelta",
    "Delta",
    "delta_path",
    "format_delta",
    "format_tombstone",
    "named",
    "parse_delta",
    "parse_tombstone",
]

_FOLDED = b"\0folded "
_ID = re.compile(r"[0-9a-f]{40}")
_LANES = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Delta:
    """One change of a table: files and sums that it adds."""

    id: str
    """Its name: a hash of what it says and of the markers before it."""
    table: str
    """The table-uuid of its dataset."""
    rows: int
    """Rows that come, less those that go."""
    epoch: tuple[int, str] | None = None
    """The epoch that it was made in, and the blob that opened it; None for what no edit is."""
    digests: Mapping[int, Digest] = field(default_factory=dict)
    """By field id: the sum of the hashes of cells that come, less those that go."""
    marks: int = 0
    """Its share of the sum of the markers, modulo 2^128."""
    replaces: tuple[str, ...] = ()
    """The deltas that it takes the place of."""
    past: Mapping[str, str] = field(default_factory=dict)
    """The schemas, partition specs and sort orders that its files name, by hash."""
    files: tuple[Entry, ...] = ()
    """The data and delete files that it adds."""

    @property
    def path(self) -> str:
        """Where its document is, below the dataset's folder."""
        return delta_path(self.id)


@dataclass(frozen=True, slots=True)
class ChangedDelta:
    """A delta, or a tombstone, that came, went or became the other."""

    id: str
    """The delta's id."""
    old: Delta | str | None
    """The one before: a delta, or the id of the one that replaced it."""
    new: Delta | str | None
    """The one that stands there."""
    blob: str | None
    """The blob of its document."""


def delta_path(identity: str) -> str:
    """Return where the document of a delta is, below the dataset's folder."""
    return f"files/{identity[:2]}/{identity}.json"


def named(delta: Delta, before: Sequence[tuple[str, str]]) -> str:
    """Return the id of a delta; `before` has the markers that it changes, as they were.

    So an id never comes back in another state, and equal edits of one state are one delta.
    """
    text = one_line([_to_json(delta), [list(each) for each in before]])
    return hashlib.sha256(text).hexdigest()[:40]


def format_delta(delta: Delta) -> bytes:
    """Return the document of a delta."""
    return pack({"id": delta.id, **_to_json(delta)})


def _to_json(delta: Delta) -> dict[str, Any]:
    return {
        "table": delta.table,
        "epoch": None if delta.epoch is None else list(delta.epoch),
        "rows": delta.rows,
        "digests": {
            str(number): f"{first:016x}{second:016x}"
            for number, (first, second) in sorted(delta.digests.items())
        },
        "marks": f"{delta.marks:032x}",
        "replaces": list(delta.replaces),
        "past": dict(sorted(delta.past.items())),
        "files": [{"file": entry.file, **entry_to_json(entry)} for entry in delta.files],
    }


def parse_delta(data: bytes, identity: str, where: str) -> Delta:
    """Return the delta of a document; `identity` is the name it stands under."""
    value = expect(unpack(data, where), dict, "the delta", where)
    if value.get("id") != identity or not _ID.fullmatch(identity):
        raise CorruptDatasetError(where, "its name is not its id")
    digests = expect(value.get("digests"), dict, "digests", where)
    for number, text in digests.items():
        if not number.isdecimal() or not _LANES.fullmatch(expect(text, str, "a digest", where)):
            raise CorruptDatasetError(where, f"digest {number!r} is not one")
    marks = expect(value.get("marks"), str, "marks", where)
    if not _LANES.fullmatch(marks):
        raise CorruptDatasetError(where, "its marks are no sum")
    files = expect(value.get("files"), list, "files", where)
    return Delta(
        identity,
        sys.intern(expect(value.get("table"), str, "table", where)),
        expect(value.get("rows"), int, "rows", where),
        _epoch(value.get("epoch"), where),
        {int(number): (int(text[:16], 16), int(text[16:], 16)) for number, text in digests.items()},
        int(marks, 16),
        tuple(
            _identity(each, where)
            for each in expect(value.get("replaces"), list, "replaces", where)
        ),
        _past(value.get("past"), where),
        tuple(_entry(each, where) for each in files),
    )


def _epoch(value: Any, where: str) -> tuple[int, str] | None:
    if value is None:
        return None
    expect(value, list, "epoch", where)
    if len(value) != 2:
        raise CorruptDatasetError(where, "its epoch is none")
    return expect(value[0], int, "epoch", where), expect(value[1], str, "epoch", where)


def _past(value: Any, where: str) -> dict[str, str]:
    for name, text in expect(value, dict, "past", where).items():
        # Said of all that readers would take: there may be a thousand of one text.
        if document_hash(_encoded(expect(text, str, "past", where), where)) != name:
            raise CorruptDatasetError(where, f"past {name[:32]!r} is not what its name says")
    return {sys.intern(name): sys.intern(text) for name, text in value.items()}


def _encoded(text: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise CorruptDatasetError(where, "it has half of a character") from error


def _identity(value: Any, where: str) -> str:
    if not _ID.fullmatch(expect(value, str, "replaces", where)):
        raise CorruptDatasetError(where, "it replaces what is no delta")
    return str(value)


def _entry(value: Any, where: str) -> Entry:
    file = expect(expect(value, dict, "a file", where).get("file"), str, "file", where)
    return entry_from_json(value, file, where)


def format_tombstone(successor: str) -> bytes:
    """Return what stands in the place of a delta that another one replaces."""
    return _FOLDED + successor.encode()


def parse_tombstone(data: bytes) -> str | None:
    """Return the delta that a tombstone names; None for other bytes."""
    text = data.removeprefix(_FOLDED)
    if text == data or len(text) != 40:
        return None
    found = text.decode("ascii", "replace")
    return found if _ID.fullmatch(found) else None
