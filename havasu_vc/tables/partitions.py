"""Whether two files lie in one partition."""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable
from typing import Any

from havasu_vc.formats.havasu.layout import PartitionSpec
from havasu_vc.formats.iceberg.values import DataFile

__all__ = ["divides", "partition_key"]


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
