"""The registry of formats: every row can be used, and no name stands for two of them."""

from collections import Counter
from pathlib import Path

import pytest

from havasu_vc.exchange.formats import (
    EXPORT_EXTENSIONS,
    FOLDER_EXPORTS,
    FORMATS,
    TABLES,
    ExportFormat,
    FileFormat,
    format_of_file,
    format_written,
    load,
)


def test_no_name_stands_for_two() -> None:
    ends = Counter(end for each in FORMATS for end in each.extensions)
    written = Counter(end for each in FORMATS for end in each.written)
    names = Counter((*FOLDER_EXPORTS, *ExportFormat))
    assert not [name for found in (ends, written, names) for name in found if found[name] > 1]


@pytest.mark.parametrize("row", FORMATS, ids=lambda row: f"{row.label} {row.driver}")
def test_a_row_can_be_used(row: FileFormat) -> None:
    for function in (row.reader, row.writer):
        assert function is None or callable(load(function))
    assert row.reader or row.driver or row.writer
    assert (row.export is None) == (row.writer is None)
    assert not row.written or row.export is not None


@pytest.mark.parametrize("wanted", list(ExportFormat))
def test_each_format_to_export_to_has_a_row(wanted: ExportFormat) -> None:
    assert format_written(wanted).writer
    assert wanted.label


def test_what_is_exported_is_read_again_as_the_same() -> None:
    for end, wanted in EXPORT_EXTENSIONS.items():
        found = format_of_file(Path(f"parcels{end.upper()}"))
        assert found is not None
        assert found.export is wanted
    assert format_of_file(Path("parcels.doc")) is None
    assert set(TABLES) == {"delta", "iceberg"}
