"""The files of a snapshot as values, and how two sets of them compare."""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Iterable
from typing import Any

from havasu_vc.formats.havasu.properties import PartitionSpec
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.records import dataclass

__all__ = ["FileDifference", "LiveFile", "compare_files", "divides", "partition_key"]


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data or delete file that a snapshot holds."""

    file: DataFile
    """The file."""
    spec_id: int
    """The partition spec that its partition values are of."""
    sequence_number: int
    """Its data sequence number: which deletes apply to it, or to what it applies."""
    file_sequence_number: int = 0
    """When the file was added to the table."""
    snapshot_id: int | None = None
    """The snapshot that added it, as far as its manifest tells."""

    @property
    def place(self) -> Hashable:
        """A value that tells it from other files of its snapshot; vectors share a file."""
        file = self.file
        return file.content, file.path, file.content_offset

    @property
    def is_data(self) -> bool:
        """Whether it holds rows rather than deletes."""
        return self.file.content is DataFileContent.DATA


@dataclass(frozen=True, slots=True)
class FileDifference:
    """The files that one snapshot has and another has not."""

    removed: tuple[LiveFile, ...] = ()
    """Only in the old snapshot."""
    added: tuple[LiveFile, ...] = ()
    """Only in the new snapshot."""
    renumbered: tuple[tuple[LiveFile, LiveFile], ...] = ()
    """In both, old and new, but other deletes may apply: sequence number or partition differ."""

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.renumbered)

    @property
    def removed_data(self) -> tuple[LiveFile, ...]:
        """The data files among the removed."""
        return tuple(each for each in self.removed if each.is_data)

    @property
    def added_data(self) -> tuple[LiveFile, ...]:
        """The data files among the added."""
        return tuple(each for each in self.added if each.is_data)

    @property
    def removed_deletes(self) -> tuple[LiveFile, ...]:
        """The delete files among the removed."""
        return tuple(each for each in self.removed if not each.is_data)

    @property
    def added_deletes(self) -> tuple[LiveFile, ...]:
        """The delete files among the added."""
        return tuple(each for each in self.added if not each.is_data)


def compare_files(old: Iterable[LiveFile], new: Iterable[LiveFile]) -> FileDifference:
    """Return what only one of two snapshots has; a file that is named twice counts twice."""
    before: dict[Hashable, list[LiveFile]] = {}
    for each in old:
        before.setdefault(each.place, []).append(each)
    added, renumbered = [], []
    for each in new:
        same = before.get(each.place)
        if not same:
            added.append(each)
            continue
        partner = next((one for one in same if _reach(one) == _reach(each)), same[0])
        same.remove(partner)
        if _reach(partner) != _reach(each):
            renumbered.append((partner, each))
    removed = [each for left in before.values() for each in left]
    return FileDifference(tuple(removed), tuple(added), tuple(renumbered))


def _reach(live: LiveFile) -> Hashable:
    """Return what decides which deletes meet which data."""
    return (
        live.sequence_number,
        live.spec_id,
        partition_key(live.file),
        live.file.referenced_data_file,
        live.file.equality_ids,
    )


# Whether two files lie in one partition.


def partition_key(file: DataFile) -> Hashable:
    """Return what two files have in common exactly when they lie in one partition of a spec."""
    return tuple((number, _exact(value)) for number, value in sorted(file.partition.items()))


def _exact(value: Any) -> Hashable:
    # Zero and minus zero are two partitions, and not a number is one.
    if not isinstance(value, float):
        return value  # type: ignore[no-any-return]
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


def divides(spec: PartitionSpec | None) -> bool:
    """Whether a spec deals rows out at all; fields that were dropped leave `void` behind."""
    return spec is not None and any(field.transform != "void" for field in spec.fields)
