"""Dataset format 1, as far as turning it into format 2 needs: `snapshot.json` and one entry a file.

Its first line, the guard, names the git trees of `files/` and `data/` that its sums are of.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping

from havasu_vc.errors import CorruptDatasetError, UnsupportedVersionError
from havasu_vc.formats.havasu.entry import Content, Entry, parse_entry
from havasu_vc.formats.havasu.json_text import expect, parse_json
from havasu_vc.formats.havasu.properties import Digest, Properties
from havasu_vc.records import dataclass

__all__ = ["SNAPSHOT", "Guarded", "parse_entries", "parse_old_properties", "parse_snapshot"]

SNAPSHOT = "snapshot.json"
_LANES = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Guarded:
    """The sums of a snapshot of format 1."""

    files: str
    """The tree of entries that it is of; empty for none."""
    data: str
    """The tree of pointers."""
    rows: int
    """Live rows."""
    digests: Mapping[int, Digest]
    """By field id."""


def parse_snapshot(data: bytes, where: str) -> Guarded:
    """Return what a snapshot says, after checking that no line below its guard was changed."""
    value = expect(parse_json(data, where), dict, "the snapshot", where)
    if value.get("format") != 1:
        raise UnsupportedVersionError(
            f"{where}: dataset format {value.get('format')!r} is not known to this version",
            hints=("upgrade havasu-vc",),
        )
    guard = expect(value.get("guard"), dict, "the guard", where)
    below = data.partition(b"\n")[2]
    if guard.get("below") != hashlib.sha256(below).hexdigest()[:32]:
        raise CorruptDatasetError(where, "its lines were changed without its guard")
    digests = expect(value.get("digests"), dict, "digests", where)
    for number, text in digests.items():
        if not number.isdecimal() or not _LANES.fullmatch(expect(text, str, "a digest", where)):
            raise CorruptDatasetError(where, f"digest {number!r} is not one")
    return Guarded(
        expect(guard.get("files"), str, "files", where),
        expect(guard.get("data"), str, "data", where),
        expect(value.get("rows"), int, "rows", where),
        {int(number): (int(text[:16], 16), int(text[16:], 16)) for number, text in digests.items()},
    )


def parse_entries(documents: Iterable[tuple[str, bytes]], where: str) -> list[Entry]:
    """Return the entries below `files`, data files first."""
    found = []
    for name, data in documents:
        file = name.rpartition("/")[2].removesuffix(".json")
        found.append(parse_entry(data, file, f"{where}/{name}"))
    return sorted(found, key=lambda entry: (entry.content is Content.DELETES, entry.file))


def parse_old_properties(data: bytes, where: str) -> Properties:
    """Return the properties of `meta/properties.json`."""
    value = expect(parse_json(data, where), dict, "the properties", where)
    own = ("table-uuid", "havasu.format-version", "last-column-id")
    return Properties(
        expect(value.get("table-uuid"), str, "table-uuid", where),
        expect(value.get("last-column-id"), int, "last-column-id", where),
        {
            name: expect(item, str, f"property {json.dumps(name)}", where)
            for name, item in value.items()
            if name not in own
        },
    )
