"""Files of snapshots, made short for tests."""

from collections.abc import Mapping
from typing import Any

from havasu_vc.formats.iceberg.values import DataFile, DataFileContent
from havasu_vc.tables.snapshots import SnapshotFile


def data_file(path: str, number: int = 1, *, spec: int = 0, **partition: Any) -> SnapshotFile:
    return SnapshotFile(DataFile(path, 1, 1, partition=_partition(partition)), spec, number)


def delete_file(
    path: str,
    number: int,
    *,
    spec: int = 0,
    equality: bool = False,
    referenced: str | None = None,
    bounds: tuple[str, str] | None = None,
    **partition: Any,
) -> SnapshotFile:
    content = DataFileContent.EQUALITY_DELETES if equality else DataFileContent.POSITION_DELETES
    lower, upper = (None, None) if bounds is None else bounds
    return SnapshotFile(
        DataFile(
            path,
            1,
            1,
            content,
            partition=_partition(partition),
            equality_ids=(1,) if equality else None,
            referenced_data_file=referenced,
            lower_bounds=None if lower is None else {2147483546: lower.encode()},
            upper_bounds=None if upper is None else {2147483546: upper.encode()},
        ),
        spec,
        number,
    )


def _partition(values: Mapping[str, Any]) -> dict[int, Any]:
    return {1000 + "abcdef".index(name): value for name, value in values.items()}
