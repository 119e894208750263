"""The dock: which repository, on which branch, and pages of edits, history and conflicts."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qgis.core import Qgis, QgsApplication
from qgis.gui import QgsDockWidget
from qgis.PyQt.QtCore import QFileSystemWatcher, Qt, QTimer
from qgis.PyQt.QtWidgets import (
    QComboBox,
    QHBoxLayout,
    QLabel,
    QMenu,
    QProgressBar,
    QPushButton,
    QTabWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from . import commands
from .answers import Answer, Failure
from .changes_view import ChangesView
from .conflicts_page import ConflictsPage
from .dialogs import ask_clone, ask_folder, ask_import, ask_program, ask_text
from .diff_layers import remove_layers
from .edits_page import EditsPage
from .history_page import HistoryPage
from .row_tool import RowTool, RowWindow, ask_of_row
from .running import Runner
from .session import Session
from .settings import Settings
from .words import as_text, tr, without_mnemonic

__all__ = ["Dock"]

TITLE = "Havasu VC"
QUIET = 700
"""Milliseconds without another change of the file before the state is read anew."""


class Dock(QgsDockWidget):
    """The plugin's window."""

    def __init__(self, iface: Any, settings: Settings | None = None) -> None:
        super().__init__(TITLE)
        self.setObjectName("HavasuVcDock")
        self._iface = iface
        self.settings = settings or Settings()
        self.runner = Runner(self.settings, self)
        self.session = Session(self.runner, self)
        self.view = ChangesView(self.session, iface, self.settings)
        self.edits = EditsPage(self.session, self.view)
        self.history = HistoryPage(self.session, self.view)
        self.conflicts = ConflictsPage(self.session, iface)
        self.row_window = RowWindow(self.session, iface, iface.mainWindow())
        self.row_tool = RowTool(iface.mapCanvas(), self.session)
        self.row_tool.found.connect(
            lambda layer, feature: ask_of_row(
                self.session, layer, feature, self.row_window.show_row
            )
        )
        self.row_tool.missed.connect(
            lambda: self.tell(tr("There is no row of the working copy here"))
        )
        self._lay_out()
        self._watch()
        self.session.told.connect(self.tell)
        self.session.refused.connect(self.warn)
        self.session.refreshed.connect(self._refreshed)
        self.session.opened.connect(self._refreshed)
        self.runner.started.connect(self._started)
        self.runner.advanced.connect(self._advanced)
        self.runner.rested.connect(self._rested)
        self.fill_repositories()
        self.session.open(self.settings.last)

    def _lay_out(self) -> None:
        self.repositories = QComboBox()
        self.repositories.setSizeAdjustPolicy(
            QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
        )
        self.repositories.activated.connect(lambda index: self._picked())
        self.state = QLabel()
        self.state.setTextFormat(Qt.TextFormat.PlainText)
        self.state.setWordWrap(True)
        self.copy_button = QPushButton(tr("Make the working copy"))
        self.copy_button.setToolTip(tr("A GeoPackage of all datasets, which QGIS edits"))
        self.copy_button.clicked.connect(self.make_working_copy)
        self.branch_button = self._button(tr("Branch"), tr("Switch, make or merge branches"))
        self.branch_menu = QMenu(self)
        self.branch_menu.aboutToShow.connect(self._fill_branches)
        self.branch_button.setMenu(self.branch_menu)
        self.branch_button.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.fetch_button = self._button(tr("Fetch"), tr("Bring commits of the remote"))
        self.fetch_button.clicked.connect(self.fetch)
        self.pull_button = self._button(tr("Pull"), tr("Fetch, then merge row by row"))
        self.pull_button.clicked.connect(self.pull)
        self.push_button = self._button(tr("Push"), tr("Send commits to the remote"))
        self.push_button.clicked.connect(self.push)
        self.row_button = self._button("", tr("Who changed a row? Click it on the map"))
        self.row_button.setIcon(QgsApplication.getThemeIcon("/mActionIdentify.svg"))
        self.row_button.clicked.connect(lambda: self._iface.mapCanvas().setMapTool(self.row_tool))
        refresh = self._button("", tr("Read the state anew"))
        refresh.setIcon(QgsApplication.getThemeIcon("/mActionRefresh.svg"))
        refresh.clicked.connect(self.session.refresh)
        more = self._button("", tr("Repositories and settings"))
        more.setIcon(QgsApplication.getThemeIcon("/mActionOptions.svg"))
        more.setMenu(self._menu())
        more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.tabs = QTabWidget()
        self.tabs.addTab(self.edits, tr("Edits"))
        self.tabs.addTab(self.history, tr("History"))
        self.tabs.addTab(self.conflicts, tr("Conflicts"))
        self.working = QLabel()
        self.working.setTextFormat(Qt.TextFormat.PlainText)
        self.bar = QProgressBar()
        self.bar.setMaximumHeight(14)
        self.cancel_button = QPushButton(tr("Cancel"))
        self.cancel_button.clicked.connect(self.runner.cancel)
        self.progress = QWidget()
        box = QWidget()
        whole = QVBoxLayout(box)
        whole.setContentsMargins(6, 6, 6, 6)
        whole.addLayout(_row((self.repositories, 1), (refresh, 0), (more, 0)))
        whole.addWidget(self.state)
        whole.addWidget(self.copy_button)
        buttons = (self.branch_button, self.fetch_button, self.pull_button, self.push_button)
        tools = _row(*((button, 0) for button in buttons))
        tools.addStretch()
        tools.addWidget(self.row_button)
        whole.addLayout(tools)
        whole.addWidget(self.tabs, 1)
        running = _row((self.working, 0), (self.bar, 1), (self.cancel_button, 0))
        running.setContentsMargins(0, 0, 0, 0)
        self.progress.setLayout(running)
        whole.addWidget(self.progress)
        self.progress.hide()
        self.setWidget(box)

    def _button(self, text: str, tip: str) -> QToolButton:
        button = QToolButton()
        button.setText(text)
        button.setToolTip(tip)
        return button

    def _menu(self) -> QMenu:
        menu = QMenu(self)
        self._action(menu, tr("Open a repository…"), self._ask_open)
        self._action(menu, tr("Clone…"), self._ask_clone)
        self._action(menu, tr("New repository…"), self._ask_init)
        menu.addSeparator()
        self._action(menu, tr("Import a file…"), self._ask_import)
        self._action(menu, tr("Take changes off the map"), remove_layers)
        menu.addSeparator()
        self._action(menu, tr("Forget this repository"), self.forget)
        self._action(menu, tr("Path of havasu-vc…"), self._ask_program)
        return menu

    def _action(self, menu: QMenu, text: str, do: Callable[[], object]) -> None:
        menu.addAction(text).triggered.connect(lambda: do())

    # Messages and progress

    def tell(self, text: str) -> None:
        """Say that something was done."""
        self._iface.messageBar().pushMessage(TITLE, as_text(text), Qgis.MessageLevel.Info, 6)

    def warn(self, failure: Failure) -> None:
        """Say why something was not done, in the command's own line and with its advice."""
        text = ". ".join([failure.message, *failure.hints[:2]])
        self._iface.messageBar().pushMessage(TITLE, as_text(text), Qgis.MessageLevel.Warning, 0)

    def _started(self, label: str) -> None:
        self.working.setText(label)
        self.bar.setRange(0, 0)
        self.progress.show()

    def _advanced(self, task: str, done: int, total: int) -> None:
        if task:
            self.working.setText(task)
        most = 1000  # a bar counts in 32 bits, and bytes are more
        self.bar.setRange(0, most if total > 0 else 0)
        self.bar.setValue(min(most, most * done // total) if total > 0 else 0)

    def _rested(self) -> None:
        self.progress.hide()
        self._follow_file()

    # The file, which editors change

    def _watch(self) -> None:
        self._watcher = QFileSystemWatcher(self)
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(QUIET)
        self._watcher.fileChanged.connect(lambda path: self._quiet.start())
        self._quiet.timeout.connect(self._file_changed)
        self._seen: tuple[int, int] | None = None

    def _file_state(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.session.status.file)
        except (OSError, ValueError):
            return None
        return found.st_mtime_ns, found.st_size

    def _follow_file(self) -> None:
        """Watch the working copy from its present state on."""
        file = self.session.status.file
        watched = self._watcher.files()
        if watched and watched != [file]:
            self._watcher.removePaths(watched)
        if file and file not in self._watcher.files():
            self._watcher.addPath(file)
        self._seen = self._file_state()

    def _file_changed(self) -> None:
        if self.runner.busy or self._file_state() == self._seen:
            return  # our own commands wrote it, and the state is read after each
        self.session.refresh(edits_only=True)

    # Repositories

    def fill_repositories(self) -> None:
        """List the repositories that were opened."""
        self.repositories.clear()
        folders = self.settings.repositories
        for folder in folders:
            self.repositories.addItem(Path(folder).name or folder, folder)
            self.repositories.setItemData(
                self.repositories.count() - 1, as_text(folder), Qt.ItemDataRole.ToolTipRole
            )
        self.repositories.setCurrentIndex(self.repositories.findData(self.settings.last))

    def _picked(self) -> None:
        self.open(str(self.repositories.currentData()))

    def open(self, folder: str) -> None:
        """Open a repository and remember it, if it is one."""
        folder = str(Path(folder))

        def found(answer: Answer) -> None:
            self.settings.repositories = [*self.settings.repositories, folder]
            self.settings.last = folder
            self.fill_repositories()
            self.session.open(folder, answer)

        self.runner.run(commands.STATUS, found, label=tr("Opening"), folder=folder)

    def forget(self) -> None:
        """Take the repository off the list; its folder stays."""
        folder = self.session.folder
        self.settings.repositories = [each for each in self.settings.repositories if each != folder]
        self.settings.last = ""
        self.fill_repositories()
        self.session.open("")

    def init(self, folder: str) -> None:
        """Make a repository in a folder, and open it."""
        self.runner.run(
            commands.init(folder), lambda answer: self.open(folder), label=tr("Making a repository")
        )

    def clone(self, url: str, folder: str) -> None:
        """Clone a repository into a folder, with a working copy, and open it."""
        file = f"{Path(folder).name}.gpkg"
        arguments = commands.clone(url, folder, file)
        self.runner.run(arguments, lambda answer: self.open(folder), label=tr("Cloning"))

    def import_file(self, source: str, key: str = "") -> None:
        """Import all layers of a file as datasets."""
        told = tr("{} was imported").format(Path(source).name)
        arguments = commands.import_file(source, key=key)
        self.session.change(arguments, label=tr("Importing"), told=told)

    def make_working_copy(self) -> None:
        """Make the GeoPackage that QGIS edits."""
        arguments = commands.create_working_copy()
        self.session.change(arguments, label=tr("Making the working copy"))

    def _ask_open(self) -> None:
        if folder := ask_folder(self, tr("Open a repository")):
            self.open(folder)

    def _ask_clone(self) -> None:
        if (asked := ask_clone(self)) is not None:
            self.clone(*asked)

    def _ask_init(self) -> None:
        if folder := ask_folder(self, tr("Folder of the new repository")):
            self.init(folder)

    def _ask_import(self) -> None:
        if self.session.folder and (asked := ask_import(self)) is not None:
            self.import_file(*asked)

    def _ask_program(self) -> None:
        if (path := ask_program(self, self.settings.program)) is not None:
            self.settings.program = path
            self.session.refresh()

    # Branches and remotes

    def switch(self, branch: str) -> None:
        """Switch to a branch."""
        told = tr("On branch {}").format(branch)
        self.session.change(commands.switch(branch), label=tr("Switching"), told=told)

    def new_branch(self, name: str) -> None:
        """Make a branch and switch to it; edits stay edits."""
        told = tr("On branch {}").format(name)
        self.session.change(
            commands.new_branch(name), label=tr("Making a branch"), told=told, moves=False
        )

    def merge(self, branch: str) -> None:
        """Merge a branch; its conflicts are shown."""
        self.session.change(commands.merge(branch), label=tr("Merging"))

    def fetch(self) -> None:
        """Bring commits of the remote."""
        told = tr("The remote's commits are here")
        self.session.change(commands.FETCH, label=tr("Fetching"), told=told, moves=False)

    def pull(self) -> None:
        """Fetch and merge."""
        self.session.change(commands.PULL, label=tr("Pulling"), told=tr("Pulled"))

    def push(self) -> None:
        """Send commits; a branch that follows none follows the remote's from now on."""
        if self.session.status.upstream:
            self._push("")
        else:
            self.session.read(commands.REMOTES, self._push_to_one_of, label=tr("Reading remotes"))

    def _push_to_one_of(self, answer: Answer) -> None:
        remotes = answer.out.split()
        self._push("origin" if "origin" in remotes else (remotes or [""])[0])

    def _push(self, remote: str) -> None:
        arguments = commands.push(remote, self.session.status.branch)
        self.session.change(arguments, label=tr("Pushing"), told=tr("Pushed"), moves=False)

    def _fill_branches(self) -> None:
        menu, here = self.branch_menu, self.session.status.branch
        menu.clear()
        local = self.session.branches
        remote = [each.partition("/")[2] for each in self.session.remote_branches]
        for name in [*local, *sorted({each for each in remote if each not in local})]:
            action = menu.addAction(without_mnemonic(tr("Switch to {}").format(name)))
            action.setEnabled(name != here)
            action.triggered.connect(lambda checked=False, name=name: self.switch(name))
        menu.addSeparator()
        self._action(menu, tr("New branch…"), self._ask_branch)
        merging = menu.addMenu(tr("Merge"))
        for name in [*(each for each in local if each != here), *self.session.remote_branches]:
            action = merging.addAction(without_mnemonic(name))
            action.triggered.connect(lambda checked=False, name=name: self.merge(name))
        merging.setEnabled(not merging.isEmpty())

    def _ask_branch(self) -> None:
        if name := ask_text(self, tr("New branch"), tr("Name of the branch")):
            self.new_branch(name)

    # State

    def _refreshed(self) -> None:
        session, status = self.session, self.session.status
        self.state.setText(self.state_text())
        self.state.setToolTip(as_text("\n".join([session.folder, *status.notes])))
        self.copy_button.setVisible(session.known and bool(session.datasets) and not status.file)
        for button in (
            self.branch_button,
            self.fetch_button,
            self.pull_button,
            self.push_button,
            self.row_button,
        ):
            button.setEnabled(session.known)
        merging = bool(status.merging)
        at = self.tabs.indexOf(self.conflicts)
        shown = self.tabs.isTabVisible(at) if hasattr(self.tabs, "isTabVisible") else True
        if hasattr(self.tabs, "setTabVisible"):
            self.tabs.setTabVisible(at, merging)
        if merging and not shown:
            self.tabs.setCurrentIndex(at)
        count = f" ({status.conflicts})" if status.conflicts else ""
        self.tabs.setTabText(at, tr("Conflicts") + count)
        edited = sum(each.rows.total + each.meta for each in status.edits.values())
        self.tabs.setTabText(0, tr("Edits") + (f" ({edited:,})" if edited else ""))

    def state_text(self) -> str:
        """Return where the repository is, in a line."""
        session, status = self.session, self.session.status
        if not session.folder:
            return tr("No repository is open. The menu above opens, clones or makes one.")
        if not session.known:
            return tr("Reading…")
        parts = [tr("on {}").format(status.branch or status.commit[:7] or tr("no branch"))]
        if status.upstream:
            parts += [tr("{} ahead").format(status.ahead)] if status.ahead else []
            parts += [tr("{} behind").format(status.behind)] if status.behind else []
            if not status.ahead and not status.behind:
                parts.append(tr("as {}").format(status.upstream))
        if status.merging:
            parts.append(tr("merging {}").format(status.merging))
        elif not session.datasets:
            parts.append(tr("nothing is committed yet: import a file"))
        elif status.copy is not None and not status.copy.found:
            parts.append(tr("the working copy is gone"))
        elif status.copy is None:
            parts.append(tr("no working copy"))
        elif not status.edits:
            parts.append(tr("nothing edited"))
        if status.copy is not None and status.copy.locked:
            parts.append(tr("an editor holds the file"))
        return " · ".join(parts)

    def shut(self) -> None:
        """End what runs and put away what was made besides the dock."""
        self.runner.close()
        if self._iface.mapCanvas().mapTool() is self.row_tool:
            self._iface.mapCanvas().unsetMapTool(self.row_tool)
        self.row_window.close()
        self.row_window.deleteLater()


def _row(*widgets: tuple[QWidget, int]) -> QHBoxLayout:
    row = QHBoxLayout()
    for widget, stretch in widgets:
        row.addWidget(widget, stretch)
    return row
