"""The plugin's algorithms in the Processing toolbox."""

from __future__ import annotations

from pathlib import Path

from qgis.core import QgsProcessingProvider
from qgis.PyQt.QtGui import QIcon

from .algorithms import ALGORITHMS

__all__ = ["Provider"]


class Provider(QgsProcessingProvider):
    """Offers the algorithms as `havasuvc:NAME`."""

    def id(self) -> str:
        """Return the name by which scripts call it."""
        return "havasuvc"

    def name(self) -> str:
        """Return the name that people read."""
        return "Havasu VC"

    def icon(self) -> QIcon:
        """Return the icon of the plugin."""
        return QIcon(str(Path(__file__).parent / "icon.svg"))

    def supportedOutputVectorLayerExtensions(self) -> list[str]:
        """Return the files that `export` writes and QGIS opens, the default first."""
        return ["gpkg", "geojson", "fgb", "shp", "parquet", "csv"]

    def loadAlgorithms(self) -> None:
        """Make the algorithms; QGIS calls this."""
        for algorithm in ALGORITHMS:
            self.addAlgorithm(algorithm())
