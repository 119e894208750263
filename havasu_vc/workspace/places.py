"""Where a table of the workspace is: one idea, whether that is a folder or a bucket.

What a checkout does (`materialise`), how a table is found (`condition`) and what is taken in
from it is the same everywhere. A place knows how documents are looked for, how data files
get there, how a version is published, and how what is not needed goes. Documents are written
below `folder` on this machine in either case: it is the table's own, or one of copies, from
which they are sent before a version names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import StateError
from havasu_vc.formats.iceberg.values import Flavour, TableMetadata
from havasu_vc.store.files import DataFileStore
from havasu_vc.tables.locations import TableFolders
from havasu_vc.tables.table import Table
from havasu_vc.workspace.state import FileIdentity, TableState

__all__ = ["Holds", "TablePlace", "in_the_way", "is_newest"]


class Holds(StrEnum):
    """The finds at a place."""

    NOTHING = "nothing"
    """Nothing, or folders alone: tables of other datasets may lie below."""
    TABLE = "table"
    """Some version of a table."""
    OTHERS = "others"
    """Something that is no table."""


class TablePlace(Protocol):
    """Where one table is, or will be."""

    @property
    def location(self) -> str:
        """The place as documents spell it and people know it: a path or a URL."""

    @property
    def folder(self) -> Path:
        """Where its documents are on this machine."""

    @property
    def places(self) -> TableFolders:
        """Where its files are found."""

    def holds(self) -> Holds:
        """Return what is there."""

    def exists(self) -> bool:
        """Whether anything is left of a table."""

    def newest(self) -> int | None:
        """Return the number of the newest version, None where there is none."""

    def newest_document(self, version: int) -> FileIdentity | None:
        """Return what tells our metadata file of a version from another one of its name.

        None when it is not there, or there is one after it.
        """

    def read(self, version: int | None = None) -> Table:
        """Return the newest version, or one."""

    def metadata_files(self) -> Iterator[Path]:
        """Yield the metadata files that are there, as files of this machine."""

    def put(self, view: HavasuDataset, *, copy: bool) -> Mapping[str, FileIdentity]:
        """Have the data files of a dataset there, and return what tells them from others."""

    def publish(self, table: Table | None, metadata: TableMetadata, flavour: Flavour) -> Table:
        """Make metadata the version after `table`, once all that was written is there.

        Raises `ConcurrentChangeError` when another writer was faster; nothing has changed then.
        """

    def abandoned(self, needed: set[str]) -> Iterable[str]:
        """Return the names of files that checkouts which died left there."""

    def discard(self, names: Iterable[str]) -> None:
        """Remove files that no version needs, by their names (`Places.name`)."""

    def check_files(self, known: TableState, store: DataFileStore) -> None:
        """Raise when a data file that was put there is gone or was changed, if that is cheap."""

    def is_whole(self, known: TableState) -> bool:
        """Whether none of the files that were put there was removed."""

    def require_inside(self) -> None:
        """Raise when the place is not where it seems to be: the repository may be a stranger's."""

    def remove(self) -> None:
        """Remove the table; nobody sees half of it."""


def in_the_way(place: TablePlace) -> StateError:
    """Return what is wrong where something that no checkout made is in a table's place."""
    return StateError(
        f"something else is at {place.location}",
        hints=("move it away, then `havasu-vc checkout`",),
    )


def is_newest(place: TablePlace, version: int) -> bool:
    """Whether our metadata file of a version is there, and none after it."""
    return place.newest_document(version) is not None
