"""A process of its own in which Spark has Delta's jar: `python -m tests.conformance.delta_session`.

A session that is open cannot take another jar with its extension in, and the session of the other
tests has Iceberg's. What is asked comes on stdin, what is answered goes to stdout, both pickled.
"""

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

from tests.conformance.spark_sql import Written
from tests.conformance.tables import KEY, Row, State, Step

__all__ = ["Asked", "DeltaSession", "NoDeltaError"]

Asked: TypeAlias = tuple[str, str, Any]
"""A column, a sign and a value: `("n", "<=", 3)`."""

PACKAGE = "io.delta:delta-spark_4.1_2.13:4.4.0"
"""The release that is for Spark 4.1; older ones name classes that its later fixes moved."""


class NoDeltaError(Exception):
    """The session did not start: no network to Maven's repository, or another Spark."""


class DeltaSession:
    """The other end of it."""

    def __init__(self, scratch: Path) -> None:
        with open(scratch / "log", "wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.conformance.delta_session", str(scratch)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        try:
            self._answer()
        except EOFError:
            raise NoDeltaError((scratch / "log").read_text(errors="replace")[-2000:]) from None

    def make(self, place: Path, first: State, properties: dict[str, str]) -> None:
        """Make an empty table in a folder."""
        self._ask("make", place, first, properties)

    def apply(self, place: Path, step: Step, before: State) -> None:
        """Change a table."""
        self._ask("apply", place, step, before)

    def rows(self, place: Path) -> list[Row]:
        """Read a table."""
        found: list[Row] = self._ask("rows", place)
        return found

    def kept(self, place: Path, asked: list[Asked]) -> list[tuple[list[int], int]]:
        """Return the keys of the rows that conditions keep, and how many files each has read."""
        found: list[tuple[list[int], int]] = self._ask("kept", place, asked)
        return found

    def close(self) -> None:
        """End the session."""
        with self._process:
            assert self._process.stdin is not None
            self._process.stdin.close()

    def _ask(self, *what: Any) -> Any:
        assert self._process.stdin is not None
        pickle.dump(what, self._process.stdin)
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        value, error = pickle.load(self._process.stdout)
        assert error is None, error
        return value


def kept(spark: Any, place: Path, name: str, sign: str, value: Any) -> tuple[list[int], int]:
    """Run a condition as anybody does; Delta leaves files out by their statistics before."""
    from pyspark.sql import functions as F

    frame = spark.read.format("delta").load(str(place))
    column = F.col(f"`{name}`")
    if sign == "is null":
        condition = column.isNull()
    else:
        wanted = F.lit(value).cast(frame.schema[name].dataType)
        condition = column <= wanted if sign == "<=" else column >= wanted
        condition = {"<": column < wanted, ">": column > wanted}.get(sign, condition)
    chosen = frame.where(condition).select(KEY)
    leaves = chosen._jdf.queryExecution().optimizedPlan().collectLeaves()
    # A filter that keeps nothing may be left without a file to read.
    plans = [leaves.apply(number) for number in range(leaves.size())]
    files = [
        len(plan.relation().location().inputFiles())
        for plan in plans
        if plan.getClass().getSimpleName() == "LogicalRelation"
    ]
    return [row[0] for row in chosen.collect()], sum(files)


def answer(stdin: BinaryIO, stdout: BinaryIO, scratch: Path) -> None:
    """Start Spark, and do what is asked until nothing more is."""
    from tests.support.spark import start_session

    jar = {
        "spark.jars.packages": PACKAGE,
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        # The log of a table is read in fifty parts otherwise, which takes seconds for ten rows.
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.shuffle.partitions": "1",
    }
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    spark = start_session(scratch, jar)
    pickle.dump((None, None), stdout)
    stdout.flush()
    while True:
        try:
            what, place, *rest = pickle.load(stdin)
        except EOFError:
            break
        table = Written(spark, f"delta.`{place}`")
        value: Any = None
        error = None
        try:
            match what:
                case "make":
                    table.make(rest[0], "delta", rest[1])
                case "apply":
                    table.apply(rest[0], rest[1])
                case "rows":
                    value = table.rows()
                case "kept":
                    value = [kept(spark, place, *each) for each in rest[0]]
        except Exception as raised:
            error = f"{type(raised).__name__}: {raised}"
        pickle.dump((value, error), stdout)
        stdout.flush()
    spark.stop()


if __name__ == "__main__":
    # The JVM writes to the stdout that it inherits; answers go where that was.
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)
        answer(sys.stdin.buffer, out, Path(sys.argv[1]))
