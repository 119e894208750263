"""The plan of merging a dataset in files: how both sides are compared with the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

from havasu_vc.datasets.havasu.diff import DiffPlan, plan_diff
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from havasu_vc.datasets.havasu.pieces import Piece
    from havasu_vc.datasets.havasu.view import HavasuDataset

__all__ = ["MergePlans", "plan_merge"]


@dataclass(frozen=True, slots=True)
class MergePlans:
    """How both sides are compared with the base."""

    views: tuple[HavasuDataset, HavasuDataset, HavasuDataset]
    """The base, ours and theirs."""
    ours: DiffPlan
    """From the base to ours."""
    theirs: DiffPlan
    """From the base to theirs."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """All that is read."""
        return (*self.ours.old, *self.ours.new, *self.theirs.old, *self.theirs.new)

    @property
    def count(self) -> int:
        """How many rows are read."""
        return sum(piece.count for piece in self.pieces)


def plan_merge(base: HavasuDataset, ours: HavasuDataset, theirs: HavasuDataset) -> MergePlans:
    """Return what merging three versions reads."""
    return MergePlans((base, ours, theirs), plan_diff(base, ours), plan_diff(base, theirs))
