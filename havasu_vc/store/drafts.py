"""Objects in memory, beside those that are stored: trees that no commit has yet."""

from __future__ import annotations

import json

from havasu_vc.errors import CorruptDatasetError
from havasu_vc.store.objects import Before, ObjectId, ObjectKind, ObjectSource, object_id

__all__ = ["Draft", "KeptObjects", "format_objects", "parse_objects"]


class Draft:
    """Objects that are never stored, beside those that are."""

    def __init__(self, source: ObjectSource) -> None:
        self._source = source
        self._objects: dict[ObjectId, tuple[ObjectKind, bytes]] = {}

    def write(self, kind: ObjectKind, data: bytes, *, before: Before | None = None) -> ObjectId:
        """Take an object in and return its id."""
        identity = object_id(kind, data)
        self._objects[identity] = (kind, data)
        return identity

    def has(self, object_id: ObjectId) -> bool:
        """Whether an object was taken in here."""
        return object_id in self._objects

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        """Return an object that was taken in or that is stored."""
        return self._objects.get(object_id) or self._source.read(object_id)


# A tree of git objects in one file, for trees that no repository is to have.
#
#     {"format": 1, "tree": "<id>", "objects": [["<id>", "blob", 123], …]}
#     <the bytes of each object, in that order>
#
# Every object is checked against its id when the file is read, so what is read is what
# was written.


class KeptObjects:
    """Objects in memory, and nothing beside them."""

    def __init__(self) -> None:
        self.objects: dict[ObjectId, tuple[ObjectKind, bytes]] = {}
        """By id."""

    def write(self, kind: ObjectKind, data: bytes, *, before: Before | None = None) -> ObjectId:
        """Take an object in and return its id."""
        identity = object_id(kind, data)
        self.objects[identity] = (kind, data)
        return identity

    def read(self, object_id: ObjectId) -> tuple[ObjectKind, bytes]:
        """Return an object that was taken in."""
        found = self.objects.get(object_id)
        if found is None:
            raise CorruptDatasetError(f"git object {object_id}", "it is missing")
        return found


def format_objects(tree: ObjectId, kept: KeptObjects) -> bytes:
    """Return the document of a tree and its objects."""
    found = sorted(kept.objects.items())
    listed = [[identity, kind, len(data)] for identity, (kind, data) in found]
    head = json.dumps({"format": 1, "tree": tree, "objects": listed})
    return head.encode() + b"\n" + b"".join(data for _, (_, data) in found)


def parse_objects(document: bytes, where: str) -> tuple[ObjectId, KeptObjects]:
    """Return the tree and the objects of a document."""
    head, _, body = document.partition(b"\n")
    kept = KeptObjects()
    try:
        value = json.loads(head)
        if value["format"] != 1:
            raise ValueError(f"it has the format {value['format']!r}")
        start = 0
        for identity, kind, size in value["objects"]:
            if kept.write(kind, body[start : start + size]) != identity:
                raise ValueError(f"object {identity} has other bytes")
            start += size
        tree = value["tree"]
        kept.read(tree)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CorruptDatasetError(where, f"it is damaged ({error})") from error
    return tree, kept
