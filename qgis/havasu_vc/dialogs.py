"""Questions to the person: a folder, a URL, a file, a name."""

from __future__ import annotations

from pathlib import Path

from qgis.gui import QgsFileWidget
from qgis.PyQt.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFileDialog,
    QFormLayout,
    QInputDialog,
    QLabel,
    QLineEdit,
    QVBoxLayout,
    QWidget,
)

from .program import find_program
from .words import tr

__all__ = ["ask_clone", "ask_folder", "ask_import", "ask_program", "ask_text"]


def ask_folder(parent: QWidget, title: str) -> str:
    """Ask for a folder; empty where none is chosen."""
    return str(QFileDialog.getExistingDirectory(parent, title) or "")


def ask_text(parent: QWidget, title: str, label: str) -> str:
    """Ask for a line of text; empty where none is given."""
    text, fine = QInputDialog.getText(parent, title, label)
    return str(text).strip() if fine else ""


class Form(QDialog):
    """A dialog of labelled fields."""

    def __init__(self, parent: QWidget, title: str, note: str = "") -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setMinimumWidth(420)
        self.form = QFormLayout()
        buttons = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(buttons.Ok | buttons.Cancel)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        box = QVBoxLayout(self)
        box.addLayout(self.form)
        if note:
            label = QLabel(note)
            label.setWordWrap(True)
            box.addWidget(label)
        box.addWidget(self.buttons)

    def line(self, label: str, hint: str = "") -> QLineEdit:
        """Add a line of text."""
        line = QLineEdit()
        line.setPlaceholderText(hint)
        self.form.addRow(label, line)
        return line

    def file(self, label: str, mode: QgsFileWidget.StorageMode) -> QgsFileWidget:
        """Add a field for a path."""
        widget = QgsFileWidget()
        widget.setStorageMode(mode)
        self.form.addRow(label, widget)
        return widget

    def accepted_by_person(self) -> bool:
        """Show it; whether it was accepted."""
        return bool(self.exec() == QDialog.DialogCode.Accepted)


def ask_clone(parent: QWidget) -> tuple[str, str] | None:
    """Ask what to clone, and into which folder."""
    form = Form(parent, tr("Clone a repository"))
    url = form.line(tr("URL"), "https://… , ssh://… , /a/folder")
    within = form.file(tr("Within folder"), QgsFileWidget.StorageMode.GetDirectory)
    name = form.line(tr("Name"), tr("as the URL ends"))
    if not form.accepted_by_person() or not url.text().strip() or not within.filePath():
        return None
    last = url.text().strip().rstrip("/").rpartition("/")[2]
    called = name.text().strip() or (last[: -len(".git")] if last.endswith(".git") else last)
    return url.text().strip(), str(Path(within.filePath()) / called)


def ask_import(parent: QWidget) -> tuple[str, str] | None:
    """Ask which file to import, and by which columns its rows are told apart."""
    form = Form(parent, tr("Import a file"), tr("All layers of the file become datasets."))
    source = form.file(tr("File"), QgsFileWidget.StorageMode.GetFile)
    key = form.line(tr("Key columns"), tr("as the file says; id, or area,number"))
    if not form.accepted_by_person() or not source.filePath():
        return None
    return source.filePath(), key.text().strip()


def ask_program(parent: QWidget, now: str) -> str | None:
    """Ask for the path of the command; empty to search for it."""
    found = find_program() or tr("nothing")
    note = tr("Where this is empty, havasu-vc is searched on PATH and in usual places: {}")
    form = Form(parent, tr("Path of havasu-vc"), note.format(found))
    path = form.file(tr("Path"), QgsFileWidget.StorageMode.GetFile)
    path.setFilePath(now)
    return path.filePath().strip() if form.accepted_by_person() else None
