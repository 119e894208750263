"""What the values of a column of bytes begin with, told from footers alone.

Where the least and the greatest value of each row group begin alike, all values do. So a
footer tells, for one, that each geometry of a file is a point of a certain form.
"""

from __future__ import annotations

from havasu_vc.datasets.havasu.matching_groups import leaf_columns
from havasu_vc.datasets.havasu.parquet import open_parquet

__all__ = ["leading_bytes"]


def leading_bytes(path: str, column: int, count: int) -> frozenset[bytes] | None:
    """Return the first bytes of all values of a column, told by its field id.

    The set has one member, or none where the file has no values; None is returned where values
    differ or nothing tells.
    """
    found: set[bytes] = set()
    with open_parquet(path) as file:
        index = leaf_columns(file).get(column)
        if index is None:
            return frozenset()
        for number in range(file.num_row_groups):
            group = file.metadata.row_group(number).column(index)
            if group.physical_type != "BYTE_ARRAY" or group.statistics is None:
                return None
            if group.statistics.has_min_max:
                found |= {group.statistics.min[:count], group.statistics.max[:count]}
            elif group.num_values != group.statistics.null_count:
                return None
            if len(found) > 1 or any(len(each) < count for each in found):
                return None
    return frozenset(found)
