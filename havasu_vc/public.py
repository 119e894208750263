"""The public module of a package: names that are loaded when they are first asked for.

A package of use cases shows others what they may use, and nothing else of it. A command
needs few of these names, so each is fetched from where it is defined only when it is used.
The package spells them out twice: as imports, which type checkers read, and as the table
that is given here; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["loads"]


def loads(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: names by the module that they are in."""
    homes = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{home}"), name)

    return get
