"""The repository that is open: its state, read anew after each command that changes something."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qgis.PyQt.QtCore import QObject, pyqtSignal

from . import commands, layers
from .answers import (
    Answer,
    Conflict,
    Failure,
    Status,
    parse_branches,
    parse_conflicts,
    parse_datasets,
    parse_status,
)
from .running import Runner
from .words import tr

__all__ = ["Session"]


class Session(QObject):
    """An open repository, what is known of it, and the ways to change it."""

    opened = pyqtSignal()
    refreshed = pyqtSignal()
    told = pyqtSignal(str)
    refused = pyqtSignal(object)

    def __init__(self, runner: Runner, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.runner = runner
        self.folder = ""
        self.known = False
        """Whether the state of the folder was read."""
        self._clear()
        runner.failed.connect(self.refused)

    def _clear(self) -> None:
        self.known = False
        self.status = Status()
        self.branches: list[str] = []
        self.remote_branches: list[str] = []
        self.datasets: list[str] = []
        self.conflicts: list[Conflict] = []

    def open(self, folder: str, status: Answer | None = None) -> None:
        """Turn to the repository in a folder, whose status may be known; none if it is empty."""
        self.runner.forget()
        self.folder = folder
        self._clear()
        self.opened.emit()
        if status is None:
            self.refresh()
        else:
            self._read_branches()
            self._got_status(status)

    def read(
        self,
        arguments: Sequence[str],
        then: Callable[[Answer], None],
        *,
        label: str = "",
        otherwise: Callable[[Failure], None] | None = None,
    ) -> None:
        """Run a command that changes nothing."""
        self.runner.run(arguments, then, label=label, folder=self.folder, otherwise=otherwise)

    def refresh(self, *, edits_only: bool = False) -> None:
        """Read the state anew; `edits_only` where nothing but the file can be another."""
        if not self.folder:
            self.refreshed.emit()
            return
        if not edits_only:
            self._read_branches()
        self.read(commands.STATUS, self._got_status, label=tr("Reading the state"))

    def _read_branches(self) -> None:
        self.read(
            commands.BRANCHES,
            self._got_branches,
            label=tr("Reading branches"),
            otherwise=lambda failure: None,
        )

    def _got_branches(self, answer: Answer) -> None:
        self.branches, self.remote_branches = parse_branches(answer.out)

    def _got_status(self, answer: Answer) -> None:
        before = self.status.commit
        self.status = parse_status(answer.json())
        moved = not self.known or before != self.status.commit
        if not self.status.commit:
            self.datasets = []
        elif moved:
            self.read(commands.DATASETS, self._got_datasets, label=tr("Reading datasets"))
        self.conflicts = []
        if self.status.merging and self.status.conflicts:
            self.read(commands.CONFLICTS, self._got_conflicts, label=tr("Reading conflicts"))
        elif not moved or not self.status.commit:
            self._all_known()

    def _got_datasets(self, answer: Answer) -> None:
        self.datasets = parse_datasets(answer.json())
        self._all_known()

    def _got_conflicts(self, answer: Answer) -> None:
        self.conflicts = parse_conflicts(answer.json())
        self._all_known()

    def _all_known(self) -> None:
        self.known = True
        self.refreshed.emit()

    def obstacle(self, *, moves: bool) -> Failure | None:
        """Return what in QGIS stands in the way of a command.

        Rows that a layer holds in its edit buffer are in no file yet; and where rows of the file
        move beneath a buffer, saving it would undo the move.
        """
        file = self.status.file
        held = layers.being_edited(file) if moves else layers.with_unsaved_edits(file)
        if not held:
            return None
        message = tr("Layers are being edited: {}") if moves else tr("Edits are not saved: {}")
        hint = tr("Save or cancel their edits, and end editing, first")
        return Failure(message.format(", ".join(held)), (hint,))

    def change(
        self,
        arguments: Sequence[str],
        *,
        label: str,
        told: str = "",
        moves: bool = True,
        then: Callable[[Answer], None] | None = None,
    ) -> bool:
        """Run a command that changes the repository, unless a layer's edits are in the way.

        Layers are read anew and the state is, whichever way it ends. `moves` says that rows of
        the working copy may become others. Returns whether it was let run.
        """
        if (obstacle := self.obstacle(moves=moves)) is not None:
            self.refused.emit(obstacle)
            return False
        file = self.status.file

        def done(answer: Answer) -> None:
            layers.read_anew(file)
            if told:
                self.told.emit(told)
            if then is not None:
                then(answer)
            self.refresh()

        def failed(failure: Failure) -> None:
            layers.read_anew(file)
            self.refused.emit(failure)
            self.refresh()

        self.runner.run(arguments, done, label=label, folder=self.folder, otherwise=failed)
        return True
