"""Spark sessions for the engine: started quietly, with executors that find this package.

Nothing of Spark or its JVM reaches the terminal: what the JVM prints goes to a file
that has no name, and is read only if Spark does not start. Ctrl-C stays Python's own.
"""

from __future__ import annotations

import atexit
import hashlib
import io
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from havasu_vc.engine.protocol import one_line
from havasu_vc.errors import EngineError, MissingProgramError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = [
    "OLDEST_JAVA",
    "cause_of",
    "ensure_package",
    "is_local_master",
    "require_java",
    "require_spark",
    "setting",
    "ship_package",
    "start_session",
    "zipped_package",
]


_PACKAGE = Path(__file__).parents[1]
_SETTINGS = {
    "spark.app.name": "havasu-vc",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_WORKER_PATH = "spark.executorEnv.PYTHONPATH"
_LOCAL_SETTINGS = {
    # Nothing here is for other machines to reach, and no name need resolve.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    _WORKER_PATH: str(_PACKAGE.parent),
}


def is_local_master(master: str) -> bool:
    """Return whether a master runs its executors in the driver's own process."""
    return master == "local" or master.startswith("local[")


def require_spark() -> None:
    """Raise unless PySpark is installed and there is a Java for it."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingProgramError(
            "the Spark engine needs PySpark, which is not installed",
            hints=("`pip install 'pyspark>=4.0,<4.2'`", "or use `--engine local`"),
        ) from error
    require_java()


def start_session(
    master: str, settings: Mapping[str, str], scratch: Path
) -> tuple[SparkSession, bool]:
    """Return a session, and whether it was started here rather than found running."""
    require_spark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession() if SparkContext._active_spark_context else None
    if running is not None:
        return running, False
    every = dict(_SETTINGS)
    if is_local_master(master):
        every |= {**_LOCAL_SETTINGS, "spark.local.dir": str(scratch)}
    every |= {"spark.master": master, **settings}
    with tempfile.TemporaryFile() as log, _own_interrupts(), _this_python(master):
        try:
            return _start(every, log), True
        except Exception as error:
            raise _not_started(master, error, log) from error


def _start(settings: Mapping[str, str], log: IO[bytes]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._gateway is None:
        # A process has one JVM, which outlives its sessions.
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)
    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


def _not_started(master: str, error: Exception, log: IO[bytes]) -> EngineError:
    log.seek(0)
    said = log.read(1 << 20).decode(errors="replace").splitlines()
    java = getattr(error, "java_exception", None)
    cause = str(java.toString()).splitlines()[0] if java is not None else one_line(error)
    for line in said:
        # The JVM's own reason is better than "the gateway exited".
        if line.startswith(("Error:", "Exception in thread", "Error occurred")):
            cause = line
            break
    return EngineError(
        f"Spark could not be started on {master}: {cause}",
        hints=(
            "check the master and JAVA_HOME (a full JDK 17, not a JRE)",
            "or use `--engine local`",
        ),
    )


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the handler of Ctrl-C, which Spark replaces by one that leaves jobs running."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler if handler is not None else signal.default_int_handler)


@contextmanager
def _this_python(master: str) -> Iterator[None]:
    """Let workers run the Python that runs this; on a cluster only if nobody chose another."""
    before = os.environ.get("PYSPARK_PYTHON")
    if before is None or is_local_master(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYSPARK_PYTHON", None)
        else:
            os.environ["PYSPARK_PYTHON"] = before


def ensure_package(session: SparkSession) -> None:
    """Let the session's workers find this package: send it, unless they run where it is.

    What is sent is a zip file, which costs each task some tens of milliseconds.
    """
    context = session.sparkContext
    here = [*site.getsitepackages(), *_worker_path(context)]
    if not (is_local_master(str(context.master)) and str(_PACKAGE.parent) in here):
        ship_package(session)


def _worker_path(context: SparkContext) -> list[str]:
    """Return where workers are told to look, as sessions that are started here tell them."""
    return (context.getConf().get(_WORKER_PATH) or "").split(os.pathsep)


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    """Have a session work with a setting for a while."""
    before = spark.conf.get(name, None)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)


def cause_of(error: Exception) -> str:
    """Return the line of Spark's many that says what happened."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString()) if java is not None else str(error)
    _, traceback, python = text.partition("Traceback (most recent call last):")
    if traceback:
        for line in python.splitlines():
            if line and not line[0].isspace():
                return line
    _, failure, last = text.partition("most recent failure: ")
    lines = (last if failure else text).strip().splitlines()
    return lines[0] if lines else one_line(error)


_shipped: dict[str, Path] = {}


def ship_package(session: SparkSession) -> None:
    """Send this package to the session's executors, once."""
    context = session.sparkContext
    if context.applicationId in _shipped:
        return
    content = zipped_package()
    folder = Path(tempfile.mkdtemp(prefix="havasu-vc-code-"))
    # The driver serves the file for as long as the session lives: it stays to the end.
    atexit.register(shutil.rmtree, folder, True)
    archive = folder / f"havasu_vc-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    archive.write_bytes(content)
    path = list(sys.path)
    context.addPyFile(str(archive))
    sys.path[:] = path  # the driver has the package already
    _shipped[context.applicationId] = archive


def zipped_package() -> bytes:
    """Return this package as a zip file; the same bytes for the same files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(_PACKAGE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                name = file.relative_to(_PACKAGE.parent).as_posix()
                archive.writestr(zipfile.ZipInfo(name), file.read_bytes())
    return content.getvalue()


# Whether there is a Java that Spark can start with.

OLDEST_JAVA = 17
_HINTS = (
    "install a JDK 17 and point JAVA_HOME at it",
    "or use `--engine local`, which needs none, for all but `sql` and `shell`",
)
_VERSION = re.compile(r'version "(\d+)')


def require_java() -> str:
    """Return the path of the Java that Spark will start; raise if it is missing or too old."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise MissingProgramError(
            "Spark needs Java, and there is none on this machine", hints=_HINTS
        )
    try:
        # Asked, not only looked for: macOS has a `java` that only says where to get one.
        asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        where = "JAVA_HOME says it is" if home else "it should be"
        raise MissingProgramError(
            f"Spark needs Java, and there is none where {where}: {java}", hints=_HINTS
        ) from error
    found = _VERSION.search(asked.stderr)
    if asked.returncode != 0 or found is None:
        raise MissingProgramError(f"Spark needs Java, and {java} does not run", hints=_HINTS)
    if int(found[1]) < OLDEST_JAVA:
        raise MissingProgramError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and {java} is Java {found[1]}", hints=_HINTS
        )
    return java
