"""Havasu datasets keep the contract, as small tables and by every path of large ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from havasu_vc.testing.dataset_contract import SCHEMA, DatasetContract, TableOf
from havasu_vc.testing.memory import MemoryDatasets
from tests.datasets.thresholds import tiny_thresholds


def made_in(folder: Path, *, hilbert: int | None = None) -> TableOf:
    datasets = MemoryDatasets(folder)
    return TableOf(SCHEMA, lambda rows: datasets.new(SCHEMA, rows, hilbert=hilbert))


class TestSmall(DatasetContract):
    @pytest.fixture
    def table(self, tmp_path: Path) -> TableOf:
        return made_in(tmp_path)


class TestLarge(DatasetContract):
    @pytest.fixture
    def table(self, tmp_path: Path) -> Iterator[TableOf]:
        with tiny_thresholds(diffs=True):
            yield made_in(tmp_path)


class TestOutOfKeyOrder(DatasetContract):
    @pytest.fixture
    def table(self, tmp_path: Path) -> Iterator[TableOf]:
        with tiny_thresholds(diffs=True):
            yield made_in(tmp_path, hilbert=2)
