"""Which engine is chosen, and what happens where Spark cannot start."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from havasu_vc.engine.choose import THRESHOLD, EngineSettings, choose_engine, configured
from havasu_vc.engine.java import require_java
from havasu_vc.engine.local import LocalEngine
from havasu_vc.engine.session import chosen_master, spark_defaults
from havasu_vc.engine.settings import Settings
from havasu_vc.engine.spark import SparkEngine
from havasu_vc.errors import EngineError, InvalidArgumentError, MissingProgramError
from havasu_vc.model.task import task_of
from havasu_vc.testing.kernels import numbers

Java = Callable[[str, int], None]


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Java:
    """Put a program in the place of Java that says something and exits."""

    def put(said: str, status: int) -> None:
        program = tmp_path / "bin" / "java"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit {status}\n")
        program.chmod(0o755)
        monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    return put


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))


def test_small_work_stays_here() -> None:
    assert isinstance(choose_engine("auto", input_bytes=THRESHOLD), LocalEngine)
    assert isinstance(choose_engine("local", input_bytes=1 << 50), LocalEngine)


def test_settings_reach_the_local_engine() -> None:
    engine = choose_engine("local", input_bytes=0, settings=EngineSettings(threads=3, budget=99))
    assert isinstance(engine, LocalEngine)
    assert (engine.threads, engine.budget) == (3, 99)


def test_large_work_goes_to_spark(java: Java) -> None:
    java('openjdk version "17.0.15"', 0)
    notes: list[str] = []
    engine = choose_engine("auto", input_bytes=11, threshold=10, note=notes.append)
    assert isinstance(engine, SparkEngine)
    assert notes == ["there are 0.0 GiB to read: Spark does the work, as --engine local would not"]
    engine.close()


@pytest.mark.usefixtures("no_java")
def test_without_java_auto_is_local_with_a_note() -> None:
    notes: list[str] = []
    engine = choose_engine("auto", input_bytes=11, threshold=10, note=notes.append)
    assert isinstance(engine, LocalEngine)
    assert notes == [
        "Spark needs Java, and there is none on this machine; the local engine does the work"
    ]
    small = choose_engine("auto", input_bytes=10, threshold=10, note=notes.append)
    assert isinstance(small, LocalEngine)
    assert len(notes) == 1


@pytest.mark.usefixtures("no_java")
def test_without_java_spark_is_refused_with_the_next_step() -> None:
    with pytest.raises(MissingProgramError, match="there is none on this machine") as caught:
        choose_engine("spark", input_bytes=0)
    assert any("JDK 17" in hint for hint in caught.value.hints)
    assert any("--engine local" in hint for hint in caught.value.hints)


def test_other_names_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="no engine 'dask'"):
        choose_engine("dask", input_bytes=0)


def test_java_home_must_hold_a_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingProgramError, match="where JAVA_HOME says it is"):
        require_java()


@pytest.mark.parametrize(
    ("said", "status", "message"),
    [
        ("Unable to locate a Java Runtime.", 1, "does not run"),
        ("nothing of use", 0, "does not run"),
        ('openjdk version "11.0.2" 2019-01-15', 0, "is Java 11"),
        ('java version "1.8.0_392"', 0, "Spark needs Java 17 or newer"),
    ],
)
def test_a_java_that_cannot_run_spark_is_refused(
    java: Java, said: str, status: int, message: str
) -> None:
    java(said, status)
    with pytest.raises(MissingProgramError, match=message):
        require_java()


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_newer_javas_are_taken(java: Java, version: str) -> None:
    java(f'openjdk version "{version}" 2025-04-15', 0)
    assert require_java() == os.path.join(os.environ["JAVA_HOME"], "bin", "java")


class Said(dict[str, tuple[str, ...]]):
    """Settings of a repository."""

    def get(self, name: str) -> str | None:  # type: ignore[override]
        return self[name][-1] if name in self else None

    def all(self, name: str) -> tuple[str, ...]:
        return self[name] if name in self else ()


def test_a_repository_says_where_spark_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def start(
        master: str,
        settings: Mapping[str, str],
        scratch: Path,
        archives: str | None,
        *,
        quick: bool,
    ) -> None:
        asked.append((master, dict(settings), archives))
        raise EngineError("no Spark here")

    monkeypatch.setattr("havasu_vc.engine.spark.start_session", start)
    monkeypatch.setattr("havasu_vc.engine.spark.require_spark", lambda: None)
    said = Said(
        {
            "havasu.spark.master": ("spark://head:7077",),
            "havasu.spark.conf": ("spark.executor.memory=4g", "spark.executorEnv.A = b=c"),
            "havasu.spark.scratch": ("/shared",),
            "havasu.spark.archives": ("env.tar.gz#environment",),
        }
    )
    settings = configured(said)
    assert settings.scratch == Path("/shared")
    with choose_engine("spark", input_bytes=0, settings=settings) as engine:
        assert isinstance(engine, SparkEngine)
        with pytest.raises(EngineError):
            engine.session()
    conf = {"spark.executor.memory": "4g", "spark.executorEnv.A": "b=c"}
    assert asked == [("spark://head:7077", conf, "env.tar.gz#environment")]
    assert configured(Said()) == EngineSettings()


@pytest.mark.parametrize("text", ["spark.executor.memory", "=4g"])
def test_a_setting_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"havasu\.spark\.conf is"):
        configured(Said({"havasu.spark.conf": (text,)}))


def test_a_master_is_chosen_as_spark_chooses_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.delenv("SPARK_HOME", raising=False)
    assert chosen_master(None) == "local[*]"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        "# spark.master local[1]\n\nspark.master    yarn\nspark.ui.enabled=true\n"
    )
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert spark_defaults() == {"spark.master": "yarn", "spark.ui.enabled": "true"}
    assert chosen_master(None) == "yarn"
    assert chosen_master("local[2]") == "local[2]"
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "nothing"))
    assert chosen_master(None) == "local[*]"


@pytest.mark.parametrize("remote", ["sc://127.0.0.1:1", "sc://127.0.0.1:1/;token=secret"])
def test_a_spark_connect_server_that_is_not_there_is_told_of_in_one_line(remote: str) -> None:
    settings = Settings(engine="spark", master=remote)
    with settings.open_engine(0) as engine, pytest.raises(EngineError) as caught:
        assert engine.apart
        list(engine.run([task_of(numbers, 0, 1)], anywhere=True))
    assert caught.value.message.startswith(f"the Spark Connect server {remote[:16]} cannot be")
    assert "secret" not in str(caught.value) and "\n" not in caught.value.message


def test_a_master_for_one_command_is_above_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("havasu_vc.engine.spark.require_spark", lambda: None)
    said = Said({"havasu.spark.master": ("local[7]",), "havasu.spark.conf": ("a=b",)})
    settings = Settings(engine="spark", config=said, master="yarn")
    with settings.open_engine(0) as engine:
        assert engine.apart
    with Settings(engine="spark", config=said).open_engine(0) as engine:
        assert not engine.apart
