"""Outputs compared with files that a person has read.

A golden file is only ever written by `make golden`, and its diff is reviewed like code.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Golden:
    """Compares text with a file, or writes the file when `update` is set."""

    update: bool

    def __call__(self, text: str, path: Path) -> None:
        content = text.encode()
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)
        elif not path.exists():
            pytest.fail(f"{path} is missing; `make golden` writes it")
        else:
            assert text == path.read_bytes().decode()
