"""The commands of the guides of Spark on one machine and on a standalone cluster, as printed.

Names of machines and of shared folders alone are those of the test.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from havasu_vc import Repo
from tests.spark.clusters import ROOT, awaited
from tests.support.spark import has_java
from tests.test_docs import Block, Reader, blocks, reader

__all__ = ["reader"]

GUIDES = ROOT / "docs" / "guides"
OURS = f"tests/spark/{Path(__file__).name}"
MASTER = "spark://head:7077"

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def ours(page: Path) -> list[Block]:
    """Return the blocks of a page that run, here or with the other pages."""
    found = blocks(page.read_text("utf-8"))
    return [block for block in found if block.runs or OURS in block.note]


@pytest.fixture(autouse=True)
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have what is installed with this Python on the search path."""
    if not has_java():
        pytest.skip("there is no Java")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """Start a master and a worker by the guide's commands; return its address."""
    (starting,) = (
        block
        for block in ours(GUIDES / "spark-clusters.md")
        if block.text.startswith("$ spark-class")
    )
    started: list[subprocess.Popen[bytes]] = []
    address = MASTER
    try:
        for number, (command, _) in enumerate(starting.commands):
            log = tmp_path / f"log{number}"
            words = command.replace(MASTER, address).replace("head", "127.0.0.1").split()
            words[2:2] = ["--port", "0", "--webui-port", "0"]
            with log.open("wb") as out:
                # The program becomes Java, so that to end it is to end that.
                started.append(subprocess.Popen(words, stdout=out, stderr=out, cwd=tmp_path))
            if number == 0:
                address = awaited(log, r"spark://127\.0\.0\.1:\d+")
            else:
                awaited(log, "Successfully registered with master")
        yield address
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def follow(reader: Reader, page: Path, block: Block, master: str, shared: Path) -> str:
    """Run a block with the places that there are; return what its commands print."""
    for shown, there in ((MASTER, master), ("/shared", str(shared))):
        block = replace(block, text=block.text.replace(shown, there))
    block = replace(block, text=block.text.replace("/opt/havasu/bin/python", sys.executable))
    if block.note and block.language == "python":
        # What starts Spark has a process of its own, as the tests' Spark runs in this one.
        program = shared / "program.py"
        program.write_text(block.text)
        command = f"PYTHONPATH={ROOT} {sys.executable} {program}"
        return reader.run(command, f"{page}:{block.line}")
    if block.language == "python":
        reader.follow(block, page)
        return ""
    said = ""
    for command, _ in block.commands:
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            assert os.environ[name] == value
        else:
            said += reader.run(command, f"{page}:{block.line}")
    return said


def test_spark(reader: Reader, master: str) -> None:
    page = GUIDES / "spark.md"
    folder = reader.folder
    (folder / "scratch").mkdir()
    making, here, there, session = ours(page)
    follow(reader, page, making, master, folder)
    assert "100 features changed" in follow(reader, page, here, master, folder)
    follow(reader, page, there, master, folder)
    follow(reader, page, session, master, folder)

    repo = Repo.open(folder / "survey")
    counts = [len(repo.table("big", revision)) for revision in ("HEAD", "HEAD^", "HEAD^^")]
    assert counts == [9000, 8900, 9000]


def test_standalone(reader: Reader, master: str) -> None:
    page = GUIDES / "spark-clusters.md"
    folder = reader.folder
    (making, *_) = ours(GUIDES / "spark.md")
    follow(reader, page, making, master, folder)
    reader.run("cd survey", str(page))
    (block,) = (each for each in ours(page) if each.text.startswith("$ export"))
    follow(reader, page, block, master, folder)

    repo = Repo.open(folder / "survey")
    assert len(repo.table("big")) == 8900
    assert list(repo.fsck(full=True)) == []
