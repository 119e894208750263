"""pyogrio without pandas and its kin, which commands that read files need not.

pyogrio imports pandas, GeoPandas and pyproj, where they are installed, to know
whether it can make data frames. No command asks for one, and loading them takes longer
and more memory than reading most files. So they cannot be found while it looks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

__all__ = ["leave_frames_out"]

_LOOKS = "pyogrio._compat"
_FRAMES = frozenset(("geopandas", "pandas", "pyproj"))


class _Missing:
    """Finds none of the libraries of data frames."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Refuse them, and leave all else to others."""
        if name in _FRAMES:
            raise ModuleNotFoundError(f"{name} is left out", name=name)
        return None


class _Without(Loader):
    """Loads a module while they cannot be found."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        sys.meta_path.insert(0, _Missing)
        try:
            self._loader.exec_module(module)
        finally:
            sys.meta_path.remove(_Missing)


class _Watch:
    """Finds the module of pyogrio that looks for them, once."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return its specification, to be run without them."""
        if name != _LOOKS:
            return None
        sys.meta_path.remove(_Watch)
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _Without(spec.loader)
        return spec


def leave_frames_out() -> None:
    """Let pyogrio find no library of data frames, for the rest of this process."""
    if _LOOKS not in sys.modules and _Watch not in sys.meta_path:
        sys.meta_path.insert(0, _Watch)
