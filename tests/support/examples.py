"""How many examples a property is tried with, in a full run and in a quick one."""

from typing import Any

from hypothesis import settings

USUAL = 100
QUICK = 20

# Time limits per example say more about the machine than about the code. `make test` asks for
# the quick profile.
settings.register_profile("full", deadline=None, max_examples=USUAL)
settings.load_profile("full")
settings.register_profile("quick", parent=settings(), max_examples=QUICK)


def examples(number: int, **others: Any) -> settings:
    """Try `number` examples, or in a quick run a share of them, as with the usual hundred.

    To be used where `settings(max_examples=number)` would be, which a quick run cannot lower.
    """
    share = settings().max_examples / USUAL
    return settings(max_examples=max(2, round(number * share)), **others)
