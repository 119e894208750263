"""The page of edits: datasets with what is edited in them, rows to tick, a message, commit."""

from __future__ import annotations

from functools import partial
from typing import Any

from qgis.core import QgsApplication
from qgis.PyQt.QtCore import QPoint, Qt
from qgis.PyQt.QtWidgets import (
    QHBoxLayout,
    QHeaderView,
    QMenu,
    QMessageBox,
    QPlainTextEdit,
    QPushButton,
    QToolButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from . import commands, layers
from .answers import Answer, Counts
from .changes import DatasetChanges, read_changes
from .changes_view import ChangesView
from .session import Session
from .words import as_text, tr

__all__ = ["EditsPage"]

PATH = Qt.ItemDataRole.UserRole
ROW = Qt.ItemDataRole.UserRole + 1
"""On a row: its filter. On a dataset: whether its rows were asked for."""
MOST_ROWS = 500
CHECKED, UNCHECKED = Qt.CheckState.Checked, Qt.CheckState.Unchecked
SIGNS = {"insert": "+", "update": "~", "delete": "−"}


class EditsPage(QWidget):
    """What is edited, and what is done with it."""

    def __init__(self, session: Session, view: ChangesView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._view = view
        self.tree = QTreeWidget()
        self.tree.setHeaderLabels([tr("Dataset"), tr("Edits")])
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.tree.header().setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.tree.header().setStretchLastSection(False)
        self.tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.tree.customContextMenuRequested.connect(self._menu)
        self.tree.itemExpanded.connect(self._expand)
        self.tree.itemChanged.connect(self._ticked)
        self.tree.itemDoubleClicked.connect(lambda item, column: self.open_layer(item))
        self.message = QPlainTextEdit()
        self.message.setPlaceholderText(tr("What was changed, and why?"))
        self.message.setMaximumHeight(64)
        self.message.textChanged.connect(self._enable)
        self.commit_button = QPushButton(tr("Commit"))
        self.commit_button.setToolTip(tr("Commit what is ticked"))
        self.commit_button.clicked.connect(self.commit)
        self.show_button = self._button("mActionShowAllLayers.svg", tr("Show edits on the map"))
        self.show_button.clicked.connect(lambda: self.show_edits())
        self.discard_button = self._button("mActionUndo.svg", tr("Drop what is ticked"))
        self.discard_button.clicked.connect(lambda: self.ask_discard(self.ticked_filters()))
        self.open_button = self._button("mActionAddOgrLayer.svg", tr("Open all layers"))
        self.open_button.clicked.connect(self.open_all)
        row = QHBoxLayout()
        for button in (self.open_button, self.show_button, self.discard_button):
            row.addWidget(button)
        row.addStretch()
        row.addWidget(self.commit_button)
        box = QVBoxLayout(self)
        box.setContentsMargins(4, 4, 4, 4)
        box.addWidget(self.tree)
        box.addWidget(self.message)
        box.addLayout(row)
        session.refreshed.connect(self.fill)
        session.opened.connect(self.fill)
        self.fill()

    def _button(self, icon: str, text: str) -> QToolButton:
        button = QToolButton()
        button.setIcon(QgsApplication.getThemeIcon(f"/{icon}"))
        button.setToolTip(text)
        return button

    def _items(self) -> list[QTreeWidgetItem]:
        return [self.tree.topLevelItem(at) for at in range(self.tree.topLevelItemCount())]

    def fill(self) -> None:
        """Show the datasets, those that are edited first."""
        status = self._session.status
        unticked = {item.data(0, PATH) for item in self._items() if item.checkState(0) == UNCHECKED}
        edited_before = {item.data(0, PATH) for item in self._items() if item.text(1)}
        self.tree.blockSignals(True)
        self.tree.clear()
        edited = sorted(status.edits)
        for path in [*edited, *(each for each in self._session.datasets if each not in edited)]:
            self._add(path, ticked=path not in unticked or path not in edited_before)
        for name in status.untracked:
            item = QTreeWidgetItem(self.tree, [name, tr("no dataset yet")])
            item.setToolTip(0, tr("A layer that is new in the file; its menu makes it a dataset"))
        self.tree.blockSignals(False)
        self._enable()

    def _add(self, path: str, *, ticked: bool) -> None:
        edits = self._session.status.edits.get(path)
        item = QTreeWidgetItem(self.tree, [path, ""])
        item.setData(0, PATH, path)
        if edits is None:
            return
        told = [str(edits.rows)] if edits.rows.total else []
        told += [tr("columns or title")] if edits.meta else []
        item.setText(1, ", ".join(told))
        item.setToolTip(1, _in_words(edits.rows))
        font = item.font(0)
        font.setBold(True)
        item.setFont(0, font)
        item.setCheckState(0, CHECKED if ticked else UNCHECKED)
        if edits.rows.total:
            QTreeWidgetItem(item, [tr("Reading…"), ""])

    def _expand(self, item: QTreeWidgetItem) -> None:
        """Ask for the rows of a dataset when they are first looked at."""
        path = item.data(0, PATH)
        if not path or item.data(0, ROW):
            return
        item.setData(0, ROW, "asked")
        then = partial(self._got_rows, path)
        self._session.read(commands.diff("", [path]), then, label=tr("Reading edits"))

    def _got_rows(self, path: str, answer: Answer) -> None:
        found, whole = read_changes(answer.out.split("\n"), MOST_ROWS)
        changes = found.get(path)
        item = next((each for each in self._items() if each.data(0, PATH) == path), None)
        if item is None or changes is None:
            return
        self.tree.blockSignals(True)
        item.takeChildren()
        ticked = item.checkState(0)
        for row in changes.rows:
            self._add_row(item, changes, row, ticked)
        if not whole:
            QTreeWidgetItem(item, [tr("… and others"), ""])
        self.tree.blockSignals(False)

    def _add_row(
        self, item: QTreeWidgetItem, changes: DatasetChanges, row: Any, ticked: Qt.CheckState
    ) -> None:
        key = changes.key(row)
        told = ", ".join(row.columns) if row.kind == "update" else ""
        name = ", ".join(str(value) for value in key) or tr("a row without a key")
        child = QTreeWidgetItem(item, [name, f"{SIGNS[row.kind]} {told}".strip()])
        child.setToolTip(1, as_text(told))
        if key:
            child.setData(0, ROW, commands.row_filter(changes.path, key))
            child.setCheckState(0, ticked)

    def _ticked(self, item: QTreeWidgetItem, column: int) -> None:
        """Let rows follow their dataset, and a dataset its rows."""
        self.tree.blockSignals(True)
        parent = item.parent()
        if parent is None:
            for at in range(item.childCount()):
                if item.child(at).data(0, ROW):
                    item.child(at).setCheckState(0, item.checkState(0))
        else:
            states = {parent.child(at).checkState(0) for at in range(parent.childCount())}
            mixed = Qt.CheckState.PartiallyChecked
            parent.setCheckState(0, states.pop() if len(states) == 1 else mixed)
        self.tree.blockSignals(False)
        self._enable()

    def ticked_filters(self) -> list[str]:
        """Return the filters of what is ticked; one for a dataset of which all is."""
        filters = []
        for item in self._items():
            if not item.text(1) or item.data(0, PATH) is None:
                continue
            if item.checkState(0) == CHECKED:
                filters.append(item.data(0, PATH))
            elif item.checkState(0) == Qt.CheckState.PartiallyChecked:
                rows = [item.child(at) for at in range(item.childCount())]
                filters += [each.data(0, ROW) for each in rows if each.checkState(0) == CHECKED]
        return filters

    def _enable(self) -> None:
        ticked = bool(self.ticked_filters())
        written = bool(self.message.toPlainText().strip())
        self.commit_button.setEnabled(ticked and written and not self._session.status.merging)
        self.discard_button.setEnabled(ticked)
        self.show_button.setEnabled(bool(self._session.status.edits))
        self.open_button.setEnabled(bool(self._session.status.file and self._session.datasets))

    def commit(self) -> None:
        """Commit what is ticked with the message."""
        message = self.message.toPlainText().strip()
        filters = self.ticked_filters()
        if not message or not filters:
            return
        arguments = commands.commit(message, filters)
        told = tr("Committed: {}").format(message.partition("\n")[0])
        self._session.change(
            arguments,
            label=tr("Committing"),
            told=told,
            moves=False,
            then=lambda answer: self.message.clear(),
        )

    def ask_discard(self, filters: list[str]) -> None:
        """Drop edits, once it is confirmed."""
        question = tr("Drop these edits? They cannot be brought back.\n\n{}")
        buttons = QMessageBox.StandardButton
        shown = "\n".join([*filters[:10], *(["…"] if len(filters) > 10 else [])])
        chosen = QMessageBox.question(
            self, tr("Drop edits"), question.format(shown), buttons.Yes | buttons.No
        )
        if chosen == buttons.Yes:
            self.discard(filters)

    def discard(self, filters: list[str]) -> None:
        """Drop edits."""
        arguments = commands.restore(filters)
        self._session.change(arguments, label=tr("Dropping edits"), told=tr("Edits were dropped"))

    def show_edits(self, path: str = "") -> None:
        """Show what is edited on the map."""
        title = tr("Edits of {}").format(path) if path else tr("Edits")
        self._view.show(title, "", [path] if path else [])

    def open_layer(self, item: QTreeWidgetItem) -> None:
        """Open the layer of a dataset."""
        if path := item.data(0, PATH):
            self._open(path)

    def _open(self, path: str) -> None:
        file = self._session.status.file
        if file and layers.open_dataset(file, path) is None:
            self._session.told.emit(tr("{} has no layer in the working copy").format(path))

    def open_all(self) -> None:
        """Open the layers of all datasets."""
        for path in self._session.datasets:
            self._open(path)

    def _menu(self, at: QPoint) -> None:
        item = self.tree.itemAt(at)
        if item is None or item.parent() is not None:
            return
        menu = QMenu(self)
        path = item.data(0, PATH)
        if path is None:
            name = item.text(0)
            menu.addAction(tr("Make it a dataset")).triggered.connect(
                lambda: self._session.change(
                    ["add-dataset", "-m", f"Add {name}", "--", name],
                    label=tr("Adding a dataset"),
                    moves=False,
                )
            )
        else:
            menu.addAction(tr("Open layer")).triggered.connect(lambda: self._open(path))
            if item.text(1):
                shown = menu.addAction(tr("Show edits on the map"))
                shown.triggered.connect(lambda: self.show_edits(path))
                dropped = menu.addAction(tr("Drop edits"))
                dropped.triggered.connect(lambda: self.ask_discard([path]))
        menu.exec(self.tree.viewport().mapToGlobal(at))


def _in_words(rows: Counts) -> str:
    return tr("{} inserted, {} updated, {} deleted").format(
        rows.inserts, rows.updates, rows.deletes
    )
