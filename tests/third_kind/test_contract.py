"""A kind that the product does not know keeps the contract as the others do."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from havasu_vc.datasets.folder import Folder, MemoryFolder, TreeFolder, edited
from havasu_vc.datasets.kinds import added
from havasu_vc.datasets.storage import Storage
from havasu_vc.store.files import DataFileStore
from havasu_vc.store.trees import edit_tree
from havasu_vc.testing.dataset_contract import SCHEMA, DatasetContract, TableOf
from havasu_vc.testing.memory import KartDatasets
from havasu_vc.testing.tables import Row, batch_of
from tests.third_kind import LINES
from tests.third_kind.build import NewLines
from tests.third_kind.view import LinesDataset


@pytest.fixture(autouse=True)
def _there() -> Iterator[None]:
    with added(LINES):
        yield


class TestInGit(DatasetContract):
    @pytest.fixture
    def table(self, tmp_path: Path) -> TableOf:
        made = KartDatasets(tmp_path)  # for its objects in memory

        def new(rows: Sequence[Row]) -> LinesDataset:
            blobs = written(rows).finish().blobs
            folder = TreeFolder(made.objects, edit_tree(made.objects, None, blobs))
            return LinesDataset("parcels", folder, made.storage)

        return TableOf(SCHEMA, new)


class TestInMemory(DatasetContract):
    @pytest.fixture
    def table(self, tmp_path: Path) -> TableOf:
        files = DataFileStore(tmp_path)
        storage = Storage(files, tmp_path / "keys", files)

        def new(rows: Sequence[Row]) -> LinesDataset:
            folder: Folder = edited(MemoryFolder(), written(rows).finish())
            return LinesDataset("parcels", folder, storage)

        return TableOf(SCHEMA, new)


def written(rows: Sequence[Row]) -> NewLines:
    new = NewLines("parcels", SCHEMA, meta={})
    new.write([batch_of(rows, SCHEMA)])
    return new
