"""The plugin's windows on Qt 6, with stand-ins for QGIS: what they ask of Qt is there.

    PYTHON-WITH-PYQT6 qgis/tests/on_qt6.py

QGIS 4 is of Qt 6 alone. Widgets, signals, processes and enumerations here are those of PyQt6, and
the command is the real one; of QGIS itself, which is not there, only names are.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
import types
import unittest
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PyQt6 import QtCore, QtGui, QtWidgets

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "qgis" / "havasu_vc"
PROGRAM = os.environ.get("HAVASU_VC_PROGRAM") or str(ROOT / ".venv" / "bin" / "havasu-vc")
PATIENCE = float(os.environ.get("HAVASU_VC_PATIENCE", "300"))
application = QtWidgets.QApplication([])
settings: dict[str, Any] = {"havasu_vc/program": PROGRAM}


class Settings:
    """The settings of QGIS."""

    def value(self, name: str, default: Any = None) -> Any:
        return settings.get(name, default)

    def setValue(self, name: str, value: Any) -> None:
        settings[name] = value


class MapTool(QtCore.QObject):
    """A tool of the map."""

    def __init__(self, canvas: Any) -> None:
        super().__init__()

    def setCursor(self, cursor: Any) -> None:
        assert isinstance(cursor, QtGui.QCursor | QtCore.Qt.CursorShape)


class FileField(QtWidgets.QWidget):
    """A field for the path of a file."""

    def __getattr__(self, name: str) -> Any:
        return mock.MagicMock()


class Base:
    """A class of QGIS that ours are made of."""

    def __init__(self, *arguments: Any) -> None:
        pass


class StandIn(types.ModuleType):
    """A module in which every name is something."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made: Any = type(name, (Base,), {}) if name in CLASSES else mock.MagicMock(name=name)
        setattr(self, name, made)
        return made


CLASSES = {"QgsMapLayer", "QgsVectorLayer", "QgsProcessingAlgorithm", "QgsProcessingProvider"}


def stand_in() -> None:
    """Put Qt 6, and names of QGIS, where the plugin looks for them."""
    core, gui = StandIn("qgis.core"), StandIn("qgis.gui")
    core.QgsSettings = Settings
    core.QgsTask = type("QgsTask", (QtCore.QObject,), {})
    core.QgsApplication.getThemeIcon = lambda name: QtGui.QIcon()
    core.QgsApplication.locale = lambda: "de"
    core.QgsProject.instance().mapLayers.return_value = {}
    core.QgsProcessingException = type("QgsProcessingException", (Exception,), {})
    gui.QgsDockWidget = QtWidgets.QDockWidget
    gui.QgsMapToolIdentify = MapTool
    gui.QgsFileWidget = FileField
    modules = {"qgis": types.ModuleType("qgis"), "qgis.core": core, "qgis.gui": gui}
    modules["qgis.PyQt"] = types.ModuleType("qgis.PyQt")
    for part in (QtCore, QtGui, QtWidgets):
        modules[f"qgis.PyQt.{part.__name__.rpartition('.')[2]}"] = part
    sys.modules.update(modules)


def load() -> Any:
    """Import the plugin as QGIS would."""
    spec = importlib.util.spec_from_file_location(
        "havasu_vc_qgis", FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Interface:
    """What the plugin asks of the main window of QGIS."""

    def __init__(self) -> None:
        self.window = QtWidgets.QMainWindow()
        self.canvas = mock.MagicMock()
        self.said: list[str] = []
        self.bar = mock.MagicMock()
        self.bar.pushMessage.side_effect = lambda title, text, *rest: self.said.append(text)

    def mainWindow(self) -> Any:
        return self.window

    def mapCanvas(self) -> Any:
        return self.canvas

    def messageBar(self) -> Any:
        return self.bar

    def addDockWidget(self, area: Any, dock: Any) -> None:
        self.window.addDockWidget(area, dock)

    def removeDockWidget(self, dock: Any) -> None:
        self.window.removeDockWidget(dock)

    def __getattr__(self, name: str) -> Any:
        return mock.MagicMock()


def run(folder: Path, *arguments: str) -> str:
    """Run the command as a person would."""
    command = [PROGRAM, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wait(condition: Callable[[], object], what: str) -> None:
    """Let Qt work until a condition holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"waited in vain: {what}")
        application.processEvents(QtCore.QEventLoop.ProcessEventsFlag.AllEvents, 20)
        time.sleep(0.002)


def texts(tree: Any) -> list[str]:
    """Return what the first column of a tree says."""
    return [tree.topLevelItem(at).text(0) for at in range(tree.topLevelItemCount())]


stand_in()
plugin = load()


class OnQt6(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        names = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
        person = {f"GIT_{name}": "ana@example.org" for name in names}
        patch = mock.patch.dict(os.environ, {**person, "GIT_CONFIG_GLOBAL": os.devnull})
        patch.start()
        self.addCleanup(patch.stop)
        self.iface = Interface()
        self.plugin = plugin.classFactory(self.iface)
        self.plugin.initGui()
        self.addCleanup(lambda: self.plugin.dock is None or self.plugin.unload())
        self.dock = self.plugin.dock
        # What goes wrong in a slot is told nowhere else.
        self.wrong: list[Any] = []
        hook = mock.patch.object(sys, "excepthook", lambda *what: self.wrong.append(what))
        hook.start()
        self.addCleanup(hook.stop)

    def tearDown(self) -> None:
        self.assertEqual(self.wrong, [])

    def settle(self) -> None:
        wait(lambda: not self.dock.runner.busy, "commands end")

    def made(self) -> Path:
        """Make a repository with two branches that disagree, and a working copy."""
        park, file = self.folder / "park", self.folder / "benches.csv"
        run(self.folder, "init", str(park))
        take = ("import", str(file), "--primary-key", "id", "--crs", "EPSG:4326")
        for branch, material in (("main", "wood"), ("side", "steel"), ("main", "stone")):
            if branch == "side":
                run(park, "branch", "side")
            if material != "wood":
                run(park, "switch", branch)
            file.write_text(
                f"id,material,lon,lat\n1,{material},174,-36\n2,oak,174.1,-36\n", "utf-8"
            )
            more = () if material == "wood" else ("--replace",)
            run(park, *take, *more, "-m", f"Benches of {material}")
        run(park, "create-workingcopy")
        return park

    def test_a_repository_is_opened_looked_at_and_merged(self) -> None:
        park = self.made()
        self.iface.window.show()
        self.dock.open(str(park))
        self.settle()
        self.assertIn("main", self.dock.state.text())
        tree = self.dock.edits.tree
        self.assertEqual(texts(tree), ["benches"])
        self.dock.tabs.setCurrentWidget(self.dock.history)
        self.settle()
        told = texts(self.dock.history.tree)
        self.assertEqual(told, ["[main] Benches of stone", "Benches of wood"])
        self.dock._fill_branches()
        names = [each.text() for each in self.dock.branch_menu.actions()]
        self.assertTrue([name for name in names if "side" in name], names)
        self.dock.runner.run(["merge", "side"], folder=str(park), otherwise=lambda why: None)
        self.settle()
        self.dock.session.refresh()
        self.settle()
        cells = self.dock.conflicts.tree
        self.assertGreater(cells.topLevelItemCount(), 0)
        for widget in (self.dock.edits, self.dock.history, self.dock.conflicts):
            self.dock.tabs.setCurrentWidget(widget)
            application.processEvents()
            self.assertFalse(self.dock.grab().isNull())

    def test_it_goes_as_it_came(self) -> None:
        self.dock.open(str(self.made()))
        self.plugin.unload()
        application.processEvents()
        self.assertIsNone(self.plugin.dock)

    def test_every_name_of_qt_is_there(self) -> None:
        """Also those in code that nothing here runs."""
        count = 0
        for path in sorted(FOLDER.glob("*.py")):
            tree = ast.parse(path.read_text("utf-8"))
            qt = {
                name.asname or name.name: getattr(QtCore, name.name, None)
                or getattr(QtGui, name.name, None)
                or getattr(QtWidgets, name.name, None)
                for node in ast.walk(tree)
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("qgis.PyQt")
                for name in node.names
            }
            self.assertNotIn(None, qt.values(), path)
            for node in ast.walk(tree):
                parts, at = [], node
                while isinstance(at, ast.Attribute):
                    parts.append(at.attr)
                    at = at.value
                if parts and isinstance(at, ast.Name) and at.id in qt:
                    found = qt[at.id]
                    for part in reversed(parts):
                        if not isinstance(found, type):
                            break
                        self.assertTrue(hasattr(found, part), f"{path.name}: {at.id}.{part}")
                        found = getattr(found, part)
                        count += 1
        self.assertGreater(count, 80)


if __name__ == "__main__":
    unittest.main(verbosity=2)
