"""Spark sessions for the engine: started quietly, with executors that find this package.

Nothing of Spark or its JVM reaches the terminal: what the JVM prints goes to a file
that has no name, and is read only if Spark does not start. Ctrl-C stays Python's own.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeGuard, TypeVar, cast
from urllib.parse import urlsplit

from havasu_vc.engine.java import ended, is_gone, keep_quiet, require_java, spare_tests
from havasu_vc.engine.protocol import one_line
from havasu_vc.errors import EngineError, MissingProgramError
from havasu_vc.records import dataclass

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = [
    "CONNECT",
    "PACKAGE",
    "WORKER_PATH",
    "AnySession",
    "BareSession",
    "application_of",
    "cause_of",
    "chosen_master",
    "cores_of",
    "given_up",
    "inheriting",
    "is_apart",
    "is_connect",
    "is_local_master",
    "master_of",
    "require_pyspark",
    "require_spark",
    "setting",
    "spark_defaults",
    "start_context",
    "start_session",
]


_T = TypeVar("_T")
CONNECT = "sc://"
"""How addresses of Spark Connect servers begin."""
PACKAGE = Path(__file__).parents[1]
_SETTINGS = {
    "spark.app.name": "havasu-vc",
    # A task would else wait three seconds for the worker that wrote most of its rows, while the
    # other worker has nothing to do: a release of 10M rows on two workers lost a tenth so.
    "spark.locality.wait": "0s",
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_SETTING = re.compile(r"([^#\s=][^\s=]*)(?:\s*=\s*|\s+)(.*)")
_LOST = re.compile(r"^Lost task [^:]*\): ")
_DIED = re.compile(r"Error from python worker:\n(?:.*\n)*?(.*\S.*)\n\s*PYTHONPATH was:")
_FULL = re.compile(
    r"most recent failure: Lost task [^\n]*\(([^\s()]+) executor [^\n]*\): "
    r"(?:[^\n]*|.*\nOSError: [^\n]*)No space left on device",
    re.DOTALL,
)
_OTHER_PYTHON = re.compile(
    r"worker has different version: (\d+\.\d+) than that in driver: (\d+\.\d+)"
)
_OURS = ("spark.sql.session.timeZone",)
"""Settings that no default may change: what rows mean depends on it."""
_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
_QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""Options of a JVM that starts tasks and passes bytes on: it takes half the CPU to start."""
WORKER_PATH = "spark.executorEnv.PYTHONPATH"
_LOCAL_SETTINGS = {
    # Nothing here is for other machines to reach, and no name need resolve.
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    WORKER_PATH: str(PACKAGE.parent),
}


@dataclass(frozen=True, slots=True)
class BareSession:
    """A context without a session: enough for tasks in Python, and there in half the time."""

    sparkContext: SparkContext
    """As a session calls it."""


AnySession: TypeAlias = "SparkSession | BareSession"


def inheriting(session: AnySession, work: Callable[[], None]) -> Callable[[], None]:
    """Return work for a thread of its own, with the Spark properties of this one.

    Nobody but us has set any of a context that we started.
    """
    from pyspark import inheritable_thread_target

    if isinstance(session, BareSession):
        return work
    return cast("Callable[[], None]", inheritable_thread_target(session)(work))


def is_local_master(master: str) -> bool:
    """Return whether a master runs its executors in the driver's own process."""
    return master == "local" or master.startswith("local[")


def is_apart(session: AnySession) -> bool:
    """Return whether a session's tasks run on other machines than this one."""
    return not is_local_master(master_of(session))


def is_connect(session: AnySession) -> TypeGuard[SparkSession]:
    """Return whether a session is one of Spark Connect, which has no context and no JVM here."""
    return type(session).__module__.startswith("pyspark.sql.connect.")


def master_of(session: AnySession) -> str:
    """Return where a session runs; of Spark Connect no more is known than that it is a server."""
    return CONNECT if is_connect(session) else str(session.sparkContext.master)


def application_of(session: AnySession) -> str:
    """Return what tells one application from others, or one session of Spark Connect."""
    if is_connect(session):
        return str(cast("Any", session).session_id)
    return str(session.sparkContext.applicationId)


_cores: dict[str, int] = {}


def cores_of(session: AnySession) -> int:
    """Return how many tasks a session runs at a time, as Spark tells or shows."""
    if is_connect(session):
        name = application_of(session)
        if name not in _cores:
            from pyspark.sql import functions as F

            # A server does not tell, but deals rows out to as many tasks when nobody says.
            parts = session.range(0, 1 << 12).select(F.spark_partition_id().alias("part"))
            _cores[name] = max(parts.distinct().count(), 1)
        return _cores[name]
    return max(session.sparkContext.defaultParallelism, 1)


def chosen_master(master: str | None) -> str:
    """Return where Spark runs: as told, else as `spark-submit` or `spark-defaults.conf` say."""
    told = master or _submitted_master() or os.environ.get("SPARK_REMOTE")
    return told or spark_defaults().get("spark.master") or "local[*]"


def _submitted_master() -> str | None:
    """Return the master that `spark-submit` was given, if it runs this program."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return None
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    master = SparkConf(_jvm=SparkContext._jvm).get("spark.master")
    return None if master is None else str(master)


def spark_defaults() -> dict[str, str]:
    """Return what `spark-defaults.conf` says, which Spark itself reads as well."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (str(Path(home, "conf")) if home else None)
    if folder is None:
        return {}
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(errors="replace").splitlines()
    except OSError:
        return {}
    settings = (_SETTING.fullmatch(line.strip()) for line in lines)
    return {found[1]: found[2] for found in settings if found is not None}


def require_spark() -> None:
    """Raise unless PySpark is installed and there is a Java for it."""
    require_pyspark()
    require_java()
    home = os.environ.get("SPARK_HOME")
    if home is not None and not Path(home, "bin", "spark-submit").is_file():
        raise MissingProgramError(
            f"SPARK_HOME is {home!r}, where there is no bin/spark-submit",
            hints=("name the folder of a Spark 4.0 or 4.1, or unset it: PySpark brings its own",),
        )


def require_pyspark() -> None:
    """Raise unless PySpark is installed; a server of Spark Connect needs no Java here."""
    try:
        import pyspark  # noqa: F401
    except ImportError as error:
        raise MissingProgramError(
            "the Spark engine needs PySpark, which is not installed",
            hints=("`pip install 'pyspark>=4.0,<4.2'`", "or use `--engine local`"),
        ) from error


def start_session(
    master: str,
    settings: Mapping[str, str],
    scratch: Path,
    archives: str | None = None,
    *,
    quick: bool = False,
) -> tuple[SparkSession, bool]:
    """Return a session, and whether it was started here rather than found running.

    Executors run the Python of `archives` if that is given: `env.tar.gz#environment`. A `quick`
    JVM, here and of executors, takes half the CPU to start, and compiles less for long queries.
    """
    if master.startswith(CONNECT):
        return _connected(master, settings), True
    require_spark()
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession() if SparkContext._active_spark_context else None
    if running is not None:
        return running, False
    ours = SparkContext._active_spark_context is None
    return _started(master, settings, scratch, archives, quick, _start), ours


def start_context(
    master: str, settings: Mapping[str, str], scratch: Path, archives: str | None = None
) -> BareSession | None:
    """Return a context without a session; None where there is one, or where none can be alone."""
    if master.startswith(CONNECT):
        return None
    require_spark()
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        return None
    return BareSession(_started(master, settings, scratch, archives, True, _start_context))


def _started(
    master: str,
    settings: Mapping[str, str],
    scratch: Path,
    archives: str | None,
    quick: bool,
    start: Callable[[Mapping[str, str], IO[bytes]], _T],
) -> _T:
    """Return what a function starts with all settings."""
    defaults = spark_defaults()
    every = {name: _QUICK_JAVA for name in _JAVA_OPTIONS if quick and name not in defaults}
    every |= {name: v for name, v in _SETTINGS.items() if name in _OURS or name not in defaults}
    if is_local_master(master):
        every |= {**_LOCAL_SETTINGS, "spark.local.dir": str(scratch)}
    every |= {"spark.master": master, **settings}
    python = None
    if archives is not None:
        file = archives.partition("#")[0]
        if "://" not in file and not Path(file).is_file():
            raise EngineError(
                f"there is no file {file}, which havasu.spark.archives names",
                hints=("`venv-pack -o environment.tar.gz` makes one of a virtual environment",),
            )
        every["spark.archives"] = archives
        python = f"./{archives.partition('#')[2] or Path(archives).name}/bin/python"
    with tempfile.TemporaryFile() as log, _own_interrupts(), _worker_python(master, python):
        try:
            return start(every, log)
        except Exception as error:
            raise _not_started(master, error, log) from error


def _connected(remote: str, settings: Mapping[str, str]) -> SparkSession:
    """Return a session of a Spark Connect server, with what one may say of a session there."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    named = remote.partition(";")[0].rstrip("/")
    try:
        place = urlsplit(named)
        # Spark itself would try for many minutes.
        socket.create_connection((place.hostname or "", place.port or 15002), 10).close()
    except (OSError, ValueError) as error:
        raise EngineError(
            f"the Spark Connect server {named} cannot be reached: "
            f"{getattr(error, 'strerror', None) or error}",
            hints=("write it as sc://HOST:PORT, and check that it runs",),
        ) from error
    try:
        builder = cast("Any", SparkSession.builder).remote(remote)
        session: SparkSession = builder.create()
        every = {**settings, _OURS[0]: _SETTINGS[_OURS[0]]}
        for name in every.keys() - {"spark.master"}:
            session.conf.set(name, every[name])
    except ImportError as error:
        raise MissingProgramError(
            "Spark Connect needs libraries that are not installed",
            hints=("`pip install 'pyspark[connect]>=4.0,<4.2'`",),
        ) from error
    except PySparkException as error:
        raise EngineError(
            f"the Spark Connect server {named} cannot be used: {one_line(error)}",
            hints=("check that it runs, and whether it lets sessions change such a setting",),
        ) from error
    return session


def _start(settings: Mapping[str, str], log: IO[bytes]) -> SparkSession:
    from pyspark.sql import SparkSession

    _launch(settings, log)
    return SparkSession.builder.config(map=dict(settings)).getOrCreate()


def _start_context(settings: Mapping[str, str], log: IO[bytes]) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    _launch(settings, log)
    return SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))


def _launch(settings: Mapping[str, str], log: IO[bytes]) -> None:
    """Start the JVM; a process has one, which outlives its sessions."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if SparkContext._gateway is None:
        keep_quiet()
        spare_tests()
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
        gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
        SparkContext._ensure_initialized(gateway=gateway)


_KILLED = "Application has been killed. Reason: "
_NAMES_OF_ERRORS = re.compile(
    r'^(?:Error: )?(?:Exception in thread "[^"]*" )?'
    r"(?:(?:[a-z]\w*\.)+(?:Spark\w*|IllegalArgument|IllegalState|IO)Exception: )*"
)
"""The words of Java before the reason itself."""


def _not_started(master: str, error: Exception, log: IO[bytes]) -> EngineError:
    log.seek(0)
    said = log.read(1 << 20).decode(errors="replace").splitlines()
    java = getattr(error, "java_exception", None)
    if java is not None and "KubernetesClient" in java.toString() and java.getCause() is not None:
        java = java.getCause()  # by itself "An error has occurred"
    cause = str(java.toString()).splitlines()[0] if java is not None else one_line(error)
    before = ""
    for line in said:
        # The JVM's own reason is better than "the gateway exited".
        if line.startswith(("Error:", "Exception in thread", "Error occurred")):
            # Java names what it cannot be made with a line before.
            cause = before if line.endswith("the Java Virtual Machine.") and before else line
            break
        before = line
        if _KILLED in line:  # by itself, as nobody answered; what fails then is what came next
            cause = line.partition(_KILLED)[2]
    return EngineError(
        f"Spark could not be started on {master}: {_NAMES_OF_ERRORS.sub('', cause)}",
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
def _worker_python(master: str, python: str | None) -> Iterator[None]:
    """Let workers run a Python, or that which runs this; on a cluster if nobody chose another."""
    before = os.environ.get("PYSPARK_PYTHON")
    if python is not None and not is_local_master(master):
        os.environ["PYSPARK_PYTHON"] = python
    elif before is None or is_local_master(master):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    try:
        yield
    finally:
        if before is None:
            os.environ.pop("PYSPARK_PYTHON", None)
        else:
            os.environ["PYSPARK_PYTHON"] = before


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


def given_up(what: str, error: Exception, *hints: str) -> EngineError:
    """Return what it means that Spark ended some work with an error."""
    if is_gone(error):
        return ended(what)
    said = _said_of(error)
    if (full := _FULL.search(said)) is not None:
        return EngineError(
            f"the disk of the worker on {full[1]} is full",
            hints=("make room there, where SPARK_LOCAL_DIRS says or in /tmp, and run again",),
        )
    found = _OTHER_PYTHON.search(said)
    if found is None:
        return EngineError(f"Spark gave up on {what}: {cause_of(error)}", hints=hints)
    there, here = found.groups()
    return EngineError(
        f"Spark's workers run Python {there}, and this program runs Python {here}",
        hints=(
            f"set PYSPARK_PYTHON to a Python {here} with pyarrow, as {sys.executable} is, "
            "and start Spark again",
            "or send one: `git config havasu.spark.archives ENVIRONMENT.tar.gz#environment`",
        ),
    )


def _said_of(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.toString()) if java is not None else str(error)


def cause_of(error: Exception) -> str:
    """Return the line of Spark's many that says what happened."""
    text = _said_of(error)
    if (died := _DIED.search(text)) is not None:
        return died[1].strip()
    _, traceback, python = text.partition("Traceback (most recent call last):")
    if traceback:
        for line in python.splitlines():
            if line and not line[0].isspace():
                return line
    _, failure, last = text.partition("most recent failure: ")
    lines = _LOST.sub("", last if failure else text).strip().splitlines()
    return lines[0] if lines else one_line(error)
