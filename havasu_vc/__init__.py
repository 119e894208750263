"""Version control for tables that hold geometries and rasters.

Datasets live in a git repository and are changed, compared and merged by row and
cell. Importing this package is cheap: a name that is exported here is loaded when
it is first used.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
