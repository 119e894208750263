"""Rows by their keys, at any revision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from havasu_vc.datasets.digest import hash_keys
from havasu_vc.datasets.pairing import describe_key
from havasu_vc.errors import InvalidArgumentError, RowNotFoundError
from havasu_vc.history.blame import ChosenRows
from havasu_vc.repo.filters import keys_batch
from havasu_vc.repo.opened import OpenRepo

if TYPE_CHECKING:
    from havasu_vc.datasets.protocol import Dataset

__all__ = ["read_rows", "require_rows"]


def read_row(repo: OpenRepo, dataset: str, key: Any, revision: str = "HEAD") -> dict[str, Any]:
    """Return a row at a revision, by its key: a value, a tuple, or text as in a filter."""
    return dict(read_rows(repo, dataset, [key], revision)[1].to_pylist()[0])


def read_rows(
    repo: OpenRepo, path: str, keys: Sequence[Any], revision: str = "HEAD"
) -> tuple[Dataset, pa.RecordBatch]:
    """Return the rows that have some keys at a revision, with the dataset as it was.

    Keys are values, tuples of values, or text as in filters.
    """
    view = repo.dataset(path, revision)
    if not view.key:
        raise InvalidArgumentError(f"{view.path} has no key to name a row by")
    wanted = keys_batch(keys, view.schema)
    with repo.settings.open_engine(0) as engine:
        chosen = ChosenRows(wanted, view.schema, engine)
        require_rows(view, chosen, wanted)
        return view, chosen.rows(view)


def require_rows(view: Dataset, chosen: ChosenRows, wanted: pa.RecordBatch) -> None:
    """Raise if a key that is wanted is not there."""
    there = hash_keys(chosen.rows(view), view.schema)
    for row, number in zip(wanted.to_pylist(), hash_keys(wanted, view.schema), strict=True):
        if number not in there:
            label = describe_key(tuple(row.values()))
            raise RowNotFoundError(f"{view.path} has no row {label} at {view.revision}")
