"""Where what a command prints goes: stdout, or a file that appears whole or not at all."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from havasu_vc.errors import StorageError

__all__ = ["opened_output"]


@contextmanager
def opened_output(path: Path | None) -> Iterator[TextIO]:
    """Yield the stream to print to; a file takes its place only when all went well."""
    if path is None or str(path) == "-":
        yield sys.stdout
    elif path.exists() and not path.is_file():
        # A pipe or a device cannot be replaced.
        with _file_errors(path), path.open("w", encoding="utf-8") as stream:
            yield stream
    else:
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}.part")
        try:
            with _file_errors(path), part.open("x", encoding="utf-8", newline="\n") as stream:
                yield stream
            with _file_errors(path):
                os.replace(part, path)
        finally:
            with suppress(OSError):
                part.unlink()


@contextmanager
def _file_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno is None:
            raise
        raise StorageError(f"{path} cannot be written: {error.strerror}") from error
