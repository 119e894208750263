"""Which delete files apply to which data files, by Iceberg's rules.

A position delete file applies to data files that are not newer than itself, in its
partition of its spec; one that is known to name a single file applies to that file. A
deletion vector names one file, and then no position delete file applies to that. An
equality delete file applies to data files that are older than itself, in its partition
of its spec, or everywhere when its spec does not partition. Newer means: by data
sequence number.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping

from havasu_vc.formats.havasu.layout import PartitionSpec
from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.tables.live import LiveFile
from havasu_vc.tables.partitions import divides, partition_key
from havasu_vc.tables.positions import FILE_PATH_ID

__all__ = ["DeleteIndex", "only_target"]


class DeleteIndex:
    """The delete files of a snapshot, found by the data file that they apply to."""

    __slots__ = ("_equality", "_everywhere", "_partitions", "_targets")

    def __init__(self, deletes: Iterable[LiveFile], specs: Mapping[int, PartitionSpec]) -> None:
        """Sort delete files in; data files among them are passed over."""
        self._targets: dict[Hashable, list[LiveFile]] = {}
        self._partitions: dict[Hashable, list[LiveFile]] = {}
        self._equality: dict[Hashable, list[LiveFile]] = {}
        self._everywhere: list[LiveFile] = []
        for delete in sorted(deletes, key=lambda each: (each.sequence_number, each.file.path)):
            place = (delete.spec_id, partition_key(delete.file))
            match delete.file.content:
                case DataFileContent.POSITION_DELETES:
                    target = only_target(delete.file)
                    if target is not None:
                        self._targets.setdefault(target, []).append(delete)
                    else:
                        self._partitions.setdefault(place, []).append(delete)
                case DataFileContent.EQUALITY_DELETES:
                    if divides(specs.get(delete.spec_id)):
                        self._equality.setdefault(place, []).append(delete)
                    else:
                        self._everywhere.append(delete)

    def __bool__(self) -> bool:
        return bool(self._targets or self._partitions or self._equality or self._everywhere)

    def position_deletes(self, data: LiveFile) -> tuple[LiveFile, ...]:
        """Return the position delete files that apply to a data file, oldest first.

        None does that has a deletion vector.
        """
        if self.vector(data) is not None:
            return ()
        place = (data.spec_id, partition_key(data.file))
        found = [
            *_from(self._targets.get(data.file.path), data.sequence_number),
            *_from(self._partitions.get(place), data.sequence_number),
        ]
        return tuple(found)

    def vector(self, data: LiveFile) -> LiveFile | None:
        """Return the deletion vector of a data file."""
        found = [
            each
            for each in _from(self._targets.get(data.file.path), data.sequence_number)
            if each.file.is_vector
        ]
        return found[-1] if found else None

    def equality_deletes(self, data: LiveFile) -> tuple[LiveFile, ...]:
        """Return the equality delete files that apply to a data file, oldest first."""
        place = (data.spec_id, partition_key(data.file))
        found = [
            *_from(self._everywhere, data.sequence_number + 1),
            *_from(self._equality.get(place), data.sequence_number + 1),
        ]
        return tuple(found)


def _from(deletes: list[LiveFile] | None, sequence_number: int) -> list[LiveFile]:
    if not deletes:
        return []
    return deletes[bisect_left(deletes, sequence_number, key=lambda each: each.sequence_number) :]


def only_target(file: DataFile) -> str | None:
    """Return the one data file that a position delete file is known to name, None if not known."""
    if file.referenced_data_file is not None:
        return file.referenced_data_file
    lower = (file.lower_bounds or {}).get(FILE_PATH_ID)
    upper = (file.upper_bounds or {}).get(FILE_PATH_ID)
    if lower is None or lower != upper:
        return None
    return lower.decode(errors="replace")
