"""How much a test tries in a full run and in a quick one: examples, and parameters."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

USUAL = 100
QUICK = 20

# Time limits per example say more about the machine than about the code. `make test` asks for
# the quick profile.
settings.register_profile("full", deadline=None, max_examples=USUAL)
settings.load_profile("full")
settings.register_profile("quick", parent=settings(), max_examples=QUICK)


def is_quick() -> bool:
    """Return whether this is a quick run."""
    return settings().max_examples == QUICK


def examples(number: int, **others: Any) -> settings:
    """Try `number` examples, or in a quick run a share of them, as with the usual hundred.

    To be used where `settings(max_examples=number)` would be, which a quick run cannot lower.
    """
    share = settings().max_examples / USUAL
    return settings(max_examples=max(2, round(number * share)), **others)


def some(values: Iterable[Any], *quick: Any) -> list[Any]:
    """Return the parameters of a test, of which a quick run tries those that are named."""
    return [
        value if value in quick else pytest.param(value, marks=pytest.mark.thorough)
        for value in values
    ]
