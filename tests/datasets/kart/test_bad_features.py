"""One bad feature: its path and the cause are named, and what does not need it works on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgpack
import pytest

from havasu_vc.datasets.kart.view import KartDataset
from havasu_vc.datasets.kinds import findings_in
from havasu_vc.datasets.protocol import Predicate
from havasu_vc.engine.local import LocalEngine
from havasu_vc.errors import CorruptDatasetError
from havasu_vc.formats.kart.paths import INT
from havasu_vc.model.task import Task, run_task
from havasu_vc.testing.dataset_contract import FIRST, SCHEMA, compare
from havasu_vc.testing.memory import KartDatasets

(FOLDER,), (NAME,) = INT.paths([[3]])
PLACE = f"feature/{FOLDER.decode()}/{NAME.decode()}"
Damage = Callable[[dict[str, bytes | None]], str]


def no_msgpack(blobs: dict[str, bytes | None]) -> str:
    blobs[PLACE] = b"\xc1"
    return "not msgpack"


def no_legend(blobs: dict[str, bytes | None]) -> str:
    blobs[PLACE] = msgpack.packb(["0" * 40, [None, None]])
    return "it names the legend 0+, which is not there"


def wrong_place(blobs: dict[str, bytes | None]) -> str:
    blobs[f"feature/A/A/B/A/{NAME.decode()}"] = msgpack.packb(["0" * 40, []])
    return "A/A/B/A/kQM= at HEAD: its path does not match a key"


def wrong_name(blobs: dict[str, bytes | None]) -> str:
    blobs["feature/A/A/A/A/nonsense!"] = b"\x80"
    return "nonsense! at HEAD: its path does not match a key"


def a_file_among_folders(blobs: dict[str, bytes | None]) -> str:
    blobs["feature/A/A/kQM="] = b"\x80"
    return "its path does not match a key"


@pytest.fixture(params=[no_msgpack, no_legend, wrong_place, wrong_name, a_file_among_folders])
def damage(request: pytest.FixtureRequest) -> Damage:
    found: Damage = request.param
    return found


@pytest.fixture
def sound(tmp_path: Path) -> KartDataset:
    made = KartDatasets(tmp_path)
    return made.new(SCHEMA, FIRST)


@pytest.fixture
def damaged(tmp_path: Path, sound: KartDataset, damage: Damage) -> tuple[KartDataset, str]:
    blobs: dict[str, bytes | None] = {}
    reason = damage(blobs)
    made = KartDatasets(tmp_path)
    made.objects = sound.folder.source  # type: ignore[assignment]
    return made.of(blobs, base=sound.folder.tree), reason


def read(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    return [row for task in tasks for batch in run_task(task) for row in batch.to_pylist()]


def test_reading_all_names_the_file(damaged: tuple[KartDataset, str]) -> None:
    dataset, reason = damaged
    with pytest.raises(CorruptDatasetError, match=f"^parcels/.table-dataset/feature/.*{reason}"):
        read(dataset.scan())


def test_other_rows_can_be_read(damaged: tuple[KartDataset, str]) -> None:
    dataset, _ = damaged
    tasks = dataset.scan(None, Predicate(keys=((1,), (15,))))
    assert sorted(row["fid"] for t in tasks for b in run_task(t) for row in b.to_pylist()) == [
        1,
        15,
    ]
    assert compare(dataset, dataset) == []
    assert dataset.header.schema == dataset.schema


def test_fsck_lists_each(damaged: tuple[KartDataset, str], sound: KartDataset) -> None:
    dataset, reason = damaged
    with LocalEngine(threads=1) as engine:
        (found,) = findings_in(dataset, engine, full=True)
        assert list(findings_in(sound, engine, full=True)) == []
    text = f"{found.where} at {dataset.revision}: {found.message}"
    assert reason.replace("0+", "0" * 40) in text
