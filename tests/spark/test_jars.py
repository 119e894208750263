"""Which jar a session gets, and what is said when it cannot have one."""

import zipfile
from pathlib import Path

import pytest

from havasu_vc.errors import InvalidArgumentError, MissingProgramError, UnsupportedVersionError
from havasu_vc.spark.jars import (
    NamedJar,
    find_fetched_jar,
    jar_settings,
    named_jar,
    runtime_coordinates,
)

NAME = "iceberg-spark-runtime-4.1_2.13-1.12.0.jar"


def make_jar(
    path: Path,
    content: str = "org/apache/iceberg/spark/SparkCatalog.class",
    release: str = "1.12.0",
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(content, b"")
        archive.writestr("iceberg-build.properties", f"a=b\ngit.build.version={release}\n")
    return path


def test_a_jar_that_is_named(tmp_path: Path) -> None:
    jar = make_jar(tmp_path / NAME)

    by_git = jar_settings("4.1.4", str(jar), environment={})
    by_environment = jar_settings("4.1.4", "none", environment={"HAVASU_ICEBERG_JAR": str(jar)})

    assert by_git == by_environment
    assert by_git["spark.jars"] == jar.as_uri()
    assert "IcebergSparkSessionExtensions" in by_git["spark.sql.extensions"]


def test_coordinates_and_none() -> None:
    given = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"

    assert jar_settings("4.1.4", given, environment={})["spark.jars.packages"] == given
    assert jar_settings("4.1.4", "none", environment={}) == {}


def test_what_spark_fetched_is_found(tmp_path: Path) -> None:
    assert find_fetched_jar("4.1.4", tmp_path) is None
    jar = make_jar(tmp_path / ".ivy2.5.2" / "jars" / f"org.apache.iceberg_{NAME}")

    assert find_fetched_jar("4.1.4", tmp_path) == jar
    jar.write_bytes(b"half of it")
    assert find_fetched_jar("4.1.4", tmp_path) is None


def test_other_jars_are_refused(tmp_path: Path) -> None:
    old = make_jar(tmp_path / "iceberg-spark-runtime-4.0_2.13-1.11.0.jar")
    scala = make_jar(tmp_path / "iceberg-spark-runtime-4.1_2.12-1.12.0.jar")
    other = make_jar(tmp_path / "other.jar", "org/example/Main.class")
    renamed = make_jar(tmp_path / "iceberg.jar", release="1.9.2")
    half = tmp_path / "half.jar"
    half.write_bytes(other.read_bytes()[:60])

    for jar in (str(old), "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"):
        with pytest.raises(UnsupportedVersionError, match=r"is for Spark 4\.0 and .* Spark 4\.1"):
            jar_settings("4.1.4", jar, environment={})
    with pytest.raises(UnsupportedVersionError, match=r"Scala 2\.12"):
        jar_settings("4.1.4", str(scala), environment={})
    with pytest.raises(UnsupportedVersionError, match=r"is Iceberg 1\.9, which has nothing"):
        jar_settings("4.1.4", str(renamed), environment={})
    for wrong in (other, half):
        with pytest.raises(InvalidArgumentError, match="is not Iceberg's runtime"):
            jar_settings("4.1.4", str(wrong), environment={})
    for place in (tmp_path / "nowhere.jar", tmp_path):
        with pytest.raises(MissingProgramError, match="is not where HAVASU_ICEBERG_JAR says") as no:
            jar_settings("4.1.4", "none", environment={"HAVASU_ICEBERG_JAR": str(place)})
        assert runtime_coordinates("4.1.4") in no.value.hints[0]
    with pytest.raises(MissingProgramError, match=r"is not where `git config havasu.spark.jar`"):
        jar_settings("4.1.4", "nowhere.jar", environment={})


def test_who_names_a_jar() -> None:
    assert named_jar(None, environment={}) is None
    assert named_jar("a.jar", environment={}) == NamedJar("a.jar", "`git config havasu.spark.jar`")
    both = named_jar("a.jar", environment={"HAVASU_ICEBERG_JAR": "b.jar"})
    assert both == NamedJar("b.jar", "HAVASU_ICEBERG_JAR")


@pytest.mark.parametrize("version", ["4.2.0", "4.3.0.dev1", "3.5.1"])
def test_versions_without_a_runtime(version: str) -> None:
    with pytest.raises(UnsupportedVersionError, match="there is no Iceberg runtime") as caught:
        runtime_coordinates(version)
    assert any("pip install" in hint for hint in caught.value.hints)
