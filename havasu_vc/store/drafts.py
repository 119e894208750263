"""Objects in memory, beside those that are stored: trees that no commit has yet."""

from __future__ import annotations

from havasu_vc.store.objects import ObjectId, ObjectKind, ObjectSource, object_id

__all__ = ["Draft"]


class Draft:
    """Objects that are never stored, beside those that are."""

    def __init__(self, source: ObjectSource) -> None:
        self._source = source
        self._objects: dict[ObjectId, tuple[ObjectKind, bytes]] = {}

    def write(self, kind: ObjectKind, data: bytes, *, before: ObjectId | None = None) -> ObjectId:
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
