"""Version control for tables that hold geometries and rasters.

    from havasu_vc import Repo

Datasets live in a git repository and are changed, compared and merged by row and
cell. Importing this package is cheap: a name that is exported here is loaded when
it is first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from havasu_vc.repo import Repo, Settings

__all__ = ["Repo", "Settings", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name in ("Repo", "Settings"):
        from havasu_vc import repo

        return getattr(repo, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
