"""A dataset as an Iceberg table: one snapshot per checkout, and only changed files move."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.formats.iceberg.values import Flavour
from havasu_vc.workspace.state import TableState

__all__ = ["Checkout", "materialise"]


@dataclass(frozen=True, slots=True)
class Checkout:
    """What is checked out, and how."""

    commit: str
    """The git commit that the dataset is of."""
    tree: str
    """The tree of its internals there."""
    flavour: Flavour | None = None
    """What the table is written for; None is `spark` for rasters, else `havasu`."""
    copy: bool = False
    """Whether files are copied rather than linked."""
    keep: int = 10
    """How many snapshots stay."""


def materialise(
    view: HavasuDataset, location: Path, checkout: Checkout, *, previous: TableState | None = None
) -> TableState:
    """Make the table at a folder show a dataset, and return what is there now.

    Whatever the table's current snapshot is, even one with edits, a snapshot of the
    dataset comes after it: the caller has asked whether edits may go.
    """
    raise NotImplementedError
