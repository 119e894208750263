"""Machines that do not share the folder of an export say so, and nothing half-written stays."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import StorageError
from havasu_vc.exchange.delta_writer import write_delta
from havasu_vc.exchange.export import Written
from havasu_vc.exchange.iceberg_writer import write_iceberg_3
from havasu_vc.exchange.parquet_dataset import write_parquet_dataset
from havasu_vc.exchange.side_by_side import Parts
from havasu_vc.model.task import Task
from tests.exchange.tables import stored
from tests.repo.points import make
from tests.repo.tables import BY_ID, points, write

HEADER, _ = stored(pa.table({"id": [1, 2]}))
Moves = Callable[[], object]

WRITERS: dict[str, Callable[..., Written]] = {
    "parquet-dataset": write_parquet_dataset,
    "delta": write_delta,
    "iceberg-v3": write_iceberg_3,
}


class Elsewhere(LocalEngine):
    """Runs tasks where the folder is another, before them or after."""

    def __init__(self, before: Moves | None = None, after: Moves | None = None) -> None:
        super().__init__(threads=1)
        self.before, self.after = before, after

    def run(self, tasks: Sequence[Task], **how: Any) -> Any:
        if self.before is not None:
            self.before()
        found = list(super().run(tasks, **how))
        if self.after is not None:
            self.after()
        yield from found


def parquet_files(folder: Path) -> Iterator[Path]:
    return folder.rglob("*.parquet")


@pytest.mark.parametrize("format", WRITERS)
def test_a_machine_that_does_not_see_the_folder(tmp_path: Path, format: str) -> None:
    home, away = tmp_path / "home", tmp_path / "away"
    home.mkdir()
    engine = Elsewhere(before=lambda: home.rename(away))
    with pytest.raises(StorageError, match=f"does not see {home}") as caught:
        WRITERS[format](home / "t", HEADER, Parts([()], engine))
    assert "all machines share" in caught.value.hints[0]
    assert list(parquet_files(away)) == [] and not home.exists()


@pytest.mark.parametrize("format", ["parquet-dataset", "delta"])
def test_files_that_do_not_arrive(tmp_path: Path, format: str) -> None:
    def lose() -> None:
        for path in parquet_files(tmp_path):
            path.unlink()

    with pytest.raises(StorageError, match="was written on another machine"):
        WRITERS[format](tmp_path / "t", HEADER, Parts([()], Elsewhere(after=lose)))
    assert list(tmp_path.rglob("*.json")) == []


def test_a_source_that_a_machine_does_not_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named by its whole path: no worker starts in the folder of whoever imports."""
    repo = make(tmp_path / "ours", {1: ("one", 1)})
    file = write(tmp_path / "big.parquet", points(30))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LocalEngine, "distributed", True)
    repo.import_("big.parquet", "seen", options=BY_ID)
    run_here = LocalEngine.run

    def run_there(engine: LocalEngine, tasks: Sequence[Task], **how: Any) -> Any:
        file.unlink(missing_ok=True)
        yield from run_here(engine, tasks, **how)

    monkeypatch.setattr(LocalEngine, "run", run_there)
    head = repo.head()
    with pytest.raises(StorageError, match=f"the worker on .* does not see {file}") as caught:
        repo.import_("big.parquet", "unseen", options=BY_ID)
    assert "--engine local" in caught.value.hints[-1] and repo.head() == head
