"""Getting at very many blobs: by id from a repository, or as they were given.

`Blobs` is a plain value that tasks carry. From a repository it holds ids and where to
look; of a tree in the making, which no other process can see, the bytes themselves.
What a partial clone lacks is asked from its remote at once, and only when it is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from havasu_vc.errors import CorruptDatasetError, HavasuError, NotFoundError
from havasu_vc.records import dataclass
from havasu_vc.store.bulk import bulk_reader, fetch_promised, spatial_filter
from havasu_vc.store.objects import ObjectSource, StoredObjects

__all__ = ["Blobs", "Objects", "SourceObjects", "StoredFolder", "objects_of"]


class Objects(Protocol):
    """Somewhere that objects are read from, many at a time."""

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of each object."""


@dataclass(frozen=True, slots=True)
class StoredFolder:
    """The objects of a repository, in any process."""

    folder: str
    """The folder `objects` of a git directory."""

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of each object; what a partial clone lacks is fetched."""
        reader = bulk_reader(self.folder)
        found = reader.read(ids)
        missing = [ids[index] for index, data in enumerate(found) if data is None]
        if missing:
            _fetch(Path(self.folder), missing)
            found = reader.read(ids)
        return [_there(data, identity) for data, identity in zip(found, ids, strict=True)]


def _there(data: bytes | None, identity: bytes) -> bytes:
    if data is None:
        raise CorruptDatasetError(f"git object {identity.hex()}", "it is missing")
    return data


def _fetch(folder: Path, missing: Sequence[bytes]) -> None:
    """Fetch what a partial clone left with its remote."""
    what = f"{len(missing):,} rows or folders of rows are not in this partial clone"
    if spatial_filter(folder.parent):
        raise NotFoundError(
            f"{what}: they are outside of its spatial filter",
            hints=("clone without the filter to work with all rows",),
        )
    try:
        fetch_promised(folder.parent, missing)
    except HavasuError as error:
        raise NotFoundError(
            f"{what}, and its remote does not give them: {error.message}", hints=error.hints
        ) from error


@dataclass(frozen=True, slots=True)
class SourceObjects:
    """Objects of any source, in this process."""

    source: ObjectSource
    """Where they are."""

    def read(self, ids: Sequence[bytes]) -> list[bytes]:
        """Return the bytes of each object."""
        return [self.source.read(identity.hex())[1] for identity in ids]


def objects_of(source: ObjectSource) -> Objects:
    """Return the fastest way to read many objects of a source."""
    if isinstance(source, StoredObjects):
        return StoredFolder(str(source.folder))
    return SourceObjects(source)


@dataclass(frozen=True, slots=True)
class Blobs:
    """Some blobs, for tasks."""

    objects: StoredFolder | None
    """Where they are; None when they are given."""
    ids: bytes = b""
    """Their ids, 20 bytes each."""
    given: tuple[bytes, ...] = ()
    """The blobs themselves."""

    @classmethod
    def of(cls, objects: Objects, ids: Sequence[bytes]) -> Blobs:
        """Return blobs for a task that may run elsewhere."""
        if isinstance(objects, StoredFolder):
            return cls(objects, b"".join(ids))
        return cls(None, given=tuple(objects.read(ids)))

    def read(self) -> list[bytes]:
        """Return the bytes of each."""
        if self.objects is None:
            return list(self.given)
        ids = self.ids
        return self.objects.read([ids[at : at + 20] for at in range(0, len(ids), 20)])
