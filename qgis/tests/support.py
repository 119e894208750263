"""A QGIS without a screen, a stand-in for its main window, and repositories of the real command."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
HOME = tempfile.mkdtemp(prefix="havasu-vc-qgis-")
os.environ["QGIS_CUSTOM_CONFIG_PATH"] = HOME

from qgis.core import QgsApplication, QgsLayerTreeModel, QgsProject  # noqa: E402
from qgis.gui import (  # noqa: E402
    QgsLayerTreeMapCanvasBridge,
    QgsLayerTreeView,
    QgsMapCanvas,
    QgsMessageBar,
)
from qgis.PyQt.QtCore import QCoreApplication, QEventLoop, Qt  # noqa: E402
from qgis.PyQt.QtWidgets import QDockWidget, QMainWindow, QVBoxLayout, QWidget  # noqa: E402

ROOT = Path(__file__).parents[2]
PACKAGE = "havasu_vc_qgis"
PROGRAM = os.environ.get("HAVASU_VC_PROGRAM") or str(ROOT / ".venv" / "bin" / "havasu-vc")
PICTURES = os.environ.get("HAVASU_VC_PICTURES", "")
"""A folder for pictures of windows; none are taken without."""
LIMIT = float(os.environ.get("HAVASU_VC_PATIENCE", "300"))

QCoreApplication.setOrganizationName("havasu-vc-tests")
QCoreApplication.setApplicationName("havasu-vc-tests")
application = QgsApplication([], True)
application.initQgis()


def load_plugin() -> Any:
    """Import the plugin as QGIS would from a folder of another name."""
    if PACKAGE not in sys.modules:
        folder = ROOT / "qgis" / "havasu_vc"
        spec = importlib.util.spec_from_file_location(
            PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        module = importlib.util.module_from_spec(spec)
        sys.modules[PACKAGE] = module
        spec.loader.exec_module(module)
    return sys.modules[PACKAGE]


def wait(condition: Callable[[], object], what: str = "") -> None:
    """Let QGIS work until a condition holds."""
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain: {what}")
        application.processEvents(QEventLoop.ProcessEventsFlag.AllEvents, 20)
        time.sleep(0.002)


class Bar(QgsMessageBar):
    """A message bar that remembers what it said: some messages go by themselves."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.said: list[str] = []

    def pushMessage(self, title: str, text: str, *rest: Any) -> None:
        self.said.append(text)
        super().pushMessage(title, text, *rest)


class Interface:
    """What the plugin asks of the main window of QGIS."""

    def __init__(self) -> None:
        self.window = QMainWindow()
        self.window.resize(1280, 800)
        middle = QWidget()
        box = QVBoxLayout(middle)
        self.canvas = QgsMapCanvas(middle)
        self.bar = Bar(middle)
        box.addWidget(self.bar)
        box.addWidget(self.canvas, 1)
        self.window.setCentralWidget(middle)
        root = QgsProject.instance().layerTreeRoot()
        self.bridge = QgsLayerTreeMapCanvasBridge(root, self.canvas)
        self.actions: list[Any] = []

    def mainWindow(self) -> QMainWindow:
        return self.window

    def mapCanvas(self) -> QgsMapCanvas:
        return self.canvas

    def messageBar(self) -> QgsMessageBar:
        return self.bar

    def addDockWidget(self, area: Any, dock: Any) -> None:
        self.window.addDockWidget(area, dock)

    def removeDockWidget(self, dock: Any) -> None:
        self.window.removeDockWidget(dock)

    def addPluginToMenu(self, menu: str, action: Any) -> None:
        self.actions.append(action)

    def removePluginMenu(self, menu: str, action: Any) -> None:
        self.actions.remove(action)

    def addToolBarIcon(self, action: Any) -> None:
        self.actions.append(action)

    def removeToolBarIcon(self, action: Any) -> None:
        self.actions.remove(action)

    def draw(self) -> None:
        """Show the window and draw the whole map."""
        self.window.show()
        drawn: list[bool] = []
        application.processEvents()
        self.canvas.mapCanvasRefreshed.connect(lambda: drawn.append(True))
        self.canvas.refresh()
        wait(lambda: drawn and not self.canvas.isDrawing(), "the map is drawn")

    def show_layers(self) -> None:
        """Show the list of layers beside the map, as QGIS does."""
        model = QgsLayerTreeModel(QgsProject.instance().layerTreeRoot(), self.window)
        tree = QgsLayerTreeView()
        tree.setModel(model)
        dock = QDockWidget("Layers", self.window)
        dock.setWidget(tree)
        self.window.addDockWidget(Qt.DockWidgetArea.LeftDockWidgetArea, dock)
        tree.expandAll()


def environment() -> dict[str, str]:
    """Return an environment in which git knows who commits, and nothing of the machine."""
    names = {"AUTHOR": "Ana", "COMMITTER": "Ana"}
    return {
        "PATH": os.environ["PATH"],
        "HOME": HOME,
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{role}_NAME": name for role, name in names.items()},
        **{f"GIT_{role}_EMAIL": f"{name.lower()}@example.org" for role, name in names.items()},
    }


def run(folder: Path | str, *arguments: str) -> str:
    """Run the command as a person at a terminal would."""
    done = subprocess.run(
        [PROGRAM, "-C", str(folder), *arguments],
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def edit(file: Path | str, *statements: str) -> None:
    """Edit rows of a GeoPackage as another program would."""
    layer = sqlite3.connect(str(file))
    for name in ("IsEmpty", "MinX", "MaxX", "MinY", "MaxY"):
        layer.create_function(f"ST_{name}", 1, lambda shape: None)
    with layer:
        for statement in statements:
            layer.execute(statement)
    layer.close()


BENCHES = """\
id,material,note,lon,lat
1,wood,by the gate,174.7600,-36.8500
2,steel,,174.7655,-36.8525
3,steel,,174.7710,-36.8560
4,wood,under the oak,174.7630,-36.8580
5,stone,,174.7690,-36.8490
6,wood,,174.7740,-36.8520
"""
_templates: dict[str, Path] = {}


def repository(within: Path) -> Path:
    """Make a repository `park` of two datasets with its working copy, in a folder."""
    if "park" not in _templates:
        made = Path(HOME) / "template"
        made.mkdir()
        (made / "benches.csv").write_text(BENCHES, "utf-8")
        paths = [f"{at},path {at}" for at in range(1, 4)]
        (made / "paths.csv").write_text("\n".join(["code,name", *paths]) + "\n", "utf-8")
        run(made, "init", str(made / "park"))
        run(
            made / "park",
            *("import", str(made / "benches.csv"), "--primary-key", "id", "--crs", "EPSG:4326"),
            "--csv-drop-coordinates",
        )
        run(made / "park", "import", str(made / "paths.csv"), "--primary-key", "code")
        _templates["park"] = made / "park"
    folder = within / "park"
    shutil.copytree(_templates["park"], folder)
    run(folder, "create-workingcopy")
    return folder


def picture(widget: Any, name: str) -> None:
    """Save what a window looks like, if pictures are wanted."""
    if PICTURES:
        widget.grab().save(str(Path(PICTURES) / f"{name}.png"))
