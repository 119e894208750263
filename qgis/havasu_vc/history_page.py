"""The page of history: commits of the repository or of a dataset, and what one can do with each."""

from __future__ import annotations

from datetime import datetime

from qgis.PyQt.QtCore import QPoint, Qt
from qgis.PyQt.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QHeaderView,
    QInputDialog,
    QLabel,
    QMenu,
    QMessageBox,
    QPushButton,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from . import commands
from .answers import Answer, Commit, Counts, Failure, parse_log
from .changes_view import ChangesView
from .session import Session
from .words import as_text, tr

__all__ = ["HistoryPage", "local_time"]

COMMIT = Qt.ItemDataRole.UserRole
PAGE = 200


def local_time(time: str) -> str:
    """Return when a commit was made, in the local zone."""
    try:
        then = datetime.fromisoformat(time.replace("Z", "+00:00"))
    except ValueError:
        return time
    return then.astimezone().strftime("%Y-%m-%d %H:%M")


class HistoryPage(QWidget):
    """Commits, the newest first."""

    def __init__(self, session: Session, view: ChangesView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._view = view
        self._told_of: tuple[str, str, str] = ("", "", "")
        self.dataset = QComboBox()
        self.dataset.currentIndexChanged.connect(lambda index: self.read())
        self.tree = QTreeWidget()
        self.tree.setHeaderLabels([tr("Message"), tr("Rows"), tr("Author"), tr("When")])
        self.tree.setRootIsDecorated(False)
        self.tree.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        for column in (1, 2, 3):
            mode = QHeaderView.ResizeMode.ResizeToContents
            self.tree.header().setSectionResizeMode(column, mode)
        self.tree.header().setStretchLastSection(False)
        self.tree.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.tree.customContextMenuRequested.connect(self._menu)
        self.tree.itemDoubleClicked.connect(lambda item, column: self.show_commit())
        self.show_button = QPushButton(tr("Show changes on the map"))
        self.show_button.clicked.connect(self.show_commit)
        self.more_button = QPushButton(tr("More"))
        self.more_button.clicked.connect(lambda: self.read(more=True))
        self.more_button.hide()
        top = QHBoxLayout()
        top.addWidget(QLabel(tr("History of")))
        top.addWidget(self.dataset, 1)
        row = QHBoxLayout()
        row.addWidget(self.more_button)
        row.addStretch()
        row.addWidget(self.show_button)
        box = QVBoxLayout(self)
        box.setContentsMargins(4, 4, 4, 4)
        box.addLayout(top)
        box.addWidget(self.tree)
        box.addLayout(row)
        session.refreshed.connect(self._refreshed)
        session.opened.connect(self._opened)

    def _opened(self) -> None:
        self._told_of = ("", "", "")
        self.tree.clear()

    def _refreshed(self) -> None:
        """Read history anew where HEAD moved, and keep what was chosen."""
        chosen = self.path
        self.dataset.blockSignals(True)
        self.dataset.clear()
        self.dataset.addItem(tr("all datasets"), "")
        for path in self._session.datasets:
            self.dataset.addItem(path, path)
        self.dataset.setCurrentIndex(max(0, self.dataset.findData(chosen)))
        self.dataset.blockSignals(False)
        now = self._session.folder, self._session.status.commit, self.path
        if self._session.known and now != self._told_of:
            self.read()

    @property
    def path(self) -> str:
        """The dataset whose history is shown; empty for all."""
        return str(self.dataset.currentData() or "")

    def choose(self, path: str) -> None:
        """Show the history of a dataset."""
        self.dataset.setCurrentIndex(max(0, self.dataset.findData(path)))

    def read(self, *, more: bool = False) -> None:
        """Read commits."""
        status = self._session.status
        self._told_of = self._session.folder, status.commit, self.path
        if not status.commit:
            self.tree.clear()
            return
        skip = self.tree.topLevelItemCount() if more else 0
        arguments = commands.history(self.path, PAGE, skip)

        def got(answer: Answer) -> None:
            if not skip:
                self.tree.clear()
            found = parse_log(answer.json())
            for commit in found:
                self._add(commit)
            self.more_button.setVisible(len(found) == PAGE)

        def failed(failure: Failure) -> None:
            self._session.refused.emit(failure)

        self._session.read(arguments, got, label=tr("Reading history"), otherwise=failed)

    def _add(self, commit: Commit) -> None:
        named = [each for each in commit.refs if not each.endswith("/HEAD")]
        refs = [each.replace("HEAD -> ", "") for each in named]
        shown = f"[{', '.join(refs)}] " if refs else ""
        rows = [each for path, each in commit.counts.items() if not self.path or path == self.path]
        total = Counts(
            sum(each.inserts for each in rows),
            sum(each.updates for each in rows),
            sum(each.deletes for each in rows),
        )
        time = local_time(commit.time)
        texts = [f"{shown}{commit.subject}", str(total), commit.author, time.partition(" ")[0]]
        item = QTreeWidgetItem(self.tree, texts)
        item.setData(0, COMMIT, commit)
        lines = [f"{path}: {counts}" for path, counts in commit.counts.items()]
        told = [commit.id, local_time(commit.time), commit.message.strip(), "", *lines]
        item.setToolTip(0, as_text("\n".join(told)))

    def chosen(self) -> list[Commit]:
        """Return the commits that are chosen, or the newest."""
        items = self.tree.selectedItems() or [
            self.tree.topLevelItem(at) for at in range(min(1, self.tree.topLevelItemCount()))
        ]
        return [item.data(0, COMMIT) for item in items]

    def show_commit(self) -> None:
        """Show what a commit changed on the map."""
        for commit in self.chosen()[:1]:
            filters = [self.path] if self.path else []
            self._view.show(
                f"{commit.short} {commit.subject}", f"{commit.id}^?..{commit.id}", filters
            )

    def show_since(self, commit: Commit) -> None:
        """Show on the map what differs between a commit and HEAD."""
        filters = [self.path] if self.path else []
        self._view.show(tr("Since {}").format(commit.short), f"{commit.id}..HEAD", filters)

    def restore(self, commit: Commit) -> None:
        """Give the working copy a dataset, or all, as they were at a commit."""
        told = tr("Rows are as they were at {}; commit them to keep it so").format(commit.short)
        arguments = commands.restore([self.path] if self.path else [], commit.id)
        self._session.change(arguments, label=tr("Bringing rows back"), told=told)

    def _ask_restore(self, commit: Commit) -> None:
        what = self.path or tr("all datasets")
        question = tr("Make {} what it was at {}? You can look at it before you commit it.")
        buttons = QMessageBox.StandardButton
        chosen = QMessageBox.question(
            self,
            tr("Bring rows back"),
            question.format(what, commit.short),
            buttons.Yes | buttons.No,
        )
        if chosen == buttons.Yes:
            self.restore(commit)

    def _ask_branch(self, commit: Commit) -> None:
        name, fine = QInputDialog.getText(self, tr("New branch"), tr("Name of the branch"))
        if fine and name.strip():
            arguments = commands.new_branch(name.strip(), commit.id)
            self._session.change(arguments, label=tr("Making a branch"))

    def _menu(self, at: QPoint) -> None:
        item = self.tree.itemAt(at)
        if item is None:
            return
        commit: Commit = item.data(0, COMMIT)
        menu = QMenu(self)
        menu.addAction(tr("Show its changes on the map")).triggered.connect(self.show_commit)
        since = menu.addAction(tr("Show what differs since on the map"))
        since.triggered.connect(lambda: self.show_since(commit))
        menu.addSeparator()
        back = menu.addAction(tr("Bring rows back as they were…"))
        back.triggered.connect(lambda: self._ask_restore(commit))
        branch = menu.addAction(tr("New branch from here…"))
        branch.triggered.connect(lambda: self._ask_branch(commit))
        menu.exec(self.tree.viewport().mapToGlobal(at))
