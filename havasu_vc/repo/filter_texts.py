"""Filters on a diff as texts: which dataset one names, and what of it.

Apart from `filters`, which chooses rows and needs Arrow: `log` and the arguments of commands
ask no more than this.
"""

from __future__ import annotations

from collections.abc import Sequence

from havasu_vc.errors import InvalidArgumentError
from havasu_vc.model.names import DATASET_MARKERS

__all__ = ["CONDITIONS", "is_inside", "named_filters", "split_filter"]

CONDITIONS = ("where", "box")
"""Kinds of conditions on changed rows."""


def named_filters(texts: Sequence[str]) -> tuple[str, ...]:
    """Return filters as they were given; none where `.` asks for everything, as in git.

    >>> named_filters(["trees", "."]), named_filters(["trees"])
    ((), ('trees',))
    """
    return () if "." in texts else tuple(texts)


def is_inside(path: str) -> bool:
    """Return whether a path is one of git's, of or in the internals of a dataset.

    >>> is_inside("parcels/.table-dataset/feature/A"), is_inside("maps/parcels")
    (True, False)
    """
    return not set(DATASET_MARKERS).isdisjoint(path.split("/"))


def split_filter(text: str) -> tuple[str, str, str]:
    """Return the dataset of a filter, `feature`, `meta`, `tile` or nothing, and what of these.

    >>> split_filter("parcels:meta:title"), split_filter("parcels:42")
    (('parcels', 'meta', 'title'), ('parcels', 'feature', '42'))
    >>> split_filter("hills:tile:b")
    ('hills', 'tile', 'b')
    """
    path, _, rest = text.partition(":")
    kind, colon, what = rest.partition(":")
    if kind in ("", "feature", "meta") or (kind in (*CONDITIONS, "tile") and colon):
        return path, kind, what
    if colon:
        raise InvalidArgumentError(
            f"{text!r} is no filter",
            hints=("write DATASET, DATASET:feature:KEY or DATASET:meta:ITEM",),
        )
    return path, "feature", kind
