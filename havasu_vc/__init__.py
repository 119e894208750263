"""Version control for tables that hold geometries and rasters.

    from havasu_vc import Repo

Datasets live in a git repository and are changed, compared and merged by row and
cell. Importing this package is cheap: a name that is exported here is loaded when
it is first used.
"""

from typing import TYPE_CHECKING

from havasu_vc.public import loads

if TYPE_CHECKING:
    from havasu_vc.engine.settings import Settings
    from havasu_vc.exchange.source import SourceOptions
    from havasu_vc.library import Repo

__all__ = ["Repo", "Settings", "SourceOptions", "__version__"]

__version__ = "0.1.0"

__getattr__ = loads(
    __name__,
    {"engine.settings": ["Settings"], "exchange.source": ["SourceOptions"], "library": ["Repo"]},
)
