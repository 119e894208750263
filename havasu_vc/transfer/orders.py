"""In what order the rows of a dataset stand, as an import is asked for it.

The order is a dataset's own: it is chosen when the dataset is new, and a release keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator

from havasu_vc.datasets.protocol import Dataset
from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.schema import Schema

__all__ = ["check_order", "curve_column", "order_notes"]

ORDERS = ("key", "hilbert", "none")


def check_order(order: str) -> None:
    """Raise if there is no such order."""
    if order not in ORDERS:
        raise InvalidArgumentError(
            f"there is no order {order!r}", hints=(f"orders are {', '.join(ORDERS)}",)
        )


def curve_column(schema: Schema, order: str) -> str | None:
    """Return the column of geometries along whose curve rows are to stand."""
    if order != "hilbert":
        return None
    if not schema.geometries:
        raise InvalidArgumentError("there is no geometry column to order by")
    return schema.geometries[0].name


def order_notes(path: str, schema: Schema, old: Dataset | None, order: str) -> Iterator[str]:
    """Yield that rows do not stand in the order that was asked for; `key` is what nobody asks."""
    if order == "key":
        return
    files = None if old is None else old.in_files
    if files is not None and files.order.is_hilbert:
        found = "hilbert"
    else:
        found = "key" if (schema if old is None else old.schema).key else "none"
    if (old is None and order == "hilbert") or found == order:
        return
    stand = {"hilbert": "along a curve", "key": "in the order of the key", "none": "as they came"}
    why = "where there is a key" if old is None else "a release keeps that"
    yield f"the rows of {path} stand {stand[found]}, not as --order {order} says: {why}"
