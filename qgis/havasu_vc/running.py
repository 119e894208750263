"""Runs the command beside QGIS, one run at a time: nothing here waits.

What a run printed comes back through the event loop. A run can be cancelled; the command leaves a
repository whole when it is ended.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from qgis.PyQt.QtCore import (
    QCoreApplication,
    QObject,
    QProcess,
    QProcessEnvironment,
    QTimer,
    pyqtSignal,
)

from .answers import Answer, Failure, parse_progress
from .commands import VERSION
from .program import NAME, OLDEST, clean_environment, find_program, is_enough, read_version
from .settings import Settings
from .words import tr

__all__ = ["Runner"]

PATIENCE = 5000
"""Milliseconds that a cancelled command has to leave."""

CHECKED: dict[tuple[str, float], tuple[str, ...]] = {}
"""Options of programs that were found to be good, by path and time: asked once."""

Then = Callable[[Answer], None]


@dataclass(frozen=True)
class Run:
    """A command line that waits or runs."""

    arguments: tuple[str, ...]
    label: str
    folder: str
    then: Then | None
    otherwise: Callable[[Failure], None] | None


class Runner(QObject):
    """Runs command lines in turn and tells what becomes of them."""

    started = pyqtSignal(str)
    advanced = pyqtSignal(str, int, int)
    rested = pyqtSignal()
    failed = pyqtSignal(object)

    def __init__(self, settings: Settings, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._settings = settings
        self._waiting: deque[Run] = deque()
        self._run: Run | None = None
        self._process: QProcess | None = None
        self._out, self._err, self._line = bytearray(), bytearray(), bytearray()
        self._cancelled = self._closed = False

    @property
    def busy(self) -> bool:
        """Whether a command runs or waits."""
        return self._run is not None or bool(self._waiting)

    def run(
        self,
        arguments: Sequence[str],
        then: Then | None = None,
        *,
        label: str = "",
        folder: str = "",
        otherwise: Callable[[Failure], None] | None = None,
    ) -> None:
        """Run a command line in a folder when those before are done, then call `then`.

        Where it fails, `otherwise` is called with why, or the signal `failed` tells.
        """
        if self._closed:
            return  # a timer of the window that goes may still ask
        label = label or f"{NAME} {arguments[0]}"
        self._waiting.append(Run(tuple(arguments), label, folder, then, otherwise))
        self._next()

    def cancel(self) -> None:
        """End the command that runs, and forget those that wait."""
        self._waiting.clear()
        process = self._process
        if process is None:
            return
        self._cancelled = True
        if os.name == "nt":
            process.kill()
            return
        process.terminate()
        QTimer.singleShot(PATIENCE, lambda: self._kill(process))

    def forget(self) -> None:
        """Forget what waits, and whoever would hear of what runs."""
        self._waiting.clear()
        if (run := self._run) is not None:
            self._run = Run(run.arguments, run.label, run.folder, None, lambda failure: None)

    def close(self) -> None:
        """End what runs and hear of it no more: a plugin may go while a command still leaves."""
        self._closed = True
        self._waiting.clear()
        process, self._process, self._run = self._process, None, None
        if process is None:
            return
        for signal in (
            process.readyReadStandardOutput,
            process.readyReadStandardError,
            process.finished,
            process.errorOccurred,
        ):
            signal.disconnect()
        process.setParent(QCoreApplication.instance())
        process.finished.connect(process.deleteLater)
        if os.name == "nt":
            process.kill()
        else:
            process.terminate()
            late = QTimer(process)  # which goes with it
            late.setSingleShot(True)
            late.timeout.connect(process.kill)
            late.start(PATIENCE)

    def _kill(self, process: QProcess) -> None:
        if process is self._process:
            process.kill()

    def _next(self) -> None:
        if self._run is not None or not self._waiting:
            return
        self._run = self._waiting.popleft()
        program = find_program(self._settings.program)
        if not program:
            self._refuse(
                Failure(
                    tr("The command havasu-vc is not found"),
                    (tr("`pipx install havasu-vc` installs it; its path is in the settings"),),
                )
            )
        elif _stamp(program) not in CHECKED:
            self._check(program)
        else:
            self._start(program, self._run)

    def _start(self, program: str, run: Run) -> None:
        self._out, self._err, self._line = bytearray(), bytearray(), bytearray()
        self._cancelled = False
        options = ["-C", run.folder] if run.folder else []
        self._launch(
            program,
            [*options, "--no-pager", *CHECKED[_stamp(program)], *run.arguments],
            self._ended,
        )
        self.started.emit(run.label)

    def _launch(self, program: str, arguments: list[str], ended: Callable[[int], None]) -> None:
        process = QProcess(self)
        environment = QProcessEnvironment()
        for name, value in clean_environment(os.environ).items():
            environment.insert(name, value)
        process.setProcessEnvironment(environment)
        process.readyReadStandardOutput.connect(self._read_out)
        process.readyReadStandardError.connect(self._read_err)
        process.finished.connect(lambda code, status: ended(code))
        process.errorOccurred.connect(self._not_started)
        self._process = process
        process.start(program, arguments)
        process.closeWriteChannel()

    def _read_out(self) -> None:
        if self._process is not None:
            self._out += bytes(self._process.readAllStandardOutput())

    def _read_err(self) -> None:
        if self._process is None:
            return
        self._line += bytes(self._process.readAllStandardError())
        while b"\n" in self._line:
            line, _, rest = bytes(self._line).partition(b"\n")
            self._line = bytearray(rest)
            if (progress := parse_progress(line.decode("utf-8", "replace"))) is not None:
                self.advanced.emit(*progress)
            else:
                self._err += line + b"\n"

    def _not_started(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            program = self._process.program()
            self._let_go()
            hint = tr("The settings of the plugin have the command's path")
            self._refuse(Failure(tr("{} does not start").format(program), (hint,)))

    def _answer(self, code: int) -> Answer:
        self._read_out()
        self._read_err()
        out, err = bytes(self._out), bytes(self._err + self._line)
        return Answer(
            code, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"), self._cancelled
        )

    def _let_go(self) -> None:
        if self._process is not None:
            self._process.deleteLater()
        self._process = None

    def _ended(self, code: int) -> None:
        answer, run = self._answer(code), self._run
        self._let_go()
        self._run = None
        if run is not None:
            self._tell(run, answer)
        self._go_on()

    def _tell(self, run: Run, answer: Answer) -> None:
        failure = answer.failure()
        if failure is None:
            if run.then is not None:
                run.then(answer)
        elif run.otherwise is not None:
            run.otherwise(failure)
        else:
            self.failed.emit(failure)

    def _refuse(self, failure: Failure) -> None:
        """Fail the run that was to start and all that wait: they would fail the same way."""
        run, self._run = self._run, None
        self._waiting.clear()
        if run is not None and run.otherwise is not None:
            run.otherwise(failure)
        else:
            self.failed.emit(failure)
        self._go_on()

    def _go_on(self) -> None:
        self._next()
        if not self.busy:
            self.rested.emit()

    def _check(self, program: str) -> None:
        """Ask a command that was not asked yet for its version, and what it can do."""
        self._out, self._err, self._line = bytearray(), bytearray(), bytearray()
        self._launch(program, VERSION, lambda code: self._told_version(program, code))

    def _told_version(self, program: str, code: int) -> None:
        version = read_version(self._answer(code).out)
        self._let_go()
        if not version:
            message = tr("{} is not havasu-vc, or does not work").format(program)
            self._refuse(Failure(message, (tr("Its path is in the settings of the plugin"),)))
        elif not is_enough(version):
            message = tr("havasu-vc {} is too old for this plugin, which needs {}")
            hint = tr("`pipx upgrade havasu-vc` brings the newest")
            self._refuse(Failure(message.format(version, OLDEST), (hint,)))
        else:
            self._out = bytearray()
            self._launch(program, ["--help"], lambda code: self._told_options(program, code))

    def _told_options(self, program: str, code: int) -> None:
        told = self._answer(code).out
        self._let_go()
        progress = "--progress=json" if "--progress " in told else "--no-progress"
        errors = ("--json-errors",) if "--json-errors" in told else ()
        CHECKED[_stamp(program)] = (progress, *errors)
        if self._run is not None:
            self._start(program, self._run)
        else:
            self._go_on()


def _stamp(program: str) -> tuple[str, float]:
    try:
        return program, os.stat(program).st_mtime
    except OSError:
        return program, 0.0
