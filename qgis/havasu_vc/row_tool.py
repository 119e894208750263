"""Who changed a row: a tool to click on the map with, and a window with the row's history."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from qgis.core import QgsFeature, QgsGeometry, QgsVectorLayer
from qgis.gui import QgsMapCanvas, QgsMapToolIdentify, QgsRubberBand
from qgis.PyQt.QtCore import Qt, pyqtSignal
from qgis.PyQt.QtGui import QColor
from qgis.PyQt.QtWidgets import (
    QDialog,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from . import commands, layers
from .answers import Answer, Commit, Failure, parse_blame, parse_key_columns, parse_log
from .conflicts_page import geometry_of, shown_value
from .history_page import local_time
from .session import Session
from .words import as_text, tr

__all__ = ["RowTool", "RowWindow", "ask_of_row"]

COMMIT = Qt.ItemDataRole.UserRole


class RowTool(QgsMapToolIdentify):
    """Finds the row of a dataset beneath the mouse."""

    found = pyqtSignal(object, object)
    missed = pyqtSignal()

    def __init__(self, canvas: QgsMapCanvas, session: Session) -> None:
        super().__init__(canvas)
        self._session = session
        self.setCursor(Qt.CursorShape.WhatsThisCursor)

    def canvasReleaseEvent(self, event: Any) -> None:
        """Look for a row where the mouse was clicked."""
        self.look(event.pos().x(), event.pos().y())

    def look(self, x: int, y: int) -> None:
        """Look for a row at a place of the canvas."""
        file, names = self._session.status.file, self._session.datasets
        shown = set(self.canvas().layers())
        searched = [
            layer
            for layer in layers.layers_of(file)
            if layer in shown and layers.dataset_of(layer, file, names)
        ]
        mode = QgsMapToolIdentify.IdentifyMode.TopDownStopAtFirst
        results = self.identify(x, y, searched, mode) if searched else []
        if results:
            self.found.emit(results[0].mLayer, results[0].mFeature)
        else:
            self.missed.emit()


def ask_of_row(
    session: Session, layer: QgsVectorLayer, feature: QgsFeature, then: Callable[..., None]
) -> None:
    """Find the dataset and the key of a feature of the working copy, and call `then` with them."""
    file = session.status.file
    dataset = layers.dataset_of(layer, file, session.datasets)
    if not dataset:
        session.refused.emit(Failure(tr("{} is no dataset").format(layer.name())))
        return

    def got(answer: Answer) -> None:
        columns = parse_key_columns(answer.json())
        names = feature.fields().names()
        if not columns or any(name not in names for name in columns):
            session.refused.emit(Failure(tr("{} has no key to tell rows by").format(dataset)))
            return
        then(dataset, [feature[name] for name in columns], feature.geometry())

    session.read(["describe", "-o", "json", "--", dataset], got, label=tr("Reading the key"))


class RowWindow(QDialog):
    """The history of one row: its commits, its cells, and who gave each its value."""

    def __init__(self, session: Session, iface: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._iface = iface
        self._dataset, self._key = "", [""]
        self._bands: list[QgsRubberBand] = []
        self.resize(780, 480)
        self.head = QLabel()
        self.history = QTreeWidget()
        self.history.setHeaderLabels([tr("Commits of this row"), tr("Author"), tr("When")])
        self.history.setRootIsDecorated(False)
        self.history.currentItemChanged.connect(lambda now, before: self._read_row(now))
        self.cells = QTreeWidget()
        titles = [tr("Column"), tr("Value then"), tr("Last changed by"), tr("When"), tr("Commit")]
        self.cells.setHeaderLabels(titles)
        self.cells.setRootIsDecorated(False)
        for tree in (self.history, self.cells):
            tree.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
            tree.header().setSectionResizeMode(
                0 if tree is self.history else 1, QHeaderView.ResizeMode.Stretch
            )
            tree.header().setStretchLastSection(False)
        self.restore_button = QPushButton(tr("Bring the row back as it was then"))
        self.restore_button.setEnabled(False)
        self.restore_button.clicked.connect(self.restore)
        row = QHBoxLayout()
        row.addStretch()
        row.addWidget(self.restore_button)
        box = QVBoxLayout(self)
        for widget in (self.head, self.history, self.cells):
            box.addWidget(widget)
        box.addLayout(row)
        self.finished.connect(lambda result: self._clear())

    def show_row(self, dataset: str, key: list[Any], geometry: QgsGeometry | None = None) -> None:
        """Ask for a row's history and its blame, and show both."""
        self._dataset, self._key = dataset, key
        self.setWindowTitle(tr("Who changed this row?"))
        self.head.setText(as_text(f"{dataset}: {commands.key_text(key)}"))
        self.history.clear()
        self.cells.clear()
        self.restore_button.setEnabled(False)
        filter_ = commands.row_filter(dataset, key)
        self._session.read(
            commands.history(filter_), self._got_history, label=tr("Reading the row's history")
        )
        self.show()
        self.raise_()

    def _got_history(self, answer: Answer) -> None:
        for commit in parse_log(answer.json()):
            texts = [f"{commit.short}  {commit.subject}", commit.author, local_time(commit.time)]
            item = QTreeWidgetItem(self.history, texts)
            item.setData(0, COMMIT, commit)
            item.setToolTip(0, as_text(commit.message.strip()))
        if self.history.topLevelItemCount():
            self.history.setCurrentItem(self.history.topLevelItem(0))
        else:
            QTreeWidgetItem(self.history, [tr("This row is not committed yet")])

    def _commit(self) -> Commit | None:
        item = self.history.currentItem()
        commit = item.data(0, COMMIT) if item is not None else None
        return commit if isinstance(commit, Commit) else None

    def _read_row(self, item: QTreeWidgetItem | None) -> None:
        commit = self._commit()
        if commit is None:
            return
        arguments = commands.row_at(commit.id, self._dataset, self._key)
        self._session.read(
            arguments,
            lambda answer: self._got_row(commit, answer.json()),
            label=tr("Reading the row"),
            otherwise=lambda failure: self._got_row(commit, None),
        )

    def _got_row(self, commit: Commit, row: Any) -> None:
        """Show a row as it was at a commit; None where the commit deleted it."""
        if self._commit() != commit:
            return
        self.cells.clear()
        self._clear_bands()
        self.restore_button.setEnabled(isinstance(row, dict))
        if not isinstance(row, dict):
            QTreeWidgetItem(self.cells, [tr("deleted")])
            return
        for name, value in row.items():
            item = QTreeWidgetItem(self.cells, [name, shown_value(value)])
            item.setToolTip(1, as_text(shown_value(value)))
            if (geometry := geometry_of(value)) is not None:
                self._mark(geometry)
        arguments = commands.blame(self._dataset, self._key, row)
        ref = ["--ref", commit.id]
        self._session.read(
            [arguments[0], *ref, *arguments[1:]],
            lambda answer: self._got_blame(commit, answer),
            label=tr("Asking who changed each cell"),
            otherwise=lambda failure: None,
        )

    def _got_blame(self, commit: Commit, answer: Answer) -> None:
        if self._commit() != commit:
            return
        cells = parse_blame(answer.json()).cells
        for at in range(self.cells.topLevelItemCount()):
            item = self.cells.topLevelItem(at)
            if (by := cells.get(item.text(0))) is not None:
                item.setText(2, by.author)
                item.setText(3, local_time(by.time))
                item.setText(4, f"{by.short} {by.subject}")
                item.setToolTip(4, as_text(by.message.strip()))

    def restore(self) -> None:
        """Give the working copy the row as it was at the chosen commit."""
        commit = self._commit()
        if commit is None:
            return
        filters = [commands.row_filter(self._dataset, self._key)]
        told = tr("The row is as it was at {}; commit it to keep it so").format(commit.short)
        arguments = commands.restore(filters, commit.id)
        self._session.change(arguments, label=tr("Bringing the row back"), told=told)

    def _layer(self) -> QgsVectorLayer | None:
        file, names = self._session.status.file, self._session.datasets
        for layer in layers.layers_of(file):
            if layers.dataset_of(layer, file, names) == self._dataset:
                return layer
        return None

    def _mark(self, geometry: QgsGeometry) -> None:
        """Mark on the map where the row was."""
        layer = self._layer()
        if layer is None:
            return
        band = QgsRubberBand(self._iface.mapCanvas(), geometry.type())
        band.setToGeometry(geometry, layer)
        band.setColor(QColor("#e67e22"))
        band.setFillColor(QColor(230, 126, 34, 40))
        band.setWidth(3)
        band.setIconSize(14)
        self._bands.append(band)

    def _clear_bands(self) -> None:
        for band in self._bands:
            self._iface.mapCanvas().scene().removeItem(band)
        self._bands.clear()

    def _clear(self) -> None:
        self._clear_bands()
