"""Shows changes on the map: asks the command for rows, a task reads them, layers appear."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from qgis.core import (
    QgsApplication,
    QgsCoordinateTransform,
    QgsCsException,
    QgsProject,
    QgsRectangle,
    QgsVectorLayer,
)
from qgis.PyQt.QtCore import QObject

from . import commands
from .answers import Answer
from .diff_layers import DiffTask, add_layers, unknown_crs
from .session import Session
from .settings import Settings
from .words import tr

__all__ = ["ChangesView"]

EVERYWHERE = "EPSG:4326"


class ChangesView(QObject):
    """The changes that are on the map."""

    def __init__(self, session: Session, iface: Any, settings: Settings) -> None:
        super().__init__(session)
        self._session = session
        self._iface = iface
        self._settings = settings
        self._task: DiffTask | None = None

    def show(
        self,
        title: str,
        revisions: str = "",
        filters: Sequence[str] = (),
        then: Callable[[list[QgsVectorLayer]], None] | None = None,
        crs: str = "",
    ) -> None:
        """Put rows that differ on the map: between revisions, or those that are edited."""

        def read(answer: Answer) -> None:
            self._task = DiffTask(answer.out, self._settings.most_changes, shown)
            QgsApplication.taskManager().addTask(self._task)

        def shown(task: DiffTask) -> None:
            self._task = None
            if task.error:
                self._session.told.emit(tr("The changes cannot be read: {}").format(task.error))
            elif not crs and unknown_crs(task):
                self.show(title, revisions, filters, then, EVERYWHERE)
            else:
                self._add(task, title, crs, then)

        arguments = commands.diff(revisions, filters, crs)
        self._session.read(arguments, read, label=tr("Comparing rows"))

    def _add(
        self,
        task: DiffTask,
        title: str,
        crs: str,
        then: Callable[[list[QgsVectorLayer]], None] | None,
    ) -> None:
        made = add_layers(task, title, crs)
        if not made:
            self._session.told.emit(tr("No rows differ"))
        if not task.whole:
            told = tr("Only the first {} changed rows are shown")
            self._session.told.emit(told.format(f"{self._settings.most_changes:,}"))
        self._zoom(made)
        if then is not None:
            then(made)

    def _zoom(self, made: list[QgsVectorLayer]) -> None:
        canvas = self._iface.mapCanvas()
        box = QgsRectangle()
        target = canvas.mapSettings().destinationCrs()
        for layer in made:
            if not layer.isSpatial() or layer.extent().isNull():
                continue
            extent = layer.extent()
            if layer.crs().isValid() and target.isValid():
                over = QgsCoordinateTransform(layer.crs(), target, QgsProject.instance())
                try:
                    extent = over.transformBoundingBox(extent)
                except QgsCsException:
                    continue
            box.combineExtentWith(extent)
        if box.isNull():
            return
        if box.isEmpty():
            box.grow(0.002 if not target.isValid() or target.isGeographic() else 100)
        box.scale(1.3)
        canvas.setExtent(box)
        canvas.refresh()
