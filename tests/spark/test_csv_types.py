"""What types the columns of a CSV are of is found by executors, as by the local engine."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from havasu_vc import Repo
from havasu_vc.datasets.kinds import require_files
from tests.cli.conftest import invoke, succeed
from tests.repo.tables import rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def write(path: Path, count: int, more: str = "") -> Path:
    """Write a file of which every column but one has a type that its last rows decide."""
    lines = ["id,code,day,size,big,note,lon,lat,mixed"]
    for n in range(count):
        last = n == count - 1
        code = "007" if last else f"{10_000 + n}"
        size = "1.5" if last else str(n)
        big = str(2**63) if last else str(n)
        mixed = "2020-01-01" if last else "2020-01-01T10:00"
        note = f'"two\nlines of ""{n}"""' if n % 3 else ""
        day = f"2020-01-{n % 28 + 1:02}"
        where = f"{n % 180},{n % 90}.25"
        lines.append(f"{n},{code},{day},{size},{big},{note},{where},{mixed}")
    path.write_bytes(("\ufeff" + "\r\n".join(lines) + "\r\n" + more).encode())
    return path


def refusing(*_: object) -> None:
    raise AssertionError("the driver reads no rows")


def test_both_engines_find_the_same_types(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", 20_000)
    first = write(tmp_path / "wells.csv", 2000)
    second = write(tmp_path / "next.csv", 2100)
    found: dict[str, Any] = {}
    for engine in ("local", "spark"):
        with monkeypatch.context() as patch:
            if engine == "spark":
                patch.setattr("havasu_vc.exchange.csv.text_batches", refusing)
                patch.setattr("havasu_vc.exchange.csv_judging.text_batches", refusing)
            folder = tmp_path / engine
            succeed(invoke(["init", folder]))
            command: list[str | Path] = [
                "-C",
                folder,
                "import",
                "--engine",
                engine,
                "--primary-key",
                "id",
            ]
            said = [succeed(invoke([*command, first, "-m", "First"])).stderr]
            said += [succeed(invoke([*command, second, "wells", "--replace"])).stderr]
        repo = Repo.open(folder)
        view = require_files(repo.dataset("wells"))
        schema = json.loads(invoke(["-C", folder, "meta", "get", "wells", "schema.json",
                                    "-o", "json"]).stdout)  # fmt: skip
        types = [(each["name"], each["dataType"]) for each in schema["wells"]["schema.json"]]
        notes = [line for text in said for line in text.splitlines() if "column" in line]
        found[engine] = (types, view.snapshot.digests, rows(repo, "wells"), notes)
    assert found["spark"] == found["local"]
    types, _, table, notes = found["spark"]
    assert dict(types)["code"] == dict(types)["mixed"] == "text"
    assert dict(types)["size"] == "float" and dict(types)["big"] == "numeric"
    assert len(table) == 2100
    assert any("row 2,000 holds '2020-01-01', which is no time" in note for note in notes)


def test_executors_name_the_row(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("havasu_vc.exchange.csv.SPAN_BYTES", 20_000)
    folder = tmp_path / "repo"
    succeed(invoke(["init", folder]))
    command: list[str | Path] = ["-C", folder, "import", "--engine", "spark", "--primary-key", "id"]
    path = write(tmp_path / "ragged.csv", 1500, "7\r\n")
    ragged = invoke([*command, path])
    # Of three rows two have a line break, and the header is line 1.
    assert f"line {1500 + 1000 + 2} has 1 values where the header has 9" in ragged.stderr
    succeed(invoke([*command, write(tmp_path / "wells.csv", 1500)]))
    longer = write(tmp_path / "longer.csv", 1500, "1500,x,long ago,1,1,,1,1,x\r\n")
    odd = invoke([*command, longer, "wells", "--replace"])
    assert odd.exit_code != 0
    assert "row 1,501 has 'long ago' in column 'day', which is date in the dataset" in odd.stderr
