"""Where datasets of every kind keep what is not in git yet, or never will be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from havasu_vc.store.edits import ObjectSink
from havasu_vc.store.files import DataFileStore

__all__ = ["Storage"]


@dataclass(frozen=True, slots=True)
class Storage:
    """Where data files and key caches are."""

    files: DataFileStore
    """The content-addressed store."""
    keys: Path
    """The folder of key caches."""
    staging: DataFileStore
    """Where new files wait until a commit takes them into `files`."""
    sink: ObjectSink | None = None
    """Where git objects of a commit in the making go, for datasets whose rows are objects."""

    def path(self, file: str) -> Path:
        """Return where a file is, staged or stored."""
        return self.staging.path(file) if self.staging.has(file) else self.files.path(file)

    def location(self, file: str) -> Path:
        """Return where a file is or would be."""
        return self.staging.path(file) if self.staging.has(file) else self.files.location(file)

    def has(self, file: str) -> bool:
        """Whether a file is here."""
        return self.staging.has(file) or self.files.has(file)
