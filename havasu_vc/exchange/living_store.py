"""The abilities of a living working copy, wherever its tables are: in a file, or in a database.

    home = GeoPackageHome(path, kart=False)     where it is, without a look at it
    with home.open(write=True) as store:        the write lock, or `LockedError`
        seen = store.look(layer)                how a table stands now
        store.tracked(seen)                     keys that were touched
        store.rows(seen, schema, keys)          rows as they are now
        store.put(seen, layer, rows)            rows of another commit, untracked

`exchange.living_file` has it in a GeoPackage, `exchange.postgis_copy` in a schema of PostGIS.
What is edited, and how tables follow HEAD, is told from these alone (`checkouts.living_copy`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from havasu_vc.exchange.living_layer import Layer
from havasu_vc.exchange.living_seen import Seen
from havasu_vc.model.diffs import DatasetHeader
from havasu_vc.model.schema import Schema

__all__ = ["LivingHome", "LivingStore"]


class LivingHome(Protocol):
    """Where a working copy is, or would be."""

    @property
    def name(self) -> str:
        """It, as people are told."""

    @property
    def kind(self) -> str:
        """Its kind: `gpkg` or `postgresql`."""

    @property
    def items(self) -> frozenset[str]:
        """The meta items whose edits it can show, besides columns: `crs` is the main system."""

    @property
    def exists(self) -> bool:
        """Whether there is one."""

    def create(self) -> AbstractContextManager[LivingStore]:
        """Make it in a block, in the place of one that is there; whole after it, or as before."""

    def open(self, *, write: bool = False) -> AbstractContextManager[LivingStore]:
        """Open it; to write, with the lock and in one transaction.

        Raises `InvalidFileError` for what is none, and `LockedError` when another program
        holds the lock.
        """

    def is_locked(self) -> bool:
        """Whether another program holds the lock, as an editor does that has yet to save."""


class LivingStore(Protocol):
    """An open working copy."""

    # What it is of

    @property
    def name(self) -> str:
        """Where it is, as people are told."""

    @property
    def tree(self) -> str:
        """The root tree whose datasets it has; empty for none."""

    @property
    def of_merge(self) -> bool:
        """Whether that tree is of a merge that waited then, so of no commit."""

    def set_tree(self, tree: str, *, of_merge: bool = False) -> None:
        """Remember the root tree whose datasets it has now."""

    def state(self, table: str, key: str) -> str | None:
        """Return what it says of itself, with `*`, or of a table; None where it says nothing."""

    def set_state(self, table: str, key: str, value: str | None) -> None:
        """Have it say something of itself, with `*`, or of a table; None takes it back."""

    def date(self, table: str, when: int) -> None:
        """Say when a table was made as it is, in seconds since 1970, where that is kept."""

    def table_of(self, path: str) -> str:
        """Return the table that a dataset has or would have: its path, `__` between its parts."""

    def plan(
        self, header: DatasetHeader, columns: Sequence[Mapping[str, Any]], table: str
    ) -> Layer:
        """Return how a dataset stands as a table; `columns` are those of its `schema.json`."""

    def commit(self) -> None:
        """Make what was done so far durable, and give the lock back."""

    def source(self, folder: Path) -> str:
        """Return what its tables are imported from, as they were before anything was changed here.

        What has to be made for that is made in a folder, which goes afterwards.
        """

    # How a table stands

    def has_table(self, name: str) -> bool:
        """Whether there is a table of that name."""

    def look(self, layer: Layer) -> Seen | None:
        """Return how a layer's table stands; None where it is gone."""

    def count(self, seen: Seen) -> int:
        """Return how many rows a table has."""

    def has_rows(self, seen: Seen, number: int) -> bool:
        """Whether a table has as many rows as what was tracked says, if it can have others."""

    def other_tables(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the layers that none of some tables is."""

    # What was edited

    def has_track(self, layer: Layer) -> bool:
        """Whether any key of a layer was touched."""

    def tracked(self, seen: Seen) -> pa.RecordBatch:
        """Return the keys that were touched, in stored types."""

    def forget(self, layer: Layer, keys: pa.RecordBatch | None = None) -> None:
        """Forget that keys were touched, or that any were."""

    def note(self, layer: Layer, keys: pa.RecordBatch) -> None:
        """Note that keys were touched, as triggers do."""

    def keys(self, seen: Seen) -> pa.RecordBatch:
        """Return all keys of a table, in stored types; raises for one that comes twice."""

    def rows(self, seen: Seen, schema: Schema, keys: pa.RecordBatch | None) -> pa.RecordBatch:
        """Return the rows of some keys that are there, in `schema`; with None, all rows."""

    # Changing it

    def make(self, layer: Layer, batches: Iterable[pa.RecordBatch]) -> int:
        """Make a layer with all of its rows; return how many there are."""

    def adopt(self, seen: Seen, layer: Layer) -> None:
        """Take a table that stands already as that of a dataset, and track it."""

    def describe(self, seen: Seen, layer: Layer) -> None:
        """Have a table say of itself what its dataset does: title, description, metadata."""

    def attach(self, layer: Layer, text: str | None) -> None:
        """Have a table carry the metadata in XML that stands beside its dataset, or none."""

    def track(self, layer: Layer, seen: Seen | None = None) -> None:
        """Give a table the triggers that track its edits, anew where it has some."""

    def drop(self, layer: Layer) -> None:
        """Remove a layer, whatever it is called now, and what was tracked of it."""

    def drop_other(self, table: str) -> None:
        """Remove a table that is no layer."""

    def suspended(self, layer: Layer, seen: Seen) -> AbstractContextManager[None]:
        """Write to a table without tracking it."""

    def put(self, seen: Seen, layer: Layer, rows: pa.RecordBatch) -> None:
        """Write rows in the place of those that have their keys, whose feature ids they keep."""

    def reserve(self, layer: Layer, highest: int) -> None:
        """Have keys of whole numbers that an editor is given come after one that is not there."""

    def remove(self, seen: Seen, layer: Layer, keys: pa.RecordBatch) -> None:
        """Remove the rows of some keys."""

    def settle(self, seen: Seen, layer: Layer, rows: pa.RecordBatch | None) -> None:
        """Note that a table, as it stands, is what a layer is; `rows` were edited."""
