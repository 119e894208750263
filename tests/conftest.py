"""What every test may rely on: an isolated git, golden files, the data of others, Spark.

And what a run consists of: how many examples, what is thorough, what one process does.
"""

import functools
import gc
import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import tests.support.examples  # noqa: F401  the profiles of Hypothesis
from tests.support.browser import Browser, find_chromium
from tests.support.git import isolate_git, run_git
from tests.support.golden import Golden
from tests.support.scratch import scratch_in_memory
from tests.support.servers import azurite, google, has_azurite, has_google
from tests.support.spark import add_catalog, has_iceberg, has_java, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

ROOT = Path(__file__).parents[1]
GARBAGE = gc.get_threshold()
"""How often it is looked for, before anything that is tested is imported."""

scratch_in_memory()
HOME = tempfile.TemporaryDirectory(prefix="havasu-home-")
# At once, not when pytest is ready: by then the conftest of a folder that was named on the
# command line has imported pygit2, which looks for the home folder once.
isolate_git(Path(HOME.name))


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in {"1", "true"}


def lacking(reason: str) -> None:
    """Skip the test; fail it where everything must be there."""
    if in_ci():
        pytest.fail(f"{reason}; in CI nothing may be skipped for that")
    pytest.skip(reason)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="run only the tests that use golden files, and write these anew",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.add_cleanup(HOME.cleanup)
    # pytest forgets the fixtures of a folder that it comes back to after a file further up.
    config.args.sort()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A run in the background ignores Ctrl-C, and so would every process that it starts.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # Collecting imports `havasu_vc.cli.start`, which leaves Ctrl-C to the system until its `main`
    # runs: a test that presses it would end the whole process. It has garbage looked for seldom,
    # too, which is for a process of one command.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.set_threshold(*GARBAGE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "Scheduling | None":
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.support.workers import FileOrGroupScheduling

    return FileOrGroupScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        for kind in ("spark", "browser"):
            if item.get_closest_marker(kind):
                # One process holds the one Spark: two would share two cores and twice the
                # memory. And the one browser, so that speeds mean something.
                item.add_marker(pytest.mark.xdist_group(kind))
                if not item.get_closest_marker("smoke"):
                    item.add_marker("thorough")
    mark_all_but_few(items)
    if config.getoption("--update-golden"):
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]


def mark_all_but_few(items: list[pytest.Item]) -> None:
    """Mark those parameters of a test as thorough that are beyond what `few` says."""
    seen: Counter[str] = Counter()
    for item in items:
        few = item.get_closest_marker("few")
        if few is not None:
            test = item.nodeid.partition("[")[0]
            seen[test] += 1
            if seen[test] > few.args[0]:
                item.add_marker("thorough")


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("spark") and not has_java():
        lacking("Spark needs Java, and there is none: install a JDK 17")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compare a text with a golden file: `golden(text, path)`."""
    return Golden(update=request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def git() -> Callable[..., str]:
    """Run the real git and return its output: `git("log", "-1", cwd=folder)`."""
    return run_git


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of files that others made, which are not in this repository.

    It is `../shared/data`, or what HAVASU_SHARED_DATA names; `none` says that it is
    not to be had, so that even CI skips the tests that need it.
    """
    named = os.environ.get("HAVASU_SHARED_DATA", "")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if named == "none":
        pytest.skip("HAVASU_SHARED_DATA says that the data of others is not here")
    if not folder.is_dir():
        lacking(f"the data of others is not at {folder}")
    return folder


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Start Chromium once for all tests that look at pages."""
    program = find_chromium()
    if program is None:
        lacking("pages are tested in Chromium, and there is none: apt install chromium")
    assert program is not None
    found = Browser(program)
    yield found
    found.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["SparkSession"]:
    """Start Spark once for all tests of a worker, with the Iceberg runtime if it can be had."""
    session = open_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session runs that another test has started, and that would be taken as it is."""
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


@pytest.fixture(scope="session")
def iceberg(spark: "SparkSession") -> Callable[[Path], str]:
    """Add an Iceberg catalog over a folder of tables and return its name.

    With `catalog = iceberg(folder)`, `spark.sql(f"SELECT * FROM {catalog}.nz.roads")` reads
    the table at `folder/nz/roads`.
    """
    if not has_iceberg(spark):
        lacking("this needs the Iceberg runtime for Spark, which could not be fetched")
    return functools.partial(add_catalog, spark)


@pytest.fixture(scope="session")
def google_host() -> Iterator[str]:
    """A server of Google's API, for all tests of this process."""
    if not has_google():
        lacking("this needs a server of Google's API: pip install gcp-storage-emulator")
    with google() as url:
        yield url


@pytest.fixture(scope="session")
def azure_host() -> Iterator[str]:
    """A server of Azure's API, for all tests of this process."""
    if not has_azurite():
        # It is no Python, and not had from where the system has its programs.
        pytest.skip("this needs a server of Azure's API: scripts/azurite.sh .engines/azure")
    with azurite() as url:
        yield url
