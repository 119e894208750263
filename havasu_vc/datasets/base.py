"""Defaults of a dataset: every kind does so unless it says otherwise.

Schemas that were parsed, by their bytes: looking back, most commits have the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from havasu_vc.datasets.protocol import Reading
from havasu_vc.model.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from havasu_vc.datasets.chosen import ChosenKeys
    from havasu_vc.datasets.folder import TreeFolder
    from havasu_vc.datasets.protocol import Dataset, DatasetEdit, DiffPlan, TreeEdit
    from havasu_vc.datasets.storage import Storage
    from havasu_vc.formats.havasu.properties import Digest
    from havasu_vc.model.changes import ChangeBatch
    from havasu_vc.model.commits import ChangeCounts
    from havasu_vc.model.task import Task

__all__ = ["StoredDataset", "remembered_schema"]


class StoredDataset:
    """A dataset that is a frozen record of `path`, `folder`, `storage` and `revision`."""

    def with_path(self, path: str) -> Self:
        """Return it as if it stood elsewhere."""
        return self._with(path=path)

    def with_folder(self, folder: TreeFolder) -> Self:
        """Return it as another folder has it, such as that of a tree in the making."""
        return self._with(folder=folder)

    def with_storage(self, storage: Storage) -> Self:
        """Return it with other storage, such as that of a transaction that edits it."""
        return self._with(storage=storage)

    def _with(self, **changed: object) -> Self:
        found: Self = replace(self, **changed)  # type: ignore[type-var]
        return found

    @property
    def digests(self) -> Mapping[int, Digest] | None:
        """None: nothing tells what the values of a column are but they."""
        return None

    def keep_count(self, rows: int) -> None:
        """Do nothing: it knows without counting."""

    def keys_named(self, names: Sequence[bytes]) -> pa.RecordBatch | None:
        """None: no row has a file of its own."""
        return None

    def count_apart(
        self, keys: pa.RecordBatch, rows: Callable[[], pa.RecordBatch]
    ) -> ChangeCounts | None:
        """None: rows must be read to know how many differ."""
        return None

    @property
    def likely_identity(self) -> str | None:
        """None: it is what stands at its path."""
        return None

    def takes_item(self, name: str) -> bool:
        """No: it has the meta items that are known."""
        return False

    def compare_rows(self, new: Dataset, keys: Sequence[tuple[Any, ...]]) -> list[Task] | None:
        """Return None: to look at some rows is no quicker than to look at all changes."""
        return None

    if TYPE_CHECKING:

        @property
        def schema(self) -> Schema:
            """Its columns."""

    def columns_of_source(self, incoming: Schema) -> Schema:
        """Return its columns: every one of them comes from its source."""
        return self.schema

    def fitted(self, schema: Schema, declared: Mapping[str, str] | None = None) -> Schema:
        """Return another schema with the key of this dataset."""
        return replace(schema, identifier_ids=self.schema.identifier_ids)

    @property
    def keys_item(self) -> str | None:
        """None: rows have the keys of their source."""
        return None

    def rekeyed(
        self, schema: Schema, meta: Mapping[str, bytes | None], rows: Iterable[pa.RecordBatch]
    ) -> TreeEdit | None:
        """Return None: an engine has to write files."""
        return None

    def plan_chosen(self, new: Dataset, chosen: ChosenKeys, *, live: bool) -> Reading:
        """Return that rows are looked up: nothing tells whether they differ."""
        return Reading.ROWS

    def listing_order(self, keys: pa.RecordBatch, schema: Schema) -> pa.Array | None:
        """Return None: rows are listed by key."""
        return None

    def shown(self) -> Self:
        """Return it as it is: people see what a merge sees."""
        return self

    def compare(self, new: Dataset) -> DiffPlan | None:
        """Return how to find the changes from this view to `new`; None for another kind."""
        raise NotImplementedError

    def edit(self) -> DatasetEdit:
        """Return an edit of it; use that as a context manager."""
        raise NotImplementedError

    def diff(self, new: Dataset) -> list[Task]:
        """Return tasks that yield, in key order, the changes from this view to `new`."""
        plan = self.compare(new)
        if plan is None:
            raise TypeError("datasets of two kinds or keys are compared by history")
        return plan.tasks()

    def apply(self, changes: Iterator[ChangeBatch]) -> TreeEdit:
        """Return the edit that makes the changes, after checking each `old` row."""
        with self.edit() as edit:
            edit.collect(changes)
            return edit.finish()


_REMEMBERED = 256
_schemas: dict[tuple[Callable[[bytes, str], Schema], bytes], Schema] = {}


def remembered_schema(parse: Callable[[bytes, str], Schema], data: bytes, where: str) -> Schema:
    """Return the schema that some bytes are; `where` is told of bytes that are none."""
    known = _schemas.get((parse, data))
    if known is None:
        known = parse(data, where)
        if len(_schemas) < _REMEMBERED:
            _schemas[parse, data] = known
    return known
