"""Where datasets of every kind keep what is not in git yet, or never will be.

A `Fetcher` brings data files that are not here: in a clone that takes them when they are read,
and in any other what plain git left away. Who plans work tells which files it will read, so that
they come together; only drivers fetch, and tasks get paths of files that are there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any, Protocol

from havasu_vc.records import dataclass
from havasu_vc.store.disk import may_write
from havasu_vc.store.files import DataFileStore, LinkedFiles
from havasu_vc.store.object_urls import folder_below
from havasu_vc.store.trees import ObjectSink

__all__ = ["Fetcher", "Storage"]


class Fetcher(Protocol):
    """Brings data files that are not here."""

    def fetch(self, files: Sequence[tuple[str, int]]) -> None:
        """Bring files, given by name and size; raise for the first that cannot be had."""

    def bucket(self) -> str | None:
        """Return the bucket that has them, where others can read them; None if none has."""

    def share(self, files: Sequence[tuple[str, int]]) -> None:
        """Put files that are here, given by name and size, into the bucket, if it lacks them."""


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

    fetcher: Fetcher | None = None
    """Brings files that are not here; None where they must be."""
    on_demand: bool = False
    """Whether files are away as a rule, not by chance: plans reckon with that."""
    folds: bool = False
    """Whether an edit may merge small files of earlier ones: only where others do not."""
    trial: bool = False
    """Whether nothing of what is written is to stay, as in a dry run."""
    allowed: tuple[str, ...] = ()
    """Folders outside with files that may be read where a commit links to them."""
    tried: set[str] = field(default_factory=set, compare=False)
    """Folders of a bucket in which others wrote what is only tried: whoever tries removes them."""
    memory: dict[str, Any] = field(default_factory=dict, compare=False)
    """Findings in files that are soon asked for again, by who keeps them."""

    @property
    def linked(self) -> LinkedFiles:
        """Files that stay where their owner keeps them."""
        return LinkedFiles(self.files.root / "linked", self.allowed)

    @property
    def settled(self) -> DataFileStore:
        """Delete files that were derived from others (`datasets.havasu.settling`)."""
        return DataFileStore(self.files.root / "settled")

    @property
    def bucket(self) -> str | None:
        """The bucket that files are in as a rule; None where they are here, or in none."""
        return self.fetcher.bucket() if self.on_demand and self.fetcher is not None else None

    def put_at(self, url: str, *, apart: bool) -> str | None:
        """Return where those write who may write to a bucket; None where that is this machine.

        What is only tried stays here if it can. Those who work `apart` write it to a folder of
        its own in the bucket, so that nothing is taken away which somebody else has put.
        """
        if not self.trial:
            return url
        if not apart:
            return None
        folder = folder_below(url, f"temporary/{self.staging.root.name}")
        self.tried.add(folder)
        return folder

    def keys_in(self, scratch: Path) -> Path:
        """Return where key caches are made: in a folder where the repository is read-only.

        Those that it has are linked there.
        """
        if may_write(self.keys):
            return self.keys
        place = scratch / "keys"
        place.mkdir()
        with suppress(FileNotFoundError):
            for known in self.keys.iterdir():
                (place / known.name).symlink_to(known)
        return place

    def bring(self, files: Iterable[tuple[str, int]]) -> None:
        """Have files fetched, all at once, that are not here and can be had."""
        if self.fetcher is not None:
            missing = sorted({each for each in files if not self.has(each[0])})
            if missing:
                self.fetcher.fetch(missing)

    def path(self, file: str) -> Path:
        """Return where a file is, staged or stored."""
        if self.staging.has(file):
            return self.staging.path(file)
        if not self.files.has(file) and self.settled.has(file):
            return self.settled.path(file)
        return self.files.path(file)

    def location(self, file: str) -> Path:
        """Return where a file is or would be."""
        if self.staging.has(file):
            return self.staging.path(file)
        if not self.files.has(file):
            if self.linked.has(file):
                return self.linked.place(file)
            if self.settled.has(file):
                return self.settled.path(file)
        return self.files.location(file)

    def has(self, file: str) -> bool:
        """Whether a file is here."""
        return any(store.has(file) for store in (self.staging, self.files, self.settled))
