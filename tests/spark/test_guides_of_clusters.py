"""The commands of the guides of Spark on one machine and on clusters, as printed.

Names of machines, of buckets and of shared folders alone are those of the test.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from havasu_vc import Repo
from tests.repo.tables import BY_ID, points
from tests.repo.tables import write as write_file
from tests.spark.clusters import ROOT, awaited, bucket_of, connect_server, shared
from tests.support.spark import has_java
from tests.test_docs import Block, Reader, blocks, reader

__all__ = ["reader"]

GUIDES = ROOT / "docs" / "guides"
OURS = f"tests/spark/{Path(__file__).name}"
MASTER = "spark://head:7077"
REMOTE = "sc://spark.example.org:15002"

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
    for shown, there in ((MASTER, master), (REMOTE, master), ("/shared", str(shared))):
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
    making, here, there, _, session = ours(page)
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
    (block,) = (each for each in ours(page) if each.text.startswith("$ export PYSPARK"))
    follow(reader, page, block, master, folder)

    repo = Repo.open(folder / "survey")
    assert len(repo.table("big")) == 8900
    assert list(repo.fsck(full=True)) == []


NEEDED = ["numpy", "pyarrow", "shapely"]
GIT = ["pygit2", "cffi", "_cffi_backend"]
NOTED = """
import sys
with open({!r}, "a") as file:
    print(sys.prefix, file=file)
"""


def bring(there: Path, names: list[str]) -> None:
    """Copy packages that are installed here, with the libraries that stand beside them."""
    for name in names:
        for found in Path(pa.__file__).parents[1].glob(f"{name}*"):
            if found.is_dir() and found.name in (name, f"{name}.libs"):
                shutil.copytree(found, there / found.name)
            elif found.suffix == ".so":
                shutil.copy(found, there)


def test_a_packed_environment(
    reader: Reader, master: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors run the Python that they are sent, which lacks most of what this one has."""
    pytest.importorskip("venv_pack", reason="this needs venv-pack: pip install venv-pack")
    active, noted = tmp_path / "active", tmp_path / "noted"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", active], check=True)
    (there,) = active.glob("lib/*/site-packages")
    bring(there, NEEDED)
    (there / "sitecustomize.py").write_text(NOTED.format(str(noted)))
    monkeypatch.setenv("VIRTUAL_ENV", str(active))
    monkeypatch.delenv("PYSPARK_PYTHON")
    page = GUIDES / "spark.md"
    making, _, _, packing, _ = ours(page)
    scratch = reader.folder / "scratch"
    scratch.mkdir()
    follow(reader, page, making, master, reader.folder)
    reader.run("cd survey", str(page))
    reader.run(f"git config havasu.spark.scratch {scratch}", str(page))
    assert packing.text.startswith("$ venv-pack")
    follow(reader, page, packing, master, reader.folder)
    options = f"--primary-key id --engine spark --master {master}"
    refused = reader.run(f"! havasu-vc import big.parquet {options} 2>&1", str(page))
    assert "has no pygit2, which tasks need" in refused and "Traceback" not in refused
    bring(there, GIT)
    reader.run("rm environment.tar.gz", str(page))
    follow(reader, page, packing, master, reader.folder)
    said = reader.run(f"havasu-vc import big.parquet {options}", str(page))
    assert "the work is done here" not in said
    assert len(Repo.open(reader.folder).table("big")) == 9000

    ran = set(noted.read_text().splitlines())
    assert ran and all(prefix.endswith("/environment") for prefix in ran), ran


def test_connect(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without Java, with what is edited on a branch meanwhile."""
    page = GUIDES / "spark-clusters.md"
    (block,) = (each for each in ours(page) if REMOTE in each.text)
    with connect_server(tmp_path) as server:
        repo = shared(server, "guide", monkeypatch)
        first = write_file(server.folder / "driver" / "parcels.parquet", points(300))
        repo.import_(first, "parcels", options=BY_ID)
        repo.create_branch("survey")
        repo.switch("survey")
        repo.write("parcels", points(20, start=100, name="surveyed"))
        repo.switch("main")
        bucket_of(server).create_dir("incoming")
        release = pa.concat_tables([points(250), points(50, start=400)])
        pq.write_table(release, "incoming/parcels.parquet", filesystem=bucket_of(server))
        monkeypatch.setenv("SPARK_REMOTE", server.master)
        monkeypatch.setenv("JAVA_HOME", "/nowhere")
        reader.folder = repo.path
        follow(reader, page, block, server.master, tmp_path)
        rows = Repo.open(repo.path).table("parcels").to_arrow().to_pylist()
    model = {row["id"]: row for row in release.to_pylist()}
    model |= {row["id"]: row for row in points(20, start=100, name="surveyed").to_pylist()}
    assert {row["id"]: row for row in rows} == model
