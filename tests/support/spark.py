"""Spark for tests: whether it can run here, one small quiet session, catalogs of Iceberg."""

import functools
import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.examples import is_quick

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@functools.cache
def has_java() -> bool:
    """Return whether Spark would find a Java that runs."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java:
        return False
    try:
        # macOS has a `java` that only says where to get one.
        return subprocess.run([java, "-version"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def open_session(scratch: Path) -> "SparkSession":
    """Start a session on two cores that writes nowhere but to `scratch`.

    It carries the Iceberg runtime, fetched once and kept in Ivy's folder. Where that cannot
    be had, the session starts without it, and `has_iceberg` says so.
    """
    import pyspark

    from havasu_vc.spark.jars import jar_settings

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    try:
        return start_session(scratch, jar_settings(pyspark.__version__))
    except Exception as error:
        # The JVM of a failed start is gone, and with it every trace of the jar.
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        return start_session(scratch, {})


def start_session(scratch: Path, jar: Mapping[str, str]) -> "SparkSession":
    """Start a session with the settings of a jar."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("havasu-vc tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        # For the one test of a quick run it is not worth while to compile well.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1" if is_quick() else "")
        .config("spark.local.dir", str(scratch / "local"))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config(map=dict(jar))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def has_iceberg(session: "SparkSession") -> bool:
    """Return whether the session has the Iceberg runtime on its class path."""
    settings = session.sparkContext.getConf()
    return settings.get("spark.sql.extensions") is not None


_numbers = itertools.count(1)


def add_catalog(session: "SparkSession", warehouse: Path) -> str:
    """Add a Hadoop catalog over a folder, and return its name: `checkout1` and so on.

    A table at `<warehouse>/nz/roads` is `<name>.nz.roads`. Nothing is cached, so that the
    session sees at once what another writer published.
    """
    name = f"checkout{next(_numbers)}"
    session.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
    session.conf.set(f"spark.sql.catalog.{name}.warehouse", warehouse.resolve().as_uri())
    session.conf.set(f"spark.sql.catalog.{name}.cache-enabled", "false")
    return name
