"""Thresholds so small that a handful of rows takes every path a large table would."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from havasu_vc.datasets.havasu import (
    delete_writing,
    deletes,
    diff,
    edit,
    ledger,
    pieces,
    writing,
)
from havasu_vc.history import diff as history_diff


@contextmanager
def tiny_thresholds(
    *,
    small_file: int = edit.SMALL_FILE,
    most_deltas: int = 2,
    most_keys: int = ledger.MOST_KEYS,
    group_rows: int = 3,
    diffs: bool = False,
    task_bytes: int = 1,
) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edit, "MOST_DELTAS", most_deltas)
        patch.setattr(edit, "SMALL_FILE", small_file)
        for module in (ledger, edit):
            patch.setattr(module, "MOST_KEYS", most_keys)
        for module in (writing, delete_writing):
            patch.setattr(module, "GROUP_ROWS", group_rows)
        patch.setattr(deletes, "LARGE", 8)
        patch.setattr(history_diff, "PARTS", 3)
        if diffs:
            patch.setattr(diff, "SMALL_ROWS", 0)
            patch.setattr(diff, "SMALL_BYTES", 0)
            patch.setattr(pieces, "ROWS_A_TASK", 1)
            patch.setattr(diff, "SHARE", 1)
            patch.setattr(diff, "TASK_BYTES", task_bytes)
        yield
