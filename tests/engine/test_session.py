"""What executors get, and what masters mean; sessions themselves are in `test_spark`."""

from __future__ import annotations

import io
import py_compile
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from havasu_vc.engine import shipping
from havasu_vc.engine.session import _not_started, is_local_master, require_spark, start_session
from havasu_vc.engine.shipping import zipped_package
from havasu_vc.errors import EngineError, MissingProgramError


@pytest.mark.parametrize(
    ("master", "local"),
    [
        ("local", True),
        ("local[*]", True),
        ("local[2,3]", True),
        ("local-cluster[1,1,1024]", False),
        ("spark://host:7077", False),
        ("yarn", False),
    ],
)
def test_local_masters_share_the_drivers_disk(master: str, local: bool) -> None:
    assert is_local_master(master) is local


@pytest.mark.thorough
def test_the_shipped_package_is_enough_to_run_a_task(tmp_path: Path) -> None:
    archive = tmp_path / "shipped.zip"
    archive.write_bytes(zipped_package())
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import havasu_vc.engine.worker as worker; print(worker.__file__);"
        "from havasu_vc.model.task import Task;"
        "task = Task('havasu_vc.testing.kernels:numbers', (0, 5));"
        "print(worker.run_chunk(worker.Chunk(0, (task,), sys.argv[2])).tasks[0].error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(archive), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    where, error = done.stdout.splitlines()
    assert where.startswith(str(archive))
    assert error == "None"


def test_the_shipped_package_is_the_same_each_time() -> None:
    assert zipped_package() == zipped_package()


def test_the_shipped_package_holds_every_source(tmp_path: Path) -> None:
    archive = tmp_path / "shipped.zip"
    archive.write_bytes(zipped_package())
    names = zipfile.ZipFile(archive).namelist()
    assert "havasu_vc/engine/worker.py" in names
    assert not [name for name in names if "__pycache__" in name]


def test_byte_code_that_is_kept_here_is_sent_and_old_byte_code_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "sent"
    package.mkdir()
    for name in ("__init__", "kept", "old", "never"):
        (package / f"{name}.py").write_text("value = 1\n")
        if name in ("kept", "old"):
            py_compile.compile(str(package / f"{name}.py"))
    (package / "old.py").write_text("value = 22\n")
    monkeypatch.setattr(shipping, "PACKAGE", package)
    archive = tmp_path / "shipped.zip"
    archive.write_bytes(zipped_package())
    assert [each for each in zipfile.ZipFile(archive).namelist() if each.endswith("c")] == [
        "sent/kept.pyc"
    ]
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]);"
        "import sent.kept, sent.old, sent.never;"
        "print(sent.kept.__spec__.origin[-3:], sent.kept.value, sent.old.value, sent.never.value)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program, str(archive)],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
    )
    assert done.stdout.split() == ["pyc", "1", "22", "1"]


@pytest.mark.parametrize(
    ("master", "quick", "said", "wanted"),
    [
        ("local[2]", True, {}, "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"),
        ("spark://head:7077", True, {}, "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"),
        ("local[2]", True, {"spark.driver.extraJavaOptions": "-Dx=y"}, "-Dx=y"),
        ("local[2]", False, {}, None),
        ("spark://head:7077", False, {}, None),
    ],
)
@pytest.mark.usefixtures("no_session")
def test_a_jvm_that_only_starts_tasks_starts_quickly(
    master: str,
    quick: bool,
    said: dict[str, str],
    wanted: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[str | None] = []

    def start(settings: Mapping[str, str], log: object) -> None:
        found.append(settings.get("spark.driver.extraJavaOptions"))

    monkeypatch.setattr("havasu_vc.engine.session._start", start)
    monkeypatch.setattr("havasu_vc.engine.session.require_spark", lambda: None)
    start_session(master, said, tmp_path, quick=quick)
    assert found == [wanted]


def test_a_master_that_does_not_answer_is_the_reason() -> None:
    """Spark gives up by itself after a minute, and what fails then is what came next."""
    said = (
        b"22:12 ERROR Backend: Application has been killed. Reason: All masters are unresponsive!\n"
    )
    stopped = RuntimeError("java.lang.IllegalStateException: a stopped SparkContext")
    error = _not_started("spark://head:7077", stopped, io.BytesIO(said))
    assert str(error) == (
        "Spark could not be started on spark://head:7077: All masters are unresponsive!"
    )
    said = b'Exception in thread "main" org.apache.spark.SparkException: Memory must be positive\n'
    error = _not_started("local", stopped, io.BytesIO(said))
    assert str(error).endswith(" on local: Memory must be positive")
    said = b"Invalid maximum heap size: -Xmx1z\nError: Could not create the Java Virtual Machine.\n"
    error = _not_started("local", stopped, io.BytesIO(said))
    assert str(error).endswith(" on local: Invalid maximum heap size: -Xmx1z")


class _Thrown:
    """What py4j hands over of an exception in the JVM."""

    def __init__(self, said: str, cause: _Thrown | None = None) -> None:
        self.toString, self.getCause = lambda: said, lambda: cause


def test_a_cluster_of_kubernetes_that_does_not_answer_is_the_reason() -> None:
    """Its client says "An error has occurred", which is caused by what did."""
    cause = _Thrown("java.io.IOException: Connection refused: /127.0.0.1:1")
    name = "io.fabric8.kubernetes.client.KubernetesClientException"
    stopped = RuntimeError("An error occurred while calling None.JavaSparkContext")
    stopped.java_exception = _Thrown(f"{name}: An error has occurred.", cause)  # type: ignore[attr-defined]
    error = _not_started("k8s://https://127.0.0.1:1", stopped, io.BytesIO())
    assert str(error) == (
        "Spark could not be started on k8s://https://127.0.0.1:1: Connection refused: /127.0.0.1:1"
    )


def test_a_home_of_spark_that_is_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    with pytest.raises(MissingProgramError) as caught:
        require_spark()
    assert (
        str(caught.value) == f"SPARK_HOME is {str(tmp_path)!r}, where there is no bin/spark-submit"
    )


@pytest.mark.usefixtures("no_session")
def test_an_archive_that_is_not_there_is_named_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"no file nowhere.tar.gz, which havasu.spark.archives"):
        start_session("spark://127.0.0.1:1", {}, tmp_path, "nowhere.tar.gz#environment")
