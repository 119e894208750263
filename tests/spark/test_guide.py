"""The commands of the guide of Spark that start one of their own, as the page prints them."""

import os
import sys
from pathlib import Path

import pytest

from tests.test_docs import Reader, blocks, reader

__all__ = ["reader"]

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "query-with-spark.md"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """Return the folder of a Spark, in which settings may be written."""
    import pyspark

    home = tmp_path / "spark"
    (home / "conf").mkdir(parents=True)
    for each in Path(pyspark.__file__).parent.iterdir():
        if each.name != "conf":
            (home / each.name).symlink_to(each)
    return home


@pytest.mark.slow
def test_what_starts_spark(
    reader: Reader, installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HOME", str(installed))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    beginning = True
    said: dict[str, str] = {}
    for block in blocks(GUIDE.read_text("utf-8")):
        beginning = beginning and "havasu_vc.spark" not in block.text
        if beginning and block.runs:
            reader.follow(block, GUIDE)
        elif "tests/spark/test_guide.py" in block.note:
            said |= {command: reader.run(command, str(GUIDE)) for command, _ in block.commands}

    # Where nobody types `pyspark` ends once its arguments are understood.
    by_verb = {tuple(command.split()[:2]): text for command, text in said.items()}
    assert "Bea" in next(text for command, text in said.items() if "GROUP BY" in command)
    written = (reader.folder / "parcels.csv").read_text("utf-8").splitlines()
    assert written[0] == "id,owner,geom"
    assert sorted(line.split(",")[1] for line in written[1:]) == ["Ana", "Bea", "Cat"]
    assert "views: parcels" in by_verb["havasu-vc", "shell"]
    settings = (installed / "conf" / "spark-defaults.conf").read_text("utf-8")
    assert "spark.sql.catalog.havasu " in settings
    assert ("eval", "pyspark") in by_verb
