"""The benchmark's own promises: the same tables each time, edits that fit, honest verdicts."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.bench import data, edits, encoding_jobs
from tests.bench.__main__ import format_figure
from tests.bench.cases import Figure, all_cases
from tests.bench.process import CommandFailed, Run, alternated, run
from tests.bench.process_memory import sampled


@pytest.mark.parametrize("kind", data.KINDS)
def test_a_table_is_the_same_each_time_and_its_keys_are_unique(kind: str) -> None:
    table = pa.concat_tables(data.chunks(kind, 500))

    assert table.equals(pa.concat_tables(data.chunks(kind, 500)))
    assert len(table.column("fid").unique()) == 500
    assert table.num_columns == 10


def test_a_patch_says_what_the_table_holds(tmp_path: Path) -> None:
    file = tmp_path / "points.parquet"
    data.write_parquet("points", 300, file)

    edits.write_patches(file, tmp_path, 2, 50)

    rows = {row["fid"]: row for row in pq.read_table(file).to_pylist()}
    seen = []
    for patch in sorted(tmp_path.glob("patch-*.json")):
        for change in json.loads(patch.read_text())["kart.diff/v1+hexwkb"]["table"]["feature"]:
            old, new = change["-"], change["+"]
            seen.append(old["fid"])
            assert old["name"] == rows[old["fid"]]["name"]
            assert {name for name in old if old[name] != new[name]} == {"name", "height"}
    assert len(set(seen)) == 100


def test_a_version_differs_in_the_rows_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "points.parquet"
    data.write_parquet("points", 400, file)

    edits.write_version(file, tmp_path / "next.parquet", 30)

    before = pq.read_table(file).column("name").to_numpy(zero_copy_only=False)
    after = pq.read_table(tmp_path / "next.parquet").column("name").to_numpy(zero_copy_only=False)
    assert int(np.sum(before != after)) == 30


def test_rows_of_a_few_groups_are_in_no_others() -> None:
    rows = edits.chosen_rows(20 * edits.GROUP, 1000, 3)

    assert len(np.unique(rows)) == 1000
    assert len(np.unique(rows // edits.GROUP)) == 3


def test_a_process_is_measured() -> None:
    found = run([sys.executable, "-S", "-c", "x = bytearray(50_000_000); print('{}')"], {})

    assert found.memory > 50
    assert 0 < found.cpu
    assert found.report == {}


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_a_process_is_told_from_its_children() -> None:
    busy = "import time\nwhile time.process_time() < {}: pass\n"
    command = f"[sys.executable, '-S', '-c', {busy.format(0.4)!r}]"
    child = f"import subprocess, sys\nsubprocess.run({command})\n"
    found = run([sys.executable, "-S", "-c", child + busy.format(0.1)], {})

    assert 0.1 <= found.own + 0.02 < 0.3
    assert found.cpu - found.own > 0.39


@pytest.mark.skipif(sys.platform != "linux", reason="there is nobody to take orphans in")
def test_what_outlives_a_process_is_counted() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass\n"
    parent = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-S', '-c', {busy!r}])\n"
    found = run([sys.executable, "-S", "-W", "ignore", "-c", parent], {})

    assert found.own < 0.2 < 0.29 < found.cpu


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(CommandFailed, match="exited with 3"):
        run([sys.executable, "-S", "-c", "raise SystemExit(3)"], {})


def test_two_things_are_measured_in_turn_and_the_first_round_is_left_out() -> None:
    order = []

    def measured(name: str, number: int) -> Run:
        order.append(f"{name}{number}")
        return Run(100.0 if number == 0 else float(number), 0, 0)

    one, other = alternated(lambda n: measured("a", n), lambda n: measured("b", n), 3)

    assert order == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "b3"]
    assert (one.wall, other.wall) == (2, 2)


def test_what_measures_loads_no_library() -> None:
    """The peak memory of a child begins at its parent's."""
    program = "import sys; import tests.bench.__main__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert {"numpy", "pyarrow", "pytest"} & set(loaded.stdout.split()) == set(), loaded.stderr


@pytest.mark.parametrize(
    ("value", "asked", "verdict"),
    [(1.0, 1.0, "ok"), (1.1, 1.0, "MISS"), (1.0, None, "-"), (None, 1.0, "skip")],
)
def test_the_verdict(value: float | None, asked: float | None, verdict: str) -> None:
    figure = Figure("something", value, "s", asked)

    assert figure.verdict == verdict
    assert format_figure(figure).endswith(verdict)


def test_cases_have_names_of_their_own() -> None:
    names = [each.name for each in all_cases()]

    assert names
    assert len(set(names)) == len(names)


def test_encodings_are_measured_beside_shapely() -> None:
    found = encoding_jobs.geometries("50", "1")

    assert set(found) == {
        f"{what} {name}"
        for what in ("decode", "encode")
        for name in ("wkb", "ewkb", "wkt", "geojson")
    } | {"bounds wkb", "bounds ewkb"}
    assert all(set(each) == {"ours", "theirs"} for each in found.values())


def test_manifests_are_measured() -> None:
    found = encoding_jobs.manifests("20", "1")

    assert set(found) == {"write", "read", "bytes"}


@pytest.mark.thorough
def test_memory_of_a_tree_of_processes_is_by_what_each_is() -> None:
    # A tree of its own: the process of the tests may have started a JVM, and others.
    # The child fills its memory, so that it is its own and not shared with its parent.
    filled = "import time; held = bytearray(b'x' * 50_000_000); time.sleep(60)"
    parent = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {filled!r}])
sys.stdin.read()
child.kill()
"""
    with (
        subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE) as tree,
        sampled(tree.pid) as found,
    ):
        while found.peak.get("workers", 0) < 50:
            assert tree.poll() is None
            time.sleep(0.1)
        assert tree.stdin is not None
        tree.stdin.close()

    assert found.peak["driver"] > 0
    assert 50 <= found.peak["workers"] < 500
    assert "java" not in found.peak


@pytest.mark.thorough
def test_a_commands_memory_is_its_own() -> None:
    held = np.ones(60_000_000)
    small = run([sys.executable, "-c", "print(1)"], {})
    large = run([sys.executable, "-c", "print(len(b'x' * 200_000_000))"], {})
    assert len(held) and small.memory < 60 < 200 < large.memory
    assert (small.output, large.output) == ("1\n", "200000000\n")
