"""The working copy of a repository, for who asks first whether there is one: nearly always not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from havasu_vc.checkouts.living_place import living_place
from havasu_vc.repo.opened import OpenRepo

if TYPE_CHECKING:
    from havasu_vc.checkouts.living_copy import LivingCopy

__all__ = ["working_copy"]


def working_copy(repo: OpenRepo) -> LivingCopy | None:
    """Return the working copy of a repository; None where there is none."""
    place = living_place(repo)
    if place is None or not place.exists:
        return None
    from havasu_vc.checkouts.living_copy import LivingCopy

    return LivingCopy(repo, place)
