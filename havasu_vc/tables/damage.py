"""Errors of a table that cannot be read: one line that names the file, and a way on.

The readers below say of their files what is true in a repository; what is true of a
table's files is said here. Nothing of a damaged table is ever deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from havasu_vc.errors import (
    CorruptDataFileError,
    CorruptDatasetError,
    CorruptionError,
    DataFileNotFoundError,
    StorageError,
)

__all__ = ["damaged", "missing", "reading_document", "reading_table_file"]

_HINT = (
    "restore the file, or make the table anew; of a checkout `havasu-vc restore DATASET` does, "
    "without the edits that it held"
)


def damaged(path: str | Path, reason: str) -> CorruptionError:
    """Return the error of a file of a table that is not what it must be."""
    return CorruptionError(f"{path}: {reason}", hints=(_HINT,))


def missing(path: str | Path) -> CorruptionError:
    """Return the error of a file that a table names and that is not there."""
    return CorruptionError(f"{path} is missing, and the table needs it", hints=(_HINT,))


@contextmanager
def reading_document(path: Path) -> Iterator[None]:
    """Let errors of the block tell of a document of a table."""
    try:
        yield
    except CorruptDatasetError as error:
        raise damaged(path, error.reason) from error
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        if type(error).__module__.startswith("havasu_vc"):
            raise
        raise StorageError(f"{path} cannot be read: {error.strerror or error}") from error


@contextmanager
def reading_table_file(path: str | Path) -> Iterator[None]:
    """Let errors of the block tell of a data file or delete file of a table."""
    try:
        yield
    except DataFileNotFoundError:
        raise missing(path) from None
    except CorruptDataFileError as error:
        raise damaged(path, error.reason) from error
    except CorruptDatasetError as error:
        raise damaged(path, error.reason) from error
