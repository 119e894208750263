"""A process is killed within an export to a bucket: the same command does the work afterwards.

Nothing is removed that no export wrote, nor what one writes that may live.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyiceberg.table import StaticTable

from havasu_vc import Repo
from havasu_vc.exchange.export_marks import MARK
from tests.conftest import lacking
from tests.datasets.thresholds import tiny_thresholds
from tests.remotes.test_far_exports import names, system
from tests.repo.points import make
from tests.repo.tables import BY_ID, points, write
from tests.support.servers import S3_ENVIRONMENT, has_moto, moto

ROOT = Path(__file__).parents[2]
COUNT = 2000
PROGRAM = """
import os, signal
from havasu_vc.cli.start import main
from havasu_vc.exchange import delta_writer, parquet_dataset, side_by_side
from havasu_vc.tables import bucket
from havasu_vc.transfer import exports

exports.PART_BYTES = 20_000
name, number, call = os.environ["SIGNAL_AT"].split()

def signalling(write):
    def put(url, *content):
        done = write(url, *content)
        if name in url:
            os.kill(os.getpid(), int(number))
        return done
    return put

modules = (bucket, delta_writer, parquet_dataset, side_by_side)
for module in modules:
    if hasattr(module, call):
        setattr(module, call, signalling(getattr(module, call)))
main()
"""
"""The command, which gets a signal once an object of some name is put, made or removed."""
KILL, STOP = int(signal.SIGKILL), int(signal.SIGSTOP)
NEVER = "no-such-object 0 put_object"


@pytest.fixture(scope="module")
def repo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Repo]:
    if not has_moto():
        lacking("this needs an S3 server: pip install 'moto[s3]' flask flask-cors")
    folder = tmp_path_factory.mktemp("killed")
    with moto() as endpoint, pytest.MonkeyPatch.context() as patch:
        for name, value in {**S3_ENVIRONMENT, "AWS_ENDPOINT_URL": endpoint}.items():
            patch.setenv(name, value)
        system().create_dir("exports")
        found = make(folder / "ours", {1: ("one", 1)})
        with tiny_thresholds(most_deltas=9, group_rows=128, small_file=0):
            found.import_(write(folder / "big.parquet", points(COUNT)), "big", options=BY_ID)
            found.write("big", points(300, start=COUNT), mode="append")
        yield found


@pytest.fixture
def folder() -> str:
    """A folder of the bucket that no other test has."""
    return uuid.uuid4().hex


def begin(repo: Repo, folder: str, to: str, *words: str, at: str = NEVER) -> subprocess.Popen[str]:
    place = f"s3://exports/{folder}"
    more = ("--plain",) if to == "delta" else ()
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "export", "big", place, "--to", to, *more, *words],
        env=os.environ | {"SIGNAL_AT": at, "PYTHONPATH": str(ROOT)},
        cwd=repo.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(repo: Repo, folder: str, to: str, *words: str, at: str = NEVER) -> tuple[int, str]:
    process = begin(repo, folder, to, *words, at=at)
    _, said = process.communicate(timeout=120)
    return process.returncode, said


def check(folder: str, to: str, *others: str) -> None:
    """See that the rows are there as other programs read them, and no files of two exports."""
    if to == "delta":
        given = {"AWS_ENDPOINT_URL": os.environ["AWS_ENDPOINT_URL"], "AWS_ALLOW_HTTP": "true"}
        table = deltalake.DeltaTable(
            f"s3://exports/{folder}", storage_options={**given, **S3_ENVIRONMENT}
        )
        rows = table.to_pyarrow_table()
    elif to == "iceberg-v3":
        rows, documents = by_pyiceberg(folder)
        others = (*others, *documents)
    else:
        rows = ds.dataset(f"exports/{folder}", filesystem=system(), format="parquet").to_table()
    assert sorted(rows["id"].to_pylist()) == list(range(COUNT + 300))
    parts = [name for name in names(folder) if PART.match(name)]
    logs = {name for name in names(folder) if name.endswith(".json") and name[0] in "0v"}
    runs = {found[2] for found in map(PART.match, names(folder)) if found}
    assert len(runs) == max(1, len(logs))
    assert {*names(folder)} - {*parts} == logs | {*others}


def by_pyiceberg(folder: str) -> tuple[pa.Table, list[str]]:
    """Return what PyIceberg reads of the newest version, and the documents beside its versions.

    All of these are of some version, but those that were put for one which a kill prevented.
    """
    (newest,) = sorted(name for name in names(folder) if name.endswith("metadata.json"))[-1:]
    told = {"s3.endpoint": os.environ["AWS_ENDPOINT_URL"], "s3.region": "us-east-1"}
    table = StaticTable.from_metadata(f"s3://exports/{folder}/metadata/{newest}", told)
    documents = [name for name in names(folder) if name.endswith(".avro")]
    return table.scan(selected_fields=("id",)).to_arrow(), [*documents, "version-hint.text"]


PART = re.compile(r"(part-)?\d{5}-([0-9a-f]{12})[-.].*parquet")
SECOND = {"parquet-dataset": "part-00001", "delta": "part-00001", "iceberg-v3": "data/00001"}
"""What the name of the second data file begins with."""
CUTS = {
    "parquet-dataset": ("_havasu put_object", "part-00001 put_object", "_havasu remove_object"),
    "delta": (
        "_havasu put_object",
        "part-00001 put_object",
        "0000.json create_object",
        "_havasu remove_object",
    ),
    "iceberg-v3": (
        "_havasu put_object",
        "data/00001 put_object",
        "v1.metadata.json create_object",
        "_havasu remove_object",
    ),
}


@pytest.mark.parametrize(
    ("to", "cut", "overwrite"),
    [
        (to, cut, over)
        for to, cuts in CUTS.items()
        for cut in cuts
        for over in ((), ("--overwrite",))
        if not (over and "_havasu" in cut) and not (over and "create" in cut)
    ],
)
def test_the_same_command_succeeds(
    repo: Repo, folder: str, to: str, cut: str, overwrite: tuple[str, ...]
) -> None:
    """Also twice over, and where it overwrites what was there."""
    if overwrite:
        assert run(repo, folder, to)[0] == 0
    name, call = cut.split()
    for _ in range(1 if "remove" in cut or "create" in cut else 2):
        code, said = run(repo, folder, to, *overwrite, at=f"{name} {KILL} {call}")
        assert code == -KILL, said
        assert names(folder)
    if "remove" in cut:
        assert MARK not in names(folder)  # all is done by then
        check(folder, to)
        return
    assert MARK in names(folder)
    code, said = run(repo, folder, to, *overwrite)
    assert code == 0, said
    check(folder, to)


@pytest.mark.parametrize("to", CUTS)
def test_what_is_of_others_stays(repo: Repo, folder: str, to: str) -> None:
    assert run(repo, folder, to, at=f"{SECOND[to]} {KILL} put_object")[0] == -KILL
    for name in ("part-00000-0123456789ab.parquet", "notes.txt"):
        with system().open_output_stream(f"exports/{folder}/{name}") as file:
            file.write(b"somebody's")
        before = names(folder)
        code, said = run(repo, folder, to)
        assert code != 0 and len([line for line in said.splitlines() if "Error" in line]) == 1
        assert ("has files already" if to == "parquet-dataset" else "something else is at") in said
        assert names(folder) == before
        system().delete_file(f"exports/{folder}/{name}")
    assert run(repo, folder, to)[0] == 0
    check(folder, to)


@pytest.mark.parametrize("to", CUTS)
def test_an_export_that_lives_is_left_alone(repo: Repo, folder: str, to: str) -> None:
    process = begin(repo, folder, to, at=f"{SECOND[to]} {STOP} put_object")
    try:
        stopped(process)
        before = settled(folder)
        for words in ((), ("--overwrite",)):
            code, said = run(repo, folder, to, *words)
            assert code != 0 and f"process {process.pid} on " in said and "Hint: wait" in said
        assert names(folder) == before
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 0, said
    check(folder, to)


def stopped(process: subprocess.Popen[str]) -> None:
    for _ in range(6000):
        text = Path(f"/proc/{process.pid}/stat").read_text()
        if text.rpartition(")")[2].split()[0] == "T":
            return
        time.sleep(0.01)
    raise AssertionError("it did not stop")


def settled(folder: str) -> list[str]:
    """Return what stands there once all has come that was on its way to the server."""
    found = names(folder)
    while True:
        time.sleep(0.5)
        if (again := names(folder)) == found:
            return found
        found = again


@pytest.mark.parametrize("to", CUTS)
def test_an_export_of_another_machine_is_replaced_when_told(
    repo: Repo, folder: str, to: str
) -> None:
    """And should it live, it neither goes on nor takes anything with it."""
    process = begin(repo, folder, to, at=f"{SECOND[to]} {STOP} put_object")
    try:
        stopped(process)
        place = f"exports/{folder}/{MARK}"
        with system().open_input_stream(place) as file:
            told = json.loads(file.read())
        told |= {"owner": f"{'0' * 32} 1 1", "said": "process 1 on faraway"}
        with system().open_output_stream(place) as file:
            file.write(json.dumps(told).encode())
        before = names(folder)
        code, said = run(repo, folder, to)
        assert code != 0 and "by process 1 on faraway that did not end" in said
        assert "Hint: --overwrite" in said and names(folder) == before
        code, said = run(repo, folder, to, "--overwrite")
        assert code == 0, said
        check(folder, to)
        process.send_signal(signal.SIGCONT)
        _, said = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode > 0 and said.startswith("Error: ") and f"exports/{folder}" in said
    check(folder, to)


@pytest.mark.parametrize("to", CUTS)
@pytest.mark.parametrize("text", [b"", b"[]", b'{"run": "*"}', b"\xff"])
def test_a_mark_that_is_none_stays(repo: Repo, folder: str, to: str, text: bytes) -> None:
    with system().open_output_stream(f"exports/{folder}/{MARK}") as file:
        file.write(text)
    code, said = run(repo, folder, to, "--overwrite")
    assert code != 0 and "is no mark of an export" in said and "Hint: remove it" in said
    assert names(folder) == [MARK]


def test_a_process_that_failed_and_lives_goes_on(
    repo: Repo, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the network went away, what was put could not be removed either."""
    place = f"s3://exports/{folder}"

    def failing(url: str) -> None:
        raise OSError("no network")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no network"):
        patch.setattr("havasu_vc.exchange.side_by_side.remove_object", failing)
        repo.export("big", place, format="parquet-dataset")
    assert MARK in names(folder)
    repo.export("big", place, format="parquet-dataset")
    check(folder, "parquet-dataset")
