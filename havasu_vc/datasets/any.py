"""Any of the kinds of dataset, for code that serves them all and is told which one it has.

Kart's kind is named for the type checker only: whoever meets one imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, Union

from havasu_vc.datasets.havasu.view import HavasuDataset
from havasu_vc.errors import NotYetSupportedError

if TYPE_CHECKING:
    from havasu_vc.datasets.kart.view import KartDataset

__all__ = ["AnyDataset", "as_havasu"]

AnyDataset: TypeAlias = Union[HavasuDataset, "KartDataset"]
"""A dataset of some kind."""


def as_havasu(view: AnyDataset, what: str = "this") -> HavasuDataset:
    """Return a dataset that must be a Havasu one; `what` cannot be done with others."""
    if isinstance(view, HavasuDataset):
        return view
    raise NotYetSupportedError(
        f"{view.path} is a dataset of Kart's, with which {what} cannot be done",
        hints=(f"`havasu-vc convert {view.path} --to havasu` makes it a Havasu dataset",),
    )
