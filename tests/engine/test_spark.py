"""The Spark engine: the contract, and what only executors can get wrong."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from havasu_vc.engine.protocol import Batches, Engine, NumberedBatches
from havasu_vc.engine.session import given_up
from havasu_vc.engine.spark import SparkEngine
from havasu_vc.errors import EngineError
from havasu_vc.model.task import Task, run_task, task_of
from havasu_vc.testing import kernels
from havasu_vc.testing.engine_contract import EngineContract, RecordedProgress, resident_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # PySpark leaves the sockets of `collect` for the garbage collector to close.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


class TestSparkEngine(EngineContract):
    @pytest.fixture
    def engine(
        self, spark: "SparkSession", tmp_path: Path, progress: RecordedProgress
    ) -> Iterator[Engine]:
        with SparkEngine(spark, scratch=tmp_path / "scratch", progress=progress) as engine:
            yield engine
        assert list((tmp_path / "scratch").glob("*")) == []
        assert spark.sparkContext.parallelize([1]).count() == 1  # a session that was given stays


class Apart(SparkEngine):
    """An engine whose machines share no folder with this one, and tasks that need none."""

    def __init__(self, session: "SparkSession", progress: RecordedProgress) -> None:
        super().__init__(session, progress=progress)
        self._shared = False

    def run(self, tasks: Sequence[Task], *, anywhere: bool = True, **how: Any) -> Batches:
        yield from super().run(tasks, anywhere=anywhere, **how)

    def run_each(
        self, tasks: Sequence[Task], *, anywhere: bool = True, **how: Any
    ) -> NumberedBatches:
        yield from super().run_each(tasks, anywhere=anywhere, **how)


class TestSparkEngineWithoutAFolder(EngineContract):
    # A worker's Python hears that its task was cancelled when it next sends a buffer of rows.
    settling = 30.0

    @pytest.fixture
    def engine(self, spark: "SparkSession", progress: RecordedProgress) -> Iterator[Engine]:
        with Apart(spark, progress) as engine:
            yield engine

    def test_memory_does_not_grow_with_the_results(self, engine: Engine) -> None:
        """Spark's own memory holds what a task gives here: there are more, which give less."""
        tasks = [task_of(kernels.volume, 8 << 20, 4) for _ in range(10)]
        list(engine.run(tasks[:1]))
        before = most = resident_bytes()
        for batch in engine.run(tasks):
            most = max(most, resident_bytes())
            assert batch.nbytes == 8 << 20
        assert most - before < 160 << 20

    def test_closing_the_iterator_stops_the_work(self, engine: Engine, tmp_path: Path) -> None:
        """Nothing is begun before what was asked for is taken."""
        log = tmp_path / "ticks"
        first = [task_of(kernels.numbers, number, 1) for number in range(2)]
        batches = engine.run([*first, task_of(kernels.tick, str(log), 3000, 0.02)])
        next(batches)
        batches.close()
        assert not log.exists()

    def test_a_big_batch_passes(self, engine: Engine) -> None:
        """Larger than a row of Spark's is made."""
        sizes = [batch.nbytes for batch in engine.run([task_of(kernels.volume, 60 << 20, 1)] * 2)]
        assert sizes == [60 << 20] * 2


def test_files_go_as_they_are_consumed(spark: "SparkSession", tmp_path: Path) -> None:
    tasks = [task_of(kernels.volume, 1 << 20, 2) for _ in range(60)]
    with SparkEngine(spark, scratch=tmp_path, spill_budget=16 << 20) as engine:
        most = 0
        for _ in engine.run(tasks):
            held = sum(file.stat().st_size for file in tmp_path.rglob("*.arrows"))
            most = max(most, held)
        # Two windows of half the budget or, before sizes are known, of eight tasks.
        assert (2 << 20) <= most <= (34 << 20)
        assert not list(tmp_path.rglob("*.arrows"))


def test_a_worker_that_dies_is_one_clear_line(spark: "SparkSession", tmp_path: Path) -> None:
    # A local master does not retry.
    task = task_of(kernels.crash_once, str(tmp_path / "crashed"), 5)
    with SparkEngine(spark, scratch=tmp_path) as engine:
        with pytest.raises(EngineError) as caught:
            list(engine.run([task_of(kernels.numbers, 0, 1), task]))
        assert "Python worker exited unexpectedly" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert sum(batch.num_rows for batch in engine.run([task])) == 10


@pytest.mark.parametrize(
    "said",
    [
        "java.io.IOException: No space left on device",
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n"
        "  File \"worker.py\", line 1\nOSError: [Errno 28] No space left on device: '/tmp/a'",
    ],
)
def test_a_worker_whose_disk_is_full_is_named(said: str) -> None:
    lost = "Lost task 1.3 in stage 0.0 (TID 7) (north-7 executor 1): "
    error = given_up("the edit", RuntimeError(f"Job aborted; most recent failure: {lost}{said}\n"))
    assert error.message == "the disk of the worker on north-7 is full"
    other = given_up("the edit", RuntimeError(f"most recent failure: {lost}no such thing"))
    assert other.message == "Spark gave up on the edit: no such thing"


def test_results_that_are_not_here_say_so(spark: "SparkSession", tmp_path: Path) -> None:
    tasks = [task_of(kernels.numbers, index, 1) for index in range(4)]
    with SparkEngine(spark, scratch=tmp_path) as engine:
        batches = engine.run(tasks)
        next(batches)
        for file in tmp_path.rglob("*.arrows"):
            file.unlink()
        with pytest.raises(EngineError, match="is not here") as caught:
            list(batches)
        assert "share" in caught.value.hints[0]


def test_what_needs_files_of_this_machine_is_done_here_where_no_folder_is_shared() -> None:
    """No cluster is asked, and that is told once."""
    tasks = [task_of(kernels.numbers, number, 1) for number in range(3)]
    told: list[str] = []
    with SparkEngine(master="spark://host:7077", note=told.append) as engine:
        assert engine.apart
        found = list(engine.run(tasks))
        assert found == [batch for task in tasks for batch in run_task(task)]
        parts = engine.partition(tasks, ["number"], 2)
        assert sum(batch.num_rows for batch in engine.run(parts)) == 3
    (note,) = told
    assert "those of spark://host:7077 do not see" in note and "the work is done here" in note


OWN_SESSION = """
import os
import sys
from pathlib import Path
from havasu_vc.engine.spark import SparkEngine
from havasu_vc.model.task import task_of
from havasu_vc.testing import kernels
from pyspark import SparkContext
from pyspark.sql import SparkSession
import signal

scratch = Path(sys.argv[1])
tasks = [task_of(kernels.numbers, index, 1) for index in range(10)]
tasks[4] = task_of(kernels.crash_once, str(scratch / "crashed"), 5)
handler = signal.getsignal(signal.SIGINT)
with SparkEngine(master="local[2,3]", scratch=scratch) as engine:
    print([batch.num_rows for batch in engine.run(tasks)])
    print(SparkSession.getActiveSession() is None, {"pandas", "pyspark.testing"} & set(sys.modules))
    context = engine.session().sparkContext
    print(context.pythonExec == sys.executable, context._jsc.sc().addedFiles().mkString())
print(signal.getsignal(signal.SIGINT) is handler, SparkContext._active_spark_context is None)
print([path.name for path in scratch.iterdir()])
os.environ["PYSPARK_PYTHON"] = sys.executable
theirs = SparkContext("local[1]", "theirs")
with SparkEngine(scratch=scratch) as engine:
    list(engine.run(tasks[:1]))
print(theirs.parallelize([1]).count())
theirs.stop()
try:
    SparkEngine(master="nonsense", scratch=scratch).session()
except Exception as error:
    print(type(error).__name__, str(error))
def interrupted(connection, command):
    ClientServerConnection.send_command = send
    raise KeyboardInterrupt
from py4j.clientserver import ClientServerConnection
try:
    with SparkEngine(master="local[2]", scratch=scratch) as engine:
        engine.session()
        send, ClientServerConnection.send_command = ClientServerConnection.send_command, interrupted
        try:
            SparkContext._jvm.System.nanoTime()
        except KeyboardInterrupt:
            print("interrupted")
        SparkContext._gateway.proc.kill()
        list(engine.run(tasks))
except Exception as error:
    print(type(error).__name__, str(error))
"""


def test_a_session_of_its_own_is_quiet_and_survives_a_dead_worker(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWN_SESSION, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[:5] == [
        "[1, 1, 1, 1, 5, 5, 1, 1, 1, 1, 1]",  # the task that ran twice counts once
        "True set()",  # tasks in Python need no session, whose start takes as long again
        "True ",  # workers find the package: sent as a zip file, it would slow each task down
        "True True",
        "['crashed']",
    ]
    assert lines[5] == "1", "a context that somebody else started goes on"
    assert lines[6].startswith("EngineError Spark could not be started on nonsense: ")
    assert "Exception" not in lines[6]
    assert lines[7] == "interrupted", "as by Ctrl-C, of which nothing is logged"
    assert lines[8] == "EngineError Spark's Java ended in the middle of the work"
    assert len(lines) == 9
