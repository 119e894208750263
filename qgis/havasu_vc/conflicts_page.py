"""The page of conflicts: what each side has in each cell, as buttons; then conclude, or abort."""

from __future__ import annotations

from typing import Any

from qgis.core import QgsGeometry
from qgis.PyQt.QtCore import QByteArray, Qt
from qgis.PyQt.QtGui import QColor
from qgis.PyQt.QtWidgets import (
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QMessageBox,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from . import commands, layers
from .answers import SIDES, Conflict
from .session import Session
from .words import as_text, tr, without_mnemonic

__all__ = ["ConflictsPage", "shown_value"]

CONFLICT = Qt.ItemDataRole.UserRole
MOST_SHOWN = 200
"""Conflicts that are shown at once: each has widgets of its own."""
LONGEST = 28


def side_titles() -> dict[str, str]:
    """Return what the sides of a merge are called."""
    return {"ancestor": tr("Ancestor"), "ours": tr("Ours"), "theirs": tr("Theirs")}


def geometry_of(value: Any) -> QgsGeometry | None:
    """Return the geometry that a value of hexadecimal WKB is; None for other values."""
    if not isinstance(value, str) or len(value) < 18 or value[:2] not in ("00", "01"):
        return None
    try:
        data = bytes.fromhex(value)
    except ValueError:
        return None
    geometry = QgsGeometry()
    geometry.fromWkb(QByteArray(data))
    return None if geometry.isNull() else geometry


def shown_value(value: Any) -> str:
    """Return a value as a person reads it."""
    if value is None:
        return "NULL"
    geometry = geometry_of(value)
    return str(value) if geometry is None else geometry.asWkt(5)


class ConflictsPage(QWidget):
    """The conflicts of the merge that waits."""

    def __init__(self, session: Session, iface: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._iface = iface
        self.chosen: dict[str, dict[str, str]] = {}
        """The sides that were chosen for cells, by the label of their row."""
        self.buttons: dict[tuple[str, str, str], QPushButton] = {}
        """By the row's label, the column (empty for the whole row) and the side."""
        self.head = QLabel()
        self.head.setTextFormat(Qt.TextFormat.PlainText)
        self.head.setWordWrap(True)
        self.tree = QTreeWidget()
        self.tree.setHeaderLabels([tr("Row"), *side_titles().values()])
        self.tree.header().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        self.tree.currentItemChanged.connect(lambda now, before: self._flash(now))
        self.all_ours = QPushButton(tr("All ours"))
        self.all_ours.clicked.connect(lambda: self._ask_all("ours"))
        self.all_theirs = QPushButton(tr("All theirs"))
        self.all_theirs.clicked.connect(lambda: self._ask_all("theirs"))
        self.conclude_button = QPushButton(tr("Conclude merge"))
        self.conclude_button.clicked.connect(self.conclude)
        self.abort_button = QPushButton(tr("Abort"))
        self.abort_button.clicked.connect(self._ask_abort)
        row = QHBoxLayout()
        for button in (self.all_ours, self.all_theirs):
            row.addWidget(button)
        row.addStretch()
        for button in (self.abort_button, self.conclude_button):
            row.addWidget(button)
        box = QVBoxLayout(self)
        box.setContentsMargins(4, 4, 4, 4)
        box.addWidget(self.head)
        box.addWidget(self.tree)
        box.addLayout(row)
        session.refreshed.connect(self.fill)

    def fill(self) -> None:
        """Show what waits to be decided."""
        status, found = self._session.status, self._session.conflicts
        self.tree.clear()
        self.buttons.clear()
        labels = {each.label for each in found}
        self.chosen = {label: cells for label, cells in self.chosen.items() if label in labels}
        for conflict in found[:MOST_SHOWN]:
            self._add(conflict)
        told = tr("Merging {} into {}: {} to decide.")
        text = told.format(status.merging, status.branch, status.conflicts)
        if not status.conflicts:
            text = tr("Merging {} into {}: all is decided.").format(status.merging, status.branch)
        if len(found) > MOST_SHOWN:
            text += " " + tr("The first {} are shown.").format(MOST_SHOWN)
        self.head.setText(text if status.merging else "")
        undecided = status.conflicts > 0
        self.all_ours.setEnabled(undecided)
        self.all_theirs.setEnabled(undecided)
        self.conclude_button.setEnabled(bool(status.merging) and not undecided)
        self.abort_button.setEnabled(bool(status.merging))

    def _add(self, conflict: Conflict) -> None:
        item = QTreeWidgetItem(self.tree, [f"{conflict.dataset} {conflict.item}"])
        item.setData(0, CONFLICT, conflict)
        item.setToolTip(0, as_text(conflict.label))
        titles = side_titles()
        for column, side in enumerate(SIDES, 1):
            value = conflict.sides.get(side)
            text = tr("no row") if value is None and conflict.is_row else titles[side]
            if value is None and side == "ancestor":
                item.setText(column, tr("no row") if conflict.is_row else "")
                continue
            self._button(item, column, (conflict.label, "", side), text, tr("Take the whole: {}"))
        for name in conflict.cells:
            child = QTreeWidgetItem(item, [name])
            for column, side in enumerate(SIDES, 1):
                row = conflict.sides.get(side)
                if isinstance(row, dict):
                    text = shown_value(row.get(name))
                    where = conflict.label, name, side
                    self._button(child, column, where, text, "{}")
        item.setExpanded(True)

    def _button(
        self, item: QTreeWidgetItem, column: int, where: tuple[str, str, str], text: str, tip: str
    ) -> None:
        label, name, side = where
        short = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
        button = QPushButton(without_mnemonic(short))
        button.setToolTip(as_text(tip.format(text)))
        if name:
            button.setCheckable(True)
            button.setChecked(self.chosen.get(label, {}).get(name) == side)
            button.clicked.connect(lambda: self.choose(label, name, side))
        else:
            button.clicked.connect(lambda: self.take(label, side))
        self.buttons[where] = button
        self.tree.setItemWidget(item, column, button)

    def choose(self, label: str, name: str, side: str) -> None:
        """Choose a side for a cell; when all of the row's are chosen, the row is resolved."""
        conflict = next((each for each in self._session.conflicts if each.label == label), None)
        if conflict is None:
            return
        cells = self.chosen.setdefault(label, {})
        cells[name] = side
        for each in SIDES:
            if (button := self.buttons.get((label, name, each))) is not None:
                button.setChecked(each == side)
        if set(cells) == set(conflict.cells):
            arguments = commands.resolve(label, columns=cells)
            if not self._session.change(arguments, label=tr("Resolving")):
                del self.chosen[label]
                self.fill()

    def take(self, label: str, side: str) -> None:
        """Resolve a row or item by taking the whole from a side."""
        self._session.change(commands.resolve(label, side), label=tr("Resolving"))

    def take_all(self, side: str) -> None:
        """Resolve all conflicts by one side."""
        arguments = ["resolve", "--all", f"--with={side}"]
        self._session.change(arguments, label=tr("Resolving"))

    def conclude(self) -> None:
        """Commit the merge."""
        told = tr("The merge is concluded")
        self._session.change(commands.MERGE_CONTINUE, label=tr("Concluding"), told=told)

    def abort(self) -> None:
        """Drop the merge."""
        told = tr("The merge is aborted")
        self._session.change(commands.MERGE_ABORT, label=tr("Aborting"), told=told)

    def _ask_all(self, side: str) -> None:
        if self._sure(tr("Take {} in all conflicts?").format(side_titles()[side])):
            self.take_all(side)

    def _ask_abort(self) -> None:
        if self._sure(tr("Drop the merge and all that was decided?")):
            self.abort()

    def _sure(self, question: str) -> bool:
        buttons = QMessageBox.StandardButton
        chosen = QMessageBox.question(self, tr("Conflicts"), question, buttons.Yes | buttons.No)
        return bool(chosen == buttons.Yes)

    def _flash(self, item: QTreeWidgetItem | None) -> None:
        """Let the geometries of a row flash on the map, where its layer is open."""
        conflict = item.data(0, CONFLICT) if item is not None else None
        if not isinstance(conflict, Conflict) or not conflict.is_row:
            return
        file, names = self._session.status.file, self._session.datasets
        shown = (
            layer
            for layer in layers.layers_of(file)
            if layers.dataset_of(layer, file, names) == conflict.dataset
        )
        layer = next(shown, None)
        rows = [row for row in conflict.sides.values() if isinstance(row, dict)]
        shapes = [geometry_of(value) for row in rows for value in row.values()]
        found = [shape for shape in shapes if shape is not None]
        if layer is not None and found:
            color = QColor("#e67e22")
            self._iface.mapCanvas().flashGeometries(found, layer.crs(), color, QColor(0, 0, 0, 0))
