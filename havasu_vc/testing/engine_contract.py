"""The contract of every engine, as tests: subclass `EngineContract`, give it an `engine`.

    class TestLocalEngine(EngineContract):
        @pytest.fixture
        def engine(self, progress): ...

Results are compared with those of running the tasks one by one, so two engines that
pass give the same batches and the same parts.
"""

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from havasu_vc import errors
from havasu_vc.datasets.dealing import Cuts, deal
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.protocol import Engine
from havasu_vc.model.task import Task, run_task, task_of
from havasu_vc.testing import kernels

__all__ = ["EngineContract", "RecordedProgress", "resident_bytes", "settles"]

_MOST_GROWTH = 256 << 20
"""Resident bytes that reading 1 GiB of batches may cost."""


class RecordedProgress:
    """Progress that remembers what it heard."""

    def __init__(self) -> None:
        self.total: int | None = None
        self.description = ""
        self.done = 0
        self.finished = 0

    def start(self, total_tasks: int, description: str, *, in_bytes: bool = False) -> None:
        """Begin anew."""
        self.total, self.description, self.done = total_tasks, description, 0

    def advance(self, tasks: int) -> None:
        """Count."""
        self.done += tasks

    def finish(self) -> None:
        """Count ends."""
        self.finished += 1


def resident_bytes() -> int:
    """Return how much memory this process holds; skips the test where that is unknown."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        pytest.skip("resident memory is read from /proc")
    return pages * os.sysconf("SC_PAGE_SIZE")


def settles(path: Path, *, within: float = 5.0, quiet: float = 0.6) -> bool:
    """Return whether a file stops growing soon and stays so."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        before = path.stat().st_size
        time.sleep(quiet)
        if path.stat().st_size == before:
            return True
    return False


def _appears(path: Path, *, within: float = 30.0) -> bool:
    deadline = time.monotonic() + within
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return path.exists()


def _expected(tasks: Sequence[Task]) -> list[tuple[int, pa.RecordBatch]]:
    return [(index, batch) for index, task in enumerate(tasks) for batch in run_task(task)]


def _rows(engine: Engine, tasks: Sequence[Task]) -> pa.Table:
    return pa.Table.from_batches(engine.run(tasks))


class EngineContract:
    """The promises of `engine.protocol`, for one engine."""

    settling = 5.0
    """Seconds until work that was stopped is over."""

    @pytest.fixture
    def progress(self) -> RecordedProgress:
        """Give what the engine under test reports to."""
        return RecordedProgress()

    @pytest.fixture
    def engine(self, progress: RecordedProgress) -> Iterator[Engine]:
        """Give the engine under test, which must report to `progress`."""
        raise NotImplementedError

    def test_batches_come_in_task_order(self, engine: Engine) -> None:
        """Neither packing nor working ahead shows."""
        tasks = [task_of(kernels.numbers, 1000 * number, 5, number % 4) for number in range(50)]
        assert list(engine.run_each(tasks)) == _expected(tasks)
        for brief in (False, True):
            assert list(engine.run(tasks, brief=brief)) == [batch for _, batch in _expected(tasks)]

    def test_no_tasks_give_nothing(self, engine: Engine, progress: RecordedProgress) -> None:
        """An empty run is a run."""
        assert list(engine.run([])) == []
        assert (progress.total, progress.done, progress.finished) == (0, 0, 1)

    def test_tasks_without_batches_give_nothing(self, engine: Engine) -> None:
        """And do not disturb their neighbours."""
        quiet = task_of(kernels.nothing)
        tasks = [quiet, task_of(kernels.numbers, 1, 2), quiet, quiet]
        assert list(engine.run_each(tasks)) == _expected(tasks)
        assert list(engine.run([quiet])) == []

    def test_batches_without_rows_and_dictionaries_arrive_as_they_are(self, engine: Engine) -> None:
        """Schemas differ between tasks, dictionaries between batches."""
        tasks = [
            task_of(kernels.numbers, 0, 0, 2),
            task_of(kernels.dictionaries, ("a", "b", "a")),
            task_of(kernels.rows, 1, 10),
        ]
        got = list(engine.run_each(tasks))
        assert got == _expected(tasks)
        assert [batch.schema for _, batch in got] == [batch.schema for _, batch in _expected(tasks)]

    def test_memory_does_not_grow_with_the_results(self, engine: Engine) -> None:
        """1 GiB passes, in few tasks and in one."""
        list(engine.run([task_of(kernels.numbers, 0, 1)] * 2))  # whatever starts up, has
        gc.collect()
        before = most = resident_bytes()
        for tasks in (
            [task_of(kernels.volume, 8 << 20, 16)] * 4,
            [task_of(kernels.volume, 8 << 20, 64)],
        ):
            size = 0
            for batch in engine.run(tasks):
                if not size:
                    time.sleep(0.4)  # for an engine without bounds to fill the memory
                size += batch.nbytes
                assert batch.column(0)[-1].as_py() is not None
                batch.column(0).to_numpy().max()  # touches every page
                most = max(most, resident_bytes())
            assert size == 512 << 20
        assert most - before < _MOST_GROWTH

    def test_a_big_batch_passes(self, engine: Engine) -> None:
        """One batch larger than any budget."""
        sizes = [batch.nbytes for batch in engine.run([task_of(kernels.volume, 300 << 20, 1)] * 2)]
        assert sizes == [300 << 20] * 2

    @pytest.mark.parametrize(
        ("kind", "arguments"),
        [
            ("KeyViolationError", ("2 rows have the key 7",)),
            ("RevisionNotFoundError", ("main~3",)),
            ("CorruptDataFileError", ("ab12", "the footer is cut off")),
            ("StorageError", ("the disk is full",)),
        ],
    )
    def test_errors_keep_class_text_and_attributes(
        self, engine: Engine, kind: str, arguments: tuple[str, ...]
    ) -> None:
        """An error that a user can cause comes out as itself, after the batches before it."""
        tasks = [
            task_of(kernels.numbers, 0, 3),
            task_of(kernels.fail, kind, arguments, ("try this",), 2),
            task_of(kernels.numbers, 9, 3),
        ]
        original = getattr(errors, kind)(*arguments)
        got: list[int] = []
        with pytest.raises(errors.HavasuError) as caught:
            got.extend(index for index, _ in engine.run_each(tasks))
        assert type(caught.value) is type(original)
        assert str(caught.value) == str(original)
        assert caught.value.hints == ("try this",)
        assert {**vars(caught.value), "hints": ()} == {**vars(original), "hints": ()}
        assert got == [0, 1, 1]

    def test_the_first_error_in_task_order_is_raised(self, engine: Engine) -> None:
        """Whichever happened first by the clock."""
        tasks = [task_of(kernels.numbers, index, 1) for index in range(20)]
        tasks[5] = task_of(kernels.fail, "PatchError", ("five",), (), 1)
        tasks[6] = task_of(kernels.fail, "CrsError", ("six",), (), 0)
        for brief in (False, True):
            with pytest.raises(errors.PatchError, match="five"):
                list(engine.run(tasks, brief=brief))

    def test_other_exceptions_name_task_and_cause_in_one_line(self, engine: Engine) -> None:
        """A mistake in a kernel is an EngineError."""
        tasks = [task_of(kernels.fail_unexpectedly, "no such column\nand more")]
        for many in (tasks, tasks * 3):
            with pytest.raises(errors.EngineError) as caught:
                list(engine.run(many))
            assert "havasu_vc.testing.kernels:fail_unexpectedly" in str(caught.value)
            assert "RuntimeError" in str(caught.value)
            assert "no such column" in str(caught.value)
            assert "\n" not in str(caught.value)

    def test_an_engine_works_on_after_an_error(self, engine: Engine) -> None:
        """Nothing of the failed run is left in the way."""
        with pytest.raises(errors.EngineError):
            list(engine.run([task_of(kernels.fail_unexpectedly, "x")] * 5))
        tasks = [task_of(kernels.numbers, index, 1) for index in range(5)]
        assert list(engine.run_each(tasks)) == _expected(tasks)

    def test_closing_the_iterator_stops_the_work(self, engine: Engine, tmp_path: Path) -> None:
        """Also of tasks that run ahead."""
        log = tmp_path / "ticks"
        tasks = [task_of(kernels.numbers, index, 1) for index in range(16)]
        tasks += [task_of(kernels.tick, str(log), 3000, 0.02)] * 3
        batches = engine.run(tasks)
        next(batches)
        assert _appears(log)
        started = time.monotonic()
        batches.close()
        assert time.monotonic() - started < 5
        assert settles(log, within=self.settling)
        assert log.stat().st_size < 3000

    def test_ctrl_c_stops_the_work(self, engine: Engine, tmp_path: Path) -> None:
        """While the consumer waits for its first batch."""
        log = tmp_path / "ticks"
        slow = task_of(kernels.tick, str(log), 3000, 0.02)
        pressed: list[float] = []

        def press() -> None:
            if _appears(log):
                time.sleep(0.2)
                pressed.append(time.monotonic())
                os.kill(os.getpid(), signal.SIGINT)

        presser = threading.Thread(target=press)
        presser.start()
        with pytest.raises(KeyboardInterrupt):
            for _ in engine.run([slow] * 3):
                pass
        presser.join()
        assert time.monotonic() - pressed[0] < 5
        assert settles(log, within=self.settling)
        assert log.stat().st_size < 3000

    def test_a_run_left_half_way_does_not_block_another(self, engine: Engine) -> None:
        """Two runs of one engine may be open at once."""
        tasks = [task_of(kernels.volume, 1 << 20, 8)] * 8
        first = engine.run(tasks)
        next(first)
        assert sum(1 for _ in engine.run(tasks)) == 64
        assert sum(1 for _ in first) == 63

    def test_running_twice_gives_the_same(self, engine: Engine) -> None:
        """Tasks are values: a run uses nothing up."""
        tasks = [task_of(kernels.rows, seed, 100) for seed in range(10)]
        assert list(engine.run(tasks)) == list(engine.run(tasks))

    def test_progress_reaches_the_total(self, engine: Engine, progress: RecordedProgress) -> None:
        """And is told once that it is over."""
        tasks = [task_of(kernels.numbers, index, 1) for index in range(30)]
        list(engine.run(tasks, description="Counting"))
        assert (progress.total, progress.description) == (30, "Counting")
        assert (progress.done, progress.finished) == (30, 1)

    @pytest.mark.parametrize("key", [("id",), ("name",), ("height", "id")])
    def test_parts_hold_every_row_once_and_equal_keys_together(
        self, engine: Engine, key: tuple[str, ...]
    ) -> None:
        """Dealing rows out loses and doubles nothing."""
        tasks = [task_of(kernels.rows, seed, 500) for seed in range(6)]
        parts = [_rows(engine, [part]) for part in engine.partition(tasks, key, 4)]

        given = _rows(engine, tasks).sort_by("serial")
        assert pa.concat_tables(parts).sort_by("serial") == given
        seen: dict[object, int] = {}
        for number, part in enumerate(parts):
            for row in part.select(list(key)).to_pylist():
                assert seen.setdefault(tuple(row.values()), number) == number
        assert len(set(seen.values())) == 4

    def test_parts_are_the_same_on_every_engine_and_in_order(self, engine: Engine) -> None:
        """Another engine's part i pairs with this one's."""
        tasks = [task_of(kernels.rows, seed, 300) for seed in range(5)]
        with LocalEngine(threads=1) as plain:
            for mine, theirs in zip(
                engine.partition(tasks, ["id", "name"], 3),
                plain.partition(tasks, ["id", "name"], 3),
                strict=True,
            ):
                assert _rows(engine, [mine]) == _rows(plain, [theirs])

    def test_dealing_out_nothing_gives_empty_parts(self, engine: Engine) -> None:
        """As many as were asked for."""
        for tasks in ([], [task_of(kernels.nothing), task_of(kernels.numbers, 0, 0)]):
            parts = engine.partition(tasks, ["number"], 3)
            assert len(parts) == 3
            assert list(engine.run(parts)) == []

    def test_rows_that_are_dealt_out_reach_their_owners(self, engine: Engine) -> None:
        """All of them, each once, and no owner is left out that gets none."""
        tasks = [task_of(kernels.numbers, start, 70, 2) for start in (0, 300, 100)]
        cuts = Cuts(("number",), (100, 150, 1000, 2000))
        dealing = [task_of(deal, task, cuts) for task in tasks]
        owners = [task_of(kernels.taken, (), number) for number in range(5)]
        every = sorted([*range(140), *range(300, 440), *range(100, 240)])
        edges = [-1, 100, 150, 1000, 2000, 3000]
        found = {}
        for batch in engine.run_dealt(dealing, owners):
            for row in batch.to_pylist():
                assert row["owner"] not in found
                found[row["owner"]] = row["numbers"]
                assert row["told"] == len(row["numbers"])
        assert found == {
            number: [each for each in every if low <= each < high]
            for number, (low, high) in enumerate(pairwise(edges))
        }

    def test_what_goes_wrong_while_rows_are_dealt_out_is_raised(self, engine: Engine) -> None:
        """As itself, whether a task that deals fails or an owner."""
        cuts = Cuts(("number",), ())
        fine = [task_of(deal, task_of(kernels.numbers, 0, 10), cuts)]
        failing = task_of(kernels.fail, "NotFoundError", ("this row is gone",), (), 1)
        broken = [*fine, task_of(deal, failing, cuts)]
        for dealing, owner in ((broken, 0), (fine, -1)):
            with pytest.raises(errors.NotFoundError, match="is gone"):
                list(engine.run_dealt(dealing, [task_of(kernels.taken, (), owner)]))

    def test_parts_can_be_arguments_of_other_tasks(self, engine: Engine) -> None:
        """As when a kernel compares two of them."""
        parts = engine.partition([task_of(kernels.numbers, 0, 100)], ["number"], 2)
        again = [
            part for outer in engine.partition(parts, ["number"], 2) for part in engine.run([outer])
        ]
        assert sum(batch.num_rows for batch in again) == 100

    def test_closing_twice_is_fine(self, engine: Engine) -> None:
        """Cleaning up never fails."""
        engine.close()
        engine.close()
