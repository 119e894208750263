"""Kart datasets keep the contract, in every path structure and with or without a commit at hand."""

from pathlib import Path

import pytest

from havasu_vc.formats.kart.paths import GENERAL, INT, LEGACY, PathStructure
from havasu_vc.testing.dataset_contract import SCHEMA, DatasetContract, TableOf
from havasu_vc.testing.memory import KartDatasets


@pytest.fixture(params=[INT, GENERAL, LEGACY, PathStructure("msgpack/hash", 16, 3, "hex")])
def structure(request: pytest.FixtureRequest) -> PathStructure:
    found: PathStructure = request.param
    return found


class TestWithSink(DatasetContract):
    @pytest.fixture
    def table(self, tmp_path: Path, structure: PathStructure) -> TableOf:
        made = KartDatasets(tmp_path)
        return TableOf(SCHEMA, lambda rows: made.new(SCHEMA, rows, structure=structure))


class TestWithoutSink(DatasetContract):
    @pytest.fixture
    def table(self, tmp_path: Path) -> TableOf:
        made = KartDatasets(tmp_path, sink=False)
        return TableOf(SCHEMA, lambda rows: made.new(SCHEMA, rows))

    def test_another_version_of_it_takes_rows_in(self, table: TableOf) -> None:
        """Only a commit in the making has a place for the objects of rows."""
        view = table.new(())
        with pytest.raises(ValueError, match="no commit in the making"):
            view.remade(view.schema)
