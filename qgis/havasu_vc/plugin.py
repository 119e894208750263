"""The plugin as QGIS holds it: a dock, a menu, and algorithms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qgis.core import QgsApplication
from qgis.PyQt.QtCore import QCoreApplication, Qt
from qgis.PyQt.QtGui import QIcon

from .dock import TITLE, Dock
from .provider import Provider
from .words import install_translation, tr

__all__ = ["Plugin"]

MENU = f"&{TITLE}"


class Plugin:
    """What QGIS loads and unloads."""

    def __init__(self, iface: Any) -> None:
        self._iface = iface
        self._translator = install_translation()
        self.dock: Dock | None = None
        self.provider: Provider | None = None
        self._actions: list[Any] = []

    def initProcessing(self) -> None:
        """Offer the algorithms; QGIS calls this alone where there is no window."""
        self.provider = Provider()
        QgsApplication.processingRegistry().addProvider(self.provider)

    def initGui(self) -> None:
        """Show the dock."""
        self.initProcessing()
        self.dock = Dock(self._iface)
        self._iface.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.dock)
        icon = QIcon(str(Path(__file__).parent / "icon.svg"))
        shown = self.dock.toggleViewAction()
        shown.setText(tr("Versions of layers"))
        shown.setIcon(icon)
        self._iface.addToolBarIcon(shown)
        self._iface.addPluginToMenu(MENU, shown)
        self._actions.append(shown)

    def unload(self) -> None:
        """Leave nothing behind."""
        for action in self._actions:
            self._iface.removePluginMenu(MENU, action)
            self._iface.removeToolBarIcon(action)
        self._actions.clear()
        if self.dock is not None:
            self.dock.shut()
            self._iface.removeDockWidget(self.dock)
            self.dock.deleteLater()
            self.dock = None
        if self.provider is not None:
            QgsApplication.processingRegistry().removeProvider(self.provider)
            self.provider = None
        if self._translator is not None:
            QCoreApplication.removeTranslator(self._translator)
            self._translator = None
